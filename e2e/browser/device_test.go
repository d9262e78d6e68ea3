package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// device is an authenticator of the person at a tab. It is Chromium's own, without the dialogs.
type device struct {
	b  *tab
	id webauthn.AuthenticatorID
}

// phone is a device that keeps passkeys and verifies its user.
var phone = webauthn.VirtualAuthenticatorOptions{
	Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap21,
	Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
	IsUserVerified: true, AutomaticPresenceSimulation: true,
}

// securityKey is a device that keeps nothing and verifies no user: a touch is enough.
var securityKey = webauthn.VirtualAuthenticatorOptions{
	Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap20,
	Transport: webauthn.AuthenticatorTransportUsb, AutomaticPresenceSimulation: true,
}

// command sends a command of the DevTools protocol to a tab.
func command[P, R any](b *tab, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	return inTab(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
}

// device connects a device to the tab.
func (b *tab) device(kind webauthn.VirtualAuthenticatorOptions) *device {
	b.t.Helper()
	command(b, webauthn.Enable, webauthn.EnableParams{})
	added := command(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &kind})
	return &device{b, added.AuthenticatorID}
}

// leaves disconnects the device.
func (d *device) leaves() {
	d.b.t.Helper()
	command(d.b, webauthn.RemoveVirtualAuthenticator, webauthn.RemoveVirtualAuthenticatorParams{AuthenticatorID: d.id})
}

// passkey returns the only credential that the device has.
func (d *device) passkey() *webauthn.Credential {
	d.b.t.Helper()
	got := command(d.b, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: d.id})
	if len(got.Credentials) != 1 {
		d.b.t.Fatalf("the device has %d credentials, want one", len(got.Credentials))
	}
	return got.Credentials[0]
}

// holds makes a credential the only one of the device.
func (d *device) holds(credential *webauthn.Credential) {
	d.b.t.Helper()
	command(d.b, webauthn.ClearCredentials, webauthn.ClearCredentialsParams{AuthenticatorID: d.id})
	// Chromium takes no empty members that cdproto sends.
	add := cdp.Command[addCredential, cdp.Empty]{Method: webauthn.CommandAddCredential}
	command(d.b, add, addCredential{d.id, map[string]any{
		"credentialId": credential.CredentialID, "isResidentCredential": credential.IsResidentCredential,
		"rpId": credential.RpID, "privateKey": credential.PrivateKey, "signCount": credential.SignCount,
		"userHandle": credential.UserHandle,
	}})
}

type addCredential struct {
	AuthenticatorID webauthn.AuthenticatorID `json:"authenticatorId"`
	Credential      map[string]any           `json:"credential"`
}
