package signin

import (
	"encoding/json"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/invitations"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
)

// Options are the parts of the sign-in of local accounts.
type Options struct {
	*endpoint.Options
	Logout      *signout.Logout // of the logins that a new one replaces
	Users       *login.Overview
	Refresh     *login.RefreshTokens
	Tokens      *login.AccessTokens
	Tickets     *journey.Tickets
	Verifier    *auth.Verifier
	Proofs      *proofs.Proofs
	Invitations *invitations.Invitations
	JWKS        []byte // the public keys
	Providers   []Provider
	Editor      endpoint.Editor
	// MayAddFactor reports whether an account may have a second factor, and has none; nil: no
	// account may.
	MayAddFactor func(*accounts.Account) bool
}

// Provider is an identity provider on the sign-in page.
type Provider struct{ Name, Title string }

// Rows returns the endpoints of a configuration. issuer begins logins, and hosts lead users on.
func Rows(o *Options, hosts *OtherHosts, issuer *Issuer) []endpoint.Row {
	site, metrics := o.Site, o.Site.Service.Metrics
	page := &signInPage{
		site: site, accounts: o.Users.Accounts, providers: o.Providers, remember: o.Users.Sessions.Remembers(),
		passkeys: o.Proofs.SignsIn(), sessions: o.Sessions, hosts: hosts, mayAdd: o.MayAddFactor,
	}
	in := &entrance{o.Logout.Presented, hosts, issuer, site, o.Verifier, metrics, o.MayAddFactor}
	password := &passwordLogin{
		accounts: o.Users.Accounts, verifier: o.Verifier, realm: o.Realm, used: o.Used, page: page, entrance: in,
		metrics: metrics,
	}
	second := &secondStep{
		site: site, proofs: o.Proofs, editor: o.Editor, verifier: o.Verifier,
		entrance: in, narrow: password.narrow, metrics: metrics,
	}
	password.second = second
	passkey := &passkeySignIn{proofs: o.Proofs, password: password, second: second, starts: auth.NewStarts(o.Now)}
	invited := &invite{options: o, second: second, entrance: in, starts: auth.NewStarts(o.Now)}
	refresh := &tokenRefresh{crossSite: o.CrossSite, refresh: o.Refresh, tokens: issuer.tokens, realm: o.Realm}
	keys := endpoint.Row{Name: ".well-known/jwks.json", Method: http.MethodGet, Do: publicKeys(o.JWKS)}
	return append(endpoint.Shared(keys), []endpoint.Row{
		{Name: "login", Method: http.MethodPost, Do: password.serve},
		{Name: "refresh", Method: http.MethodPost, Do: refresh.serve},
		{Name: "signin", Method: http.MethodGet, LeadsHome: true, Do: page.servePage},
		{Name: "signin/code", Method: http.MethodPost, Do: second.serveCode},
		{Name: "signin/passkey", Method: http.MethodPost, Enabled: passkey.enabled, Do: passkey.serve},
		{Name: "signin/passkey/options", Method: http.MethodPost, Enabled: passkey.enabled, Do: passkey.options},
		{Name: invitations.Page, Method: http.MethodGet, Home: true, Page: true, Do: invited.show},
		{Name: invitations.Page, Method: http.MethodPost, Home: true, Do: invited.serve},
		{Name: places.CompletePath, Method: http.MethodGet, Do: hosts.complete},
		{Name: web.TwinsPath, Method: http.MethodPost, Do: clearTwins(site)},
		{Name: web.LanguagePath, Method: http.MethodPost, Do: chooseLanguage(o.Options)},
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
