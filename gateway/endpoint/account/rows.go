package account

import (
	"net/http"
	"slices"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/login/grants"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/web"
)

// Options are the parts of the account endpoints.
type Options struct {
	*endpoint.Options
	Logout   *signout.Logout // of logins that a change ends
	Issuer   *signin.Issuer  // of what the login gets that has changed its account
	Users    *login.Overview
	Verifier *auth.Verifier
	Proofs   *proofs.Proofs
	Tokens   *apitokens.Set
	Consents *grants.Consents // nil: the gateway is no authorization server
	Editor   endpoint.Editor
	Apps     bool // there is a page of the user's applications
	// ProviderTitle returns the users' name of a provider.
	ProviderTitle func(name string) string
}

// Rows returns the endpoints of a configuration.
func Rows(o *Options) []endpoint.Row {
	page := &page{options: o, overview: o.Users, tokens: o.Tokens}
	logins := &logins{page: page, logout: o.Logout}
	password := &password{
		page: page, accounts: o.Users.Accounts, verifier: o.Verifier, logout: o.Logout, issuer: o.Issuer,
	}
	tokens := &tokens{page: page, tokens: o.Tokens, sessions: o.Sessions("")}
	own := &ownFactors{page: page, proofs: o.Proofs, logout: o.Logout, sessions: o.Sessions("")}
	const get, post = http.MethodGet, http.MethodPost
	rows := []endpoint.Row{
		{Name: "me", Method: get, Do: func(ex *web.Exchange) error { return me(ex, o) }},
		{Name: "csrf-token", Method: get, Do: func(ex *web.Exchange) error { return csrfToken(ex, o.Options) }},
		{Name: "account", Method: get, Home: true, Page: true, Do: logins.serve},
		{Name: "account/sessions", Method: get, Home: true, Do: logins.list},
		{Name: "account/sessions/end", Method: post, Home: true, Sessions: true, Do: logins.endLogin},
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
