package account

import (
	"net/http"
	"slices"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/proxy/web"
)

// Rows returns the endpoints of a configuration. Users sign out with out, and
// issuer gives a login what is new when its account has changed.
func Rows(o *endpoint.Options, out *signout.Logout, issuer *signin.Issuer) []endpoint.Row {
	local := o.Local
	page := &page{options: o, overview: mechanism.Overview(local, o.Federation), tokens: local.API}
	logins := &logins{page: page, logout: out}
	password := &password{
		page: page, accounts: local.Accounts, verifier: local.Verifier, logout: out, issuer: issuer,
	}
	tokens := &tokens{page: page, tokens: local.API, sessions: o.Sessions("")}
	own := &ownFactors{page: page, proofs: local.Proofs, logout: out, sessions: o.Sessions("")}
	const get, post = http.MethodGet, http.MethodPost
	rows := []endpoint.Row{
		{Name: "me", Method: get, Do: func(ex *web.Exchange) error { return me(ex, o) }},
		{Name: "csrf-token", Method: get, Do: func(ex *web.Exchange) error { return csrfToken(ex, o) }},
		{Name: "account", Method: get, Home: true, Page: true, Do: logins.serve},
		{Name: "account/sessions", Method: get, Home: true, Do: logins.list},
		{Name: "account/sessions/end", Method: post, Home: true, Sessions: true, Do: logins.end},
		{
			Name: "account/password", Method: post, Home: true, Sessions: true,
			Enabled: password.enabled, May: password.may, Do: password.serve,
		},
		{Name: "account/tokens", Method: get, Home: true, Do: tokens.list},
		{
			Name: "account/tokens", Method: post, Home: true, Sessions: true, Back: programsPage,
			Fresh: endpoint.FreshSignIn, May: tokens.may, Do: tokens.create,
		},
		{Name: "account/tokens/revoke", Method: post, Home: true, Sessions: true, May: tokens.may, Do: tokens.revoke},
	}
	return slices.Concat(rows, own.rows(), clientRows(page))
}
