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
	Callback   string        // the path of its redirect URI
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

// row is what an endpoint does, and the rules for all of its methods. [Endpoint.Serve]
// keeps the rules, so that no endpoint forgets one.
type row struct {
	actions actions
	// home: it is served at the host of public_url alone. The application at another
	// host could else use it with the session that a browser sends there.
	home bool
	// page: a page load at another host is led home.
	page bool
	// leadsHome: a GET at another host is led home by the endpoint itself.
	leadsHome bool
	// missing returns why it does not exist for now; nil: it always exists.
	missing func() error
}

// actions are what an endpoint does for each method.
type actions map[string]action

// action is what an endpoint does for one method, and who may ask for it.
type action struct {
	do func(*web.Exchange) error
	// session: a session must prove the user. A token must not make another one,
	// or end a login.
	session bool
	// never returns why the user may not do it, however they sign in; nil: all users
	// may.
	never func(*policy.Identity) error
	// fresh is how old the user's sign-in may be; 0: any age.
	fresh time.Duration
}

// Endpoint is one of the gateway's own endpoints.
type Endpoint struct {
	row
	label     string // for logs and metrics
	site      *web.Site
	crossSite *web.CrossSite
	signIn    *web.SignInLink // nil: nowhere
	user      *account
}

// New returns the endpoints by their paths. It fails if it does not know one of
// the names.
func New(o Options) (map[string]*Endpoint, error) {
	user := o.account()
	known := o.rows(user)
	endpoints := map[string]*Endpoint{}
	for _, name := range o.Names {
		r, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("there is no endpoint %q", name)
		}
		endpoints[o.Site.Own(name)] = o.endpoint(name, r, user)
	}
	return endpoints, nil
}

func (o *Options) endpoint(name string, r row, user *account) *Endpoint {
	return &Endpoint{
		row: r, label: label(name), site: o.Site, crossSite: o.CrossSite, signIn: o.signInLink(name), user: user,
	}
}

func (o *Options) account() *account {
	return &account{
		chain: o.signedIn(), sessions: o.sessions(), logins: o.Local.Logins, site: o.Site, crossSite: o.CrossSite,
	}
}

// isCallback reports whether an endpoint is one where providers send users back to.
func isCallback(name string) bool {
	return name == "auth/callback" || name == "callback" || strings.HasPrefix(name, "callback/")
}

// label returns the label of an endpoint, which does not name the provider.
func label(name string) string {
	if kind, _, ok := strings.Cut(name, "-logout/"); ok {
		name = kind + "-logout"
	}
	if isCallback(name) {
		name = "callback"
	}
	return "authgate/" + name
}

// signInLink returns where the errors of an endpoint offer to sign in.
func (o *Options) signInLink(name string) *web.SignInLink {
	always := isCallback(name)
	if !always && !o.Used[policy.Session] && !o.Used[policy.OIDC] {
		return nil
	}
	return &web.SignInLink{Page: o.Site.Own("signin"), Always: always}
}

// rows returns the endpoints by their names.
func (o *Options) rows(user *account) map[string]row {
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
	issues := &issuer{
		logins: local.Logins, sessions: local.Sessions, refresh: local.Refresh, tokens: tokens, cookies: cookies, now: o.Now,
	}
	in := &passwordLogin{
		accounts: local.Accounts, verifier: local.Verifier, realm: o.Realm, used: o.Used, out: out, page: page, hosts: hosts, metrics: metrics,
		issuer: issues,
	}
	leave := &logout{site: o.Site, crossSite: o.CrossSite, bearers: o.Bearers, out: out, federation: federation}
	rotate := &refresh{crossSite: o.CrossSite, refresh: local.Refresh, tokens: tokens, realm: o.Realm}
	start := &delegation{site: o.Site, federation: federation, signedIn: o.signedIn(), out: out, hosts: hosts}
	finish := &callback{site: o.Site, federation: federation, logins: local.Logins, out: out, hosts: hosts}
	all := map[string]row{
		"login":                 {leadsHome: true, actions: actions{"GET": {do: start.serve}, "POST": {do: in.serve}}},
		"logout":                {actions: actions{"GET": {do: leave.byLink}, "POST": {do: leave.serve}}},
		"refresh":               {actions: actions{"POST": {do: rotate.serve}}},
		"me":                    {actions: actions{"GET": {do: user.serve}}},
		"csrf-token":            {actions: actions{"GET": {do: user.csrfToken}}},
		"signin":                {leadsHome: true, actions: actions{"GET": {do: page.serve}}},
		web.CompletePath:        {actions: actions{"GET": {do: hosts.complete}}},
		web.TwinsPath:           {actions: actions{"POST": {do: (&twins{o.Site}).serve}}},
		"callback":              {actions: actions{"GET": {do: finish.serve}}},
		"auth/callback":         {actions: actions{"GET": {do: finish.serve}}},
		".well-known/jwks.json": {actions: actions{"GET": {do: publicKeys(o.JWKS).serve}}},
	}
	maps.Copy(all, o.accountRows(user, leave, issues))
	for _, p := range federation.Providers {
		all["callback/"+p.Name()] = all["callback"]
		by := &providerLogout{provider: p, users: federation.Users}
		all["backchannel-logout/"+p.Name()] = row{actions: actions{"POST": {do: by.backChannel}}}
		all["frontchannel-logout/"+p.Name()] = row{actions: actions{"GET": {do: by.frontChannel}}}
	}
	return all
}

// accountRows returns /account and everything below it, for the host of public_url alone.
func (o *Options) accountRows(user *account, leave *logout, issues *issuer) map[string]row {
	page := &accountPage{
		account: user, overview: Overview(&o.Local, &o.Federation), accounts: o.Local.Accounts, tokens: o.Local.API,
		passwords: o.Passwords, now: o.Now,
	}
	own := &accountLogins{page, leave}
	secret := &accountPassword{own, o.Local.Verifier, issues}
	tokens := &accountTokens{page}
	rows := map[string]row{
		"account":              {page: true, actions: actions{"GET": {do: own.serve}}},
		"account/sessions":     {actions: actions{"GET": {do: own.list}}},
		"account/sessions/end": {actions: actions{"POST": {do: own.end, session: true}}},
		"account/password": {missing: secret.missing, actions: actions{
			"POST": {do: secret.serve, session: true, never: secret.never},
		}},
		"account/tokens": {actions: actions{
			"GET":  {do: tokens.list},
			"POST": {do: tokens.create, session: true, never: tokens.never, fresh: freshSignIn},
		}},
		"account/tokens/revoke": {actions: actions{
			"POST": {do: tokens.revoke, session: true, never: tokens.never},
		}},
	}
	for name, r := range rows {
		r.home = true
		rows[name] = r
	}
	return rows
}

// Serve answers a request to the endpoint.
func (e *Endpoint) Serve(ex *web.Exchange) error {
	ex.Label, ex.SignIn = e.label, e.signIn
	method := ex.Canonical.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if answered, err := e.elsewhere(ex); answered || err != nil {
		return err
	}
	if ex.WorkerScript() {
		return web.NoServiceWorker("the path is an own endpoint's")
	}
	if err := ex.ReadBody(); err != nil {
		return err
	}
	act, ok := e.actions[method]
	if !ok {
		return e.notAllowed()
	}
	if method != http.MethodGet {
		if err := e.crossSite.CheckOrigin(ex); err != nil {
			return err
		}
	}
	if e.missing != nil {
		if err := e.missing(); err != nil {
			return err
		}
	}
	if answered, err := e.admit(ex, &act); answered || err != nil {
		return err
	}
	ex.Decision = web.DecisionAllow // unless there is an error
	return act.do(ex)
}

// elsewhere answers a request for another host than the endpoint's. It reports whether
// it has led a page load home.
func (e *Endpoint) elsewhere(ex *web.Exchange) (answered bool, err error) {
	switch {
	case e.site.AtHome(&ex.Received), !e.home && !ex.Foreign, e.leadsHome && ex.Reads():
		return false, nil
	case e.page && ex.PageLoad():
		ex.Decision = web.DecisionAllow
		ex.Redirect(http.StatusFound, e.site.PublicURL+ex.Target())
		return true, nil
	case ex.Foreign:
		return false, e.foreign()
	}
	return false, &web.Error{
		Status: http.StatusForbidden, Detail: "The account is at " + e.site.PublicURL + e.site.Own("account") + " alone.",
		Cause: errors.New("the endpoint is served at the host of public_url alone, so that no application can use it"),
	}
}

// admit refuses a user who may not do what they ask for. It reports whether it has led
// the user to the sign-in page instead.
func (e *Endpoint) admit(ex *web.Exchange, act *action) (answered bool, err error) {
	if !act.session {
		return false, nil
	}
	id, err := e.user.changer(ex)
	if err == nil && act.never != nil {
		err = act.never(id)
	}
	if err != nil || act.fresh == 0 || e.user.logins.SignedInWithin(id, act.fresh) {
		return false, err
	}
	if byPage(ex) && !ex.ByScript() {
		ex.Decision = web.DecisionChallenge
		ex.Redirect(http.StatusSeeOther, e.user.signInAgain())
		return true, nil
	}
	return false, &web.Error{
		Status: http.StatusForbidden, MaxAge: act.fresh,
		Detail: fmt.Sprintf("Sign in again to do this. Your sign-in is older than %d minutes.", int(act.fresh.Minutes())),
	}
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
	allowed := slices.Sorted(maps.Keys(e.actions))
	if allowed[0] == http.MethodGet {
		allowed = slices.Insert(allowed, 1, http.MethodHead)
	}
	return &web.Error{
		Status: http.StatusMethodNotAllowed, Allow: strings.Join(allowed, ", "),
		Detail: "This endpoint answers " + strings.Join(allowed, ", ") + ".",
	}
}
