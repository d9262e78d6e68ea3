package grants

import (
	"context"
	"time"

	"authgate/gateway/auth"
	"authgate/policy"
)

var errMissing = invalid("not built yet")

// Code is what a code is for.
type Code struct {
	Terms
	RedirectURI string // as the client gave it; empty: not given
	Challenge   string // of the proof of the code, by S256 (RFC 7636)
}

// NewCode returns a new code for the login of id. The error is ErrNoConsent without the
// consent of the user; see Consent.
func (g *Grants) NewCode(ctx context.Context, id *policy.Identity, c Code) (code string, err error) {
	return "", errMissing
}

// Redeem exchanges a code for tokens. Of several calls, one succeeds.
func (g *Grants) Redeem(ctx context.Context, code string, check func(*Code) error) (*Issued, error) {
	return nil, errMissing
}

// Refresh exchanges a refresh token.
func (g *Grants) Refresh(ctx context.Context, token string, check func(*Terms) error) (*Issued, error) {
	return nil, errMissing
}

// Credentials returns an access token of a client that acts for itself.
func (g *Grants) Credentials(client string, t Terms) (*Issued, error) { return nil, errMissing }

// Revoke ends a token of a client.
func (g *Grants) Revoke(ctx context.Context, client, token string) error { return errMissing }

// Inspected is what a token of a client is.
type Inspected struct {
	Active          bool
	Terms           Terms
	Identity        *policy.Identity
	Issued, Expires time.Time
	ID              string // jti; empty for a refresh token
	Refresh         bool   // it is a refresh token
}

// Inspect tells a client what a token of its own is.
func (g *Grants) Inspect(ctx context.Context, client, token string) (*Inspected, error) {
	return nil, errMissing
}

// Authenticate returns the identity of a live access token of a grant, whatever it opens.
func (g *Grants) Authenticate(ctx context.Context, token string) (*policy.Identity, *Terms, error) {
	return nil, nil, errMissing
}

// At returns the mechanism for access tokens of grants in front of that for others.
func (g *Grants) At(
	resource func(host string) string, audience []string, others auth.Authenticator,
) auth.Authenticator {
	return others
}

// ContainsOwn reports whether a text contains a code, a refresh token or a device code.
func ContainsOwn(text string) bool { return false }

// Consent is what a user has consented to for one client.
type Consent struct {
	Client, Name string
	Resources    map[string][]string // scopes by resource
	Since        time.Time
}

// Consented reports whether a user has consented.
func (g *Grants) Consented(ctx context.Context, subject, client, resource string, scopes []string) (bool, error) {
	return false, errMissing
}

// Consent records the consent of a user.
func (g *Grants) Consent(ctx context.Context, subject, client, name, resource string, scopes []string) error {
	return errMissing
}

// Consents returns what a user has consented to.
func (g *Grants) Consents(ctx context.Context, subject string) ([]Consent, error) {
	return nil, errMissing
}

// Withdraw ends the consent for a client.
func (g *Grants) Withdraw(ctx context.Context, subject, client string) (bool, error) {
	return false, errMissing
}

// NewDevice returns the codes of a device that asks for tokens.
func (g *Grants) NewDevice(ctx context.Context, t Terms) (deviceCode, userCode string, err error) {
	return "", "", errMissing
}

// Device returns what the device asks for that waits under a user code. The error is
// ErrNoDevice.
func (g *Grants) Device(ctx context.Context, userCode string) (*Terms, error) { return nil, errMissing }

// DecideDevice approves a device for the login of id, or refuses it if id is nil.
func (g *Grants) DecideDevice(ctx context.Context, userCode string, id *policy.Identity) error {
	return errMissing
}

// Poll returns the tokens of a device that was approved.
func (g *Grants) Poll(ctx context.Context, deviceCode string, check func(*Terms) error) (*Issued, error) {
	return nil, errMissing
}
