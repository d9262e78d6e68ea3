package signin

import (
	"encoding/json"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/people/invitations"
	"authgate/gateway/proxy/web"
)

// Rows returns the endpoints of a configuration. issuer begins logins, in the place of those
// that out finds, and hosts lead users on.
func Rows(o *endpoint.Options, out *signout.Logout, hosts *OtherHosts, issuer *Issuer) []endpoint.Row {
	site, local, metrics := o.Site, o.Local, o.Site.Service.Metrics
	page := &signInPage{
		site: site, accounts: local.Accounts, federation: o.Federation, remember: local.Sessions.Remembers(),
		passkeys: local.Proofs.SignsIn(), sessions: o.Sessions, hosts: hosts, mayAdd: o.MayAddFactor,
	}
	in := &entrance{out.Presented, hosts, issuer, site, local.Verifier, metrics, o.MayAddFactor}
	password := &passwordLogin{
		accounts: local.Accounts, verifier: local.Verifier, realm: o.Realm, used: o.Used, page: page, entrance: in,
		metrics: metrics,
	}
	second := &secondStep{
		site: site, proofs: local.Proofs, editor: o.Editor, verifier: local.Verifier,
		entrance: in, narrow: password.narrow, metrics: metrics,
	}
	password.second = second
	passkey := &passkeySignIn{proofs: local.Proofs, password: password, second: second, starts: auth.NewStarts(o.Now)}
	invited := newInvite(o, out, second, in)
	refresh := &tokenRefresh{crossSite: o.CrossSite, refresh: local.Refresh, tokens: issuer.tokens, realm: o.Realm}
	keys := endpoint.Row{Name: ".well-known/jwks.json", Method: http.MethodGet, Do: publicKeys(local.JWKS)}
	return append(endpoint.Shared(keys), []endpoint.Row{
		{Name: "login", Method: http.MethodPost, Do: password.serve},
		{Name: "refresh", Method: http.MethodPost, Do: refresh.serve},
		{Name: "signin", Method: http.MethodGet, LeadsHome: true, Do: page.serve},
		{Name: "signin/code", Method: http.MethodPost, Do: second.serve},
		{Name: "signin/passkey", Method: http.MethodPost, Enabled: passkey.enabled, Do: passkey.serve},
		{Name: "signin/passkey/options", Method: http.MethodPost, Enabled: passkey.enabled, Do: passkey.options},
		{Name: invitations.Page, Method: http.MethodGet, Home: true, Page: true, Do: invited.show},
		{Name: invitations.Page, Method: http.MethodPost, Home: true, Do: invited.serve},
		{Name: web.CompletePath, Method: http.MethodGet, Do: hosts.complete},
		{Name: web.TwinsPath, Method: http.MethodPost, Do: clearTwins(site)},
		{Name: web.LanguagePath, Method: http.MethodPost, Do: chooseLanguage(o)},
	}...)
}

// publicKeys is GET /.well-known/jwks.json: the public keys of access tokens
// (RFC 7517), encoded.
func publicKeys(jwks []byte) func(*web.Exchange) error {
	return func(ex *web.Exchange) error {
		ex.Header().Set("Cache-Control", "public, max-age=300")
		ex.JSON(web.TypeJSON, http.StatusOK, json.RawMessage(jwks))
		return nil
	}
}
