package endpoint

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/provider"
	"authgate/gateway/web"
	"authgate/policy"
)

// Options are what the endpoints of one configuration need.
type Options struct {
	Names      []string // of the endpoints, under the prefix
	Site       *web.Site
	Now        func() time.Time // the clock of the store
	CrossSite  *web.CrossSite
	Realm      string
	JWKS       []byte                    // the public keys of access tokens
	Used       map[policy.Mechanism]bool // by some route
	Local      Local
	Federation Federation
	Bearers    *login.BearerTokens
	Passwords  Passwords
}

// Local is what users with local accounts sign in with.
type Local struct {
	Accounts *auth.Accounts
	Verifier *auth.Verifier
	Logins   *login.Logins
	Tickets  *login.Tickets
	Sessions *login.Sessions
	Bearer   *login.AccessTokens // the gateway's own tokens
	Refresh  *login.RefreshTokens
	API      *login.APITokens
}

// Federation is what users sign in with at identity providers. Without
// providers all of it is nil.
type Federation struct {
	Providers []*Provider // in the order of the configuration
	Default   *Provider   // where GET /login goes without a choice; nil if the user has to choose
	Users     *login.Users
	Delegated *login.Sessions
	Attempts  *login.Attempts
}

// Overview returns what users see of their logins.
func Overview(local *Local, federation *Federation) *login.Overview {
	return &login.Overview{
		Logins: local.Logins, Accounts: local.Accounts, Sessions: local.Sessions,
		Users: federation.Users, Delegated: federation.Delegated,
	}
}

// Provider is an identity provider as users sign in there.
type Provider struct {
	*provider.Provider
	Identifier string        // its issuer; without OpenID Connect, where its tokens come from
	Title      string        // what users call it
	Timeout    time.Duration // of each call
}

// Issuer returns the identifier.
func (p *Provider) Issuer() string { return p.Identifier }

// Provider returns the provider of that name, nil if there is none.
func (f *Federation) Provider(name string) *Provider {
	for _, p := range f.Providers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// signedIn are the mechanisms that tell who a user is: all but Basic.
func (o *Options) signedIn() auth.Chain {
	return append(auth.Chain{o.Bearers}, o.sessions()...)
}

// sessions are the mechanisms of users in a browser.
func (o *Options) sessions() auth.Chain {
	chain := auth.Chain{o.Local.Sessions}
	if o.Federation.Delegated != nil {
		chain = append(chain, o.Federation.Delegated)
	}
	return chain
}

// methods are what an endpoint does for each method.
type methods map[string]func(*web.Exchange) error

// Endpoint is one of the gateway's own endpoints.
type Endpoint struct {
	label     string // for logs and metrics
	methods   methods
	crossSite *web.CrossSite
	signIn    *web.SignInLink // nil: nowhere
	leadsHome bool            // a GET at another host redirects to public_url
}

// New returns the endpoints by their paths. It fails if it does not know one of
// the names.
func New(o Options) (map[string]*Endpoint, error) {
	known := o.handlers()
	endpoints := map[string]*Endpoint{}
	for _, name := range o.Names {
		handlers, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("there is no endpoint %q", name)
		}
		endpoints[o.Site.Own(name)] = &Endpoint{
			label: label(name), methods: handlers, crossSite: o.CrossSite, signIn: o.signInLink(name),
			leadsHome: name == "signin" || name == "login",
		}
	}
	return endpoints, nil
}

// label returns the label of an endpoint, which does not name the provider.
func label(name string) string {
	if kind, _, ok := strings.Cut(name, "-logout/"); ok {
		name = kind + "-logout"
	}
	return "authgate/" + name
}

// signInLink returns where the errors of an endpoint offer to sign in.
func (o *Options) signInLink(name string) *web.SignInLink {
	always := name == "callback"
	if !always && !o.Used[policy.Session] && !o.Used[policy.OIDC] {
		return nil
	}
	return &web.SignInLink{Page: o.Site.Own("signin"), Always: always}
}

// handlers returns what the endpoints do, by their names.
func (o *Options) handlers() map[string]methods {
	cookies, metrics := &o.Site.Cookies, o.Site.Service.Metrics
	local, federation := &o.Local, &o.Federation
	out := &signOut{
		logins: local.Logins, sessions: local.Sessions, refresh: local.Refresh, bearer: local.Bearer,
		delegated: federation.Delegated, metrics: metrics,
	}
	tokens := &tokens{cookies: cookies, bearer: local.Bearer, metrics: metrics, now: o.Now}
	hosts := &otherHosts{
		site: o.Site, logins: local.Logins, tickets: local.Tickets, sessions: local.Sessions, delegated: federation.Delegated, out: out, now: o.Now,
	}
	page := &signInPage{site: o.Site, accounts: local.Accounts, federation: federation, hosts: hosts}
	user := &account{chain: o.signedIn(), sessions: o.sessions(), site: o.Site, crossSite: o.CrossSite}
	mine := &accountPage{
		account: user, overview: Overview(local, federation), accounts: local.Accounts, tokens: local.API, passwords: o.Passwords, now: o.Now,
	}
	owned := &accountTokens{mine}
	in := &passwordLogin{
		accounts: local.Accounts, verifier: local.Verifier, realm: o.Realm, used: o.Used, out: out, page: page, hosts: hosts, metrics: metrics,
		issuer: issuer{logins: local.Logins, sessions: local.Sessions, refresh: local.Refresh, tokens: tokens, cookies: cookies, now: o.Now},
	}
	leave := &logout{site: o.Site, crossSite: o.CrossSite, bearers: o.Bearers, out: out, federation: federation}
	own := &accountLogins{mine, leave}
	secret := &accountPassword{own, local.Verifier}
	rotate := &refresh{crossSite: o.CrossSite, refresh: local.Refresh, tokens: tokens, realm: o.Realm}
	start := &delegation{site: o.Site, federation: federation, out: out, hosts: hosts}
	finish := &callback{site: o.Site, federation: federation, logins: local.Logins, out: out, hosts: hosts}
	all := map[string]methods{
		"login":                 {"GET": start.serve, "POST": in.serve},
		"logout":                {"GET": leave.byLink, "POST": leave.serve},
		"refresh":               {"POST": rotate.serve},
		"me":                    {"GET": user.serve},
		"csrf-token":            {"GET": user.csrfToken},
		"signin":                {"GET": page.serve},
		"account":               {"GET": own.serve},
		"account/sessions":      {"GET": own.list},
		"account/sessions/end":  {"POST": own.end},
		"account/password":      {"POST": secret.serve},
		"account/tokens":        {"GET": owned.list, "POST": owned.create},
		"account/tokens/revoke": {"POST": owned.revoke},
		web.CompletePath:        {"GET": hosts.complete},
		"callback":              {"GET": finish.serve},
		"auth/callback":         {"GET": finish.serve},
		".well-known/jwks.json": {"GET": publicKeys(o.JWKS).serve},
	}
	for _, p := range federation.Providers {
		by := &providerLogout{provider: p, users: federation.Users}
		all["backchannel-logout/"+p.Name()] = methods{"POST": by.backChannel}
		all["frontchannel-logout/"+p.Name()] = methods{"GET": by.frontChannel}
	}
	return all
}

// Serve answers a request to the endpoint. It reads the body in any case.
func (e *Endpoint) Serve(ex *web.Exchange) error {
	ex.Label, ex.SignIn = e.label, e.signIn
	method := ex.Canonical.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if ex.Foreign && !(e.leadsHome && method == http.MethodGet) {
		return e.foreign()
	}
	if err := ex.ReadBody(); err != nil {
		return err
	}
	serve, ok := e.methods[method]
	if !ok {
		return e.notAllowed()
	}
	if method != http.MethodGet {
		if err := e.crossSite.CheckOrigin(ex); err != nil {
			return err
		}
	}
	ex.Decision = web.DecisionAllow // unless there is an error
	return serve(ex)
}

// foreign refuses a request at a host that is not the gateway's (listen.any_host,
// or an address that load balancers ask for): its owner may control what browsers
// send there, and could use what a user would get.
func (e *Endpoint) foreign() error {
	return &web.Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "The gateway's own endpoints are not served at this host. Use the address of the gateway.",
		Cause:  errors.New("an own endpoint at a host that is not one of the gateway's: that of public_url, those in routes, tls.domains"),
	}
}

func (e *Endpoint) notAllowed() error {
	allowed := slices.Sorted(maps.Keys(e.methods))
	if allowed[0] == http.MethodGet {
		allowed = slices.Insert(allowed, 1, http.MethodHead)
	}
	return &web.Error{
		Status: http.StatusMethodNotAllowed, Allow: strings.Join(allowed, ", "),
		Detail: "This endpoint answers " + strings.Join(allowed, ", ") + ".",
	}
}
