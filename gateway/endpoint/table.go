// Package endpoint is the table of the gateway's own endpoints.
//
// A [Row] has the function for one method of one endpoint, and its rules: where it is served, who
// may ask, how fresh their sign-in must be. [Endpoint.Serve] keeps the rules, so that no endpoint
// forgets one. The rooms above fill the table.
//
// These rooms share the package's [Options], who is asking, how fresh a sign-in must be, and the
// [Editor] of accounts.
package endpoint

import (
	"fmt"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/cors"
	"authgate/policy"
)

// FreshSignIn is how old the sign-in of a user may be for changes that outlive the session: of API
// tokens, second factors or the accounts of others. A session that was left open, or stolen, must
// not make them.
const FreshSignIn = 10 * time.Minute

// Options are shared by the endpoints of one configuration.
type Options struct {
	Site      *web.Site
	CrossSite *web.CrossSite
	Now       func() time.Time // the clock of the store
	Realm     string
	Used      map[policy.Mechanism]bool // by some route, or by the authorization server
	Bearers   auth.Authenticator        // bearer tokens
	Local     auth.Authenticator        // sessions of local accounts
	Delegated auth.Authenticator        // sessions of users of providers; nil: there are no providers
	// Admins decides who looks after accounts; nil: no user does.
	Admins *policy.Route
}

// Row has the function for one method of one of the gateway's own endpoints, and its rules.
type Row struct {
	Name   string // of the endpoint, under the prefix
	Method string // GET means HEAD too
	Label  string // for logs and metrics; empty: the name
	// Do answers a request that keeps the rules.
	Do func(*web.Exchange) error

	// Enabled returns why the row does not exist for now; nil: it always exists.
	Enabled func() error
	// Home: it is served at the host of public_url alone. The application at another
	// host could else use it with the session that a browser sends there. If one row of
	// an endpoint is Home, all are.
	Home bool
	// Page: a page load at another host is led home.
	Page bool
	// LeadsHome: Do leads requests of other hosts home itself.
	LeadsHome bool
	// AnyOrigin: pages of other sites may ask for a state change. Then Do must not go
	// by cookies.
	AnyOrigin bool
	// NoCookies: it is for programs, and no cookie is read. If one row of an endpoint is
	// NoCookies, all are.
	NoCookies bool
	// CORS says whose scripts may read the answers, and errors too; nil: those of the own origin. If
	// one row of an endpoint has it, all have.
	CORS *cors.Policy
	// OAuth: errors are told as OAuth has them (RFC 6749, section 5.2). If one row of an endpoint is
	// OAuth, all are.
	OAuth bool
	// Sessions: a session must prove the user, whom Do finds in the exchange. A token
	// must not make another one, or end a login.
	Sessions bool
	// May returns why a user may not do it, however they sign in; nil: all users may.
	// It needs Sessions.
	May func(*policy.Identity) error
	// Fresh is how old the user's sign-in may be; 0: any age. It needs Sessions.
	Fresh time.Duration
	// Demand returns the demand on the user's sign-in, beside Fresh; nil: no more. It needs
	// Sessions.
	Demand func(*policy.Identity) policy.Demand
	// Admins: only users who look after accounts may know of it; others get 404. If one row of
	// an endpoint is Admins, all are.
	Admins bool
	// Back is the name of the page where a user comes back to whose form needs another sign-in;
	// empty: the account.
	Back string
	// Anew: the pages of its errors offer to sign in anew, with any error.
	Anew bool
}

// Endpoint is one of the gateway's own endpoints: the rows of a name.
type Endpoint struct {
	options *Options
	rows    map[string]Row // by method
	label   string
	home    bool
	admins  bool
	blind   bool // to cookies
	cors    *cors.Policy
	oauth   bool
	back    string
	signIn  *web.SignInLink // nil: nowhere
	tells   bool            // a 401 says where users sign in
}

// ReadsCookies reports whether a request to the endpoint may have cookies that count.
func (e *Endpoint) ReadsCookies() bool { return !e.blind }

// SetErrorForm sets who may read an error of the endpoint, and its form. Serve does so itself: it is
// for errors that come before.
func (e *Endpoint) SetErrorForm(ex *web.Exchange) { ex.CORS, ex.OAuth = e.cors, e.oauth }

// New returns the endpoints of those names by their paths. It fails if there is no row
// for one of the names, and if a row has a rule about the user without Sessions: nothing
// would keep it.
func New(o *Options, names []string, rows []Row) (map[string]*Endpoint, error) {
	for _, row := range rows {
		if !row.Sessions && (row.May != nil || row.Fresh != 0 || row.Demand != nil) {
			return nil, fmt.Errorf("the endpoint %q has a rule about its user, but needs no session", row.Name)
		}
	}
	endpoints := map[string]*Endpoint{}
	for _, name := range names {
		e := newEndpoint(o, name, rows)
		if len(e.rows) == 0 {
			return nil, fmt.Errorf("there is no endpoint %q", name)
		}
		endpoints[o.Site.Own(name)] = e
	}
	return endpoints, nil
}

// Single returns the endpoint of rows of one name, which may have any path.
func Single(o *Options, rows ...Row) *Endpoint { return newEndpoint(o, rows[0].Name, rows) }

func newEndpoint(o *Options, name string, rows []Row) *Endpoint {
	e := &Endpoint{options: o, rows: map[string]Row{}, label: "authgate/" + name, back: "account"}
	anew := false
	for _, row := range rows {
		if row.Name != name {
			continue
		}
		e.rows[row.Method] = row
		e.home, anew = e.home || row.Home, anew || row.Anew
		e.admins, e.blind, e.oauth = e.admins || row.Admins, e.blind || row.NoCookies, e.oauth || row.OAuth
		if row.CORS != nil {
			e.cors = row.CORS
		}
		if row.Back != "" {
			e.back = row.Back
		}
		if row.Label != "" {
			e.label = "authgate/" + row.Label
		}
	}
	if anew || o.Used[policy.Session] || o.Used[policy.OIDC] {
		e.signIn = &web.SignInLink{Page: o.Site.Own("signin"), Always: anew}
	}
	e.tells = e.signIn != nil || o.Used[policy.Bearer]
	return e
}
