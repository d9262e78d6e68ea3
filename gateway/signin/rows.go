package signin

import (
	"encoding/json"
	"net/http"

	"authgate/gateway/auth"
	"authgate/gateway/endpoint"
	"authgate/gateway/invitations"
	"authgate/gateway/web"
)

// SignIn is the endpoints of the package, and what the user's account needs of them.
type SignIn struct {
	Issuer *Issuer
	Logout *Logout
	Rows   []endpoint.Row
}

// New returns the endpoints of a configuration.
func New(o *endpoint.Options) *SignIn {
	site, local, federation, metrics := o.Site, o.Local, o.Federation, o.Site.Service.Metrics
	presented := &presentedLogins{local: local, delegated: federation.Delegated, metrics: metrics}
	tokens := &tokens{cookies: &site.Cookies, bearer: local.Bearer, metrics: metrics, now: o.Now}
	hosts := &otherHosts{options: o, site: site, presented: presented}
	s := &SignIn{
		Issuer: &Issuer{
			logins: local.Logins, sessions: local.Sessions, refresh: local.Refresh, tokens: tokens, cookies: &site.Cookies,
			now: o.Now,
		},
		Logout: &Logout{site: site, crossSite: o.CrossSite, presented: presented, federation: federation},
	}
	page := &signInPage{
		site: site, accounts: local.Accounts, federation: federation, remember: local.Sessions.Remembers(),
		passkeys: local.Proofs.SignsIn(), sessions: o.Sessions, hosts: hosts, mayAdd: o.MayAddFactor,
	}
	in := &entrance{presented, hosts, s.Issuer, site, metrics, o.MayAddFactor}
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
	invited := newInvite(o, s.Logout, second, in)
	delegated := &delegatedLogin{
		site: site, federation: federation, routes: o.Routes, signedIn: o.SignedIn(), presented: presented, hosts: hosts,
		accounts: local.Accounts,
	}
	refresh := &tokenRefresh{crossSite: o.CrossSite, refresh: local.Refresh, tokens: tokens, realm: o.Realm}
	s.Rows = []endpoint.Row{
		{Name: "login", Method: http.MethodGet, LeadsHome: true, Do: delegated.serve},
		{Name: "login", Method: http.MethodPost, Do: password.serve},
		{Name: "logout", Method: http.MethodGet, Do: s.Logout.byLink},
		{Name: "logout", Method: http.MethodPost, Do: s.Logout.serve},
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
		{Name: ".well-known/jwks.json", Method: http.MethodGet, Do: publicKeys(local.JWKS)},
	}
	s.Rows = append(s.Rows, providerRows(o, presented, hosts)...)
	return s
}

// providerRows returns the endpoints to which identity providers lead users, or which they
// ask for themselves.
func providerRows(o *endpoint.Options, presented *presentedLogins, hosts *otherHosts) (rows []endpoint.Row) {
	federation := o.Federation
	returned := &callback{
		site: o.Site, federation: federation, presented: presented,
		sessions: o.Sessions(""), hosts: hosts,
	}
	names := []string{"callback", "auth/callback"}
	for _, p := range federation.Providers {
		names = append(names, "callback/"+p.Name())
		out := &providerLogout{provider: p, users: federation.Users}
		rows = append(rows,
			endpoint.Row{
				Name: "backchannel-logout/" + p.Name(), Label: "backchannel-logout",
				Method: http.MethodPost, Do: out.backChannel,
			},
			endpoint.Row{
				Name: "frontchannel-logout/" + p.Name(), Label: "frontchannel-logout",
				Method: http.MethodGet, Do: out.frontChannel,
			})
	}
	for _, name := range names {
		rows = append(rows, endpoint.Row{
			Name: name, Label: "callback", Method: http.MethodGet, Anew: true, Enabled: returned.enabled, Do: returned.serve,
		})
	}
	return rows
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
