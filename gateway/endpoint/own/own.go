// Package own puts the gateway's own endpoints together, from the rooms that serve them, and
// finds the one that a request is for.
//
// A path leads to an own endpoint or to a route, and never to both. Some servers decode a path
// once more, or read an encoded slash as a slash. A path that they would read as that of an own
// endpoint is an error, whatever the routes are.
package own

import (
	"maps"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/account"
	"authgate/gateway/endpoint/oauth"
	"authgate/gateway/endpoint/people"
	"authgate/gateway/endpoint/relyingparty"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/endpoint/startpage"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/rate"
	"authgate/policy"
)

// Options are the parts of Endpoints.
type Options struct {
	Config     *config.Config
	Site       *web.Site
	CrossSite  *web.CrossSite
	Now        func() time.Time // the clock of the store
	Local      *mechanism.Local
	Federation *mechanism.Federation
	OAuth      *mechanism.OAuth // nil: the gateway is no authorization server
	Editor     endpoint.Editor
	// MayAddFactor is that of signin.Options; nil: by the configuration.
	MayAddFactor func(*accounts.Account) bool
	// Counts are of registrations of OAuth clients, on all instances; nil: each counts alone.
	Counts *rate.Shared
	// Running are those of the configuration that runs. A limit that stays the same keeps its
	// counts. Nil: none runs.
	Running *Endpoints
}

// Endpoints are the own endpoints of a configuration.
type Endpoints struct {
	ByPath map[string]*endpoint.Endpoint
	Home   *endpoint.Endpoint // at / of the host where users sign in, where there is no route
	Verify string             // the path of verify, which is served on the way of routes
	below  string             // begins the targets of questions in the form of ExternalAuth; empty: there are none
	Shared *endpoint.Options  // of all of them

	config        *config.Config
	registrations *rate.Limiter // of OAuth clients, by address; nil without an authorization server
}

// New makes the own endpoints of a configuration.
func New(o *Options) (*Endpoints, error) {
	cfg, local, shared := o.Config, o.Local, newShared(o)
	users := mechanism.Overview(local, o.Federation)
	mayAddFactor := o.MayAddFactor
	if mayAddFactor == nil {
		mayAddFactor = account.MayAddFactor(o.Editor, local.Proofs)
	}
	e := &Endpoints{config: cfg, Verify: o.Site.Own(config.EndpointVerify), Shared: shared}
	if cfg.Endpoints.ExternalAuth {
		e.below = e.Verify + "/"
	}
	out := signout.New(&signout.Options{
		Options: shared, Users: users, Refresh: local.Refresh, Tokens: local.Bearer, Bearers: o.Federation.Bearers,
		AtProvider: o.Federation.SignOut,
	})
	in := &signin.Options{
		Options: shared, Logout: out, Users: users, Refresh: local.Refresh, Tokens: local.Bearer,
		Tickets:  local.Tickets,
		Verifier: local.Verifier, Proofs: local.Proofs, Invitations: local.Invited, JWKS: local.JWKS,
		Providers: providers(o.Federation), Editor: o.Editor, MayAddFactor: mayAddFactor,
	}
	hosts, issuer := signin.NewOtherHosts(in), signin.NewIssuer(in)
	start := startpage.New(shared, cfg, func(name string) bool { return o.Federation.Provider(name) != nil })
	e.Home = start.Home()
	own := &account.Options{
		Options: shared, Logout: out, Issuer: issuer, Users: users, Verifier: local.Verifier, Proofs: local.Proofs,
		Tokens: local.API, Editor: o.Editor, Apps: cfg.HasApps(), ProviderTitle: o.Federation.Title,
	}
	var server *oauth.Server
	var err error
	if o.OAuth != nil {
		own.Consents = o.OAuth.Consents
		if server, err = e.newServer(o, out); err != nil {
			return nil, err
		}
	}
	rows := slices.Concat(
		signin.Rows(in, hosts, issuer), out.Rows(), account.Rows(own), start.Rows(),
		relyingparty.Rows(&relyingparty.Options{
			Options: shared, Federation: o.Federation, Presented: out.Presented, Hosts: hosts, Accounts: local.Accounts,
			Routes: cfg.Table(),
		}),
		people.Rows(&people.Options{
			Options: shared, Logout: out, Users: users, Editor: o.Editor, Policies: cfg.PolicyRoutes(),
		}),
	)
	if server != nil {
		rows = append(rows, server.Rows()...)
	}
	if e.ByPath, err = endpoint.New(shared, cfg.OwnEndpoints(), rows); err != nil {
		return nil, err
	}
	if server != nil {
		maps.Copy(e.ByPath, server.WellKnown())
		local.Logins.OnEnd(server.LoginEnded)
	}
	return e, nil
}

// newShared returns the options that all own endpoints share.
func newShared(o *Options) *endpoint.Options {
	shared := &endpoint.Options{
		Site: o.Site, CrossSite: o.CrossSite, Now: o.Now, Realm: o.Config.Basic.Realm, Used: used(o),
		Bearers: o.Federation.Bearers, Local: o.Local.Sessions, Admins: o.Config.Admins(),
	}
	if o.Federation.Delegated != nil {
		shared.Delegated = o.Federation.Delegated
	}
	return shared
}

// providers returns the identity providers for the sign-in page.
func providers(f *mechanism.Federation) (shown []signin.Provider) {
	for _, p := range f.Providers {
		shown = append(shown, signin.Provider{Name: p.Name(), Title: p.Title})
	}
	return shown
}

// used returns the mechanisms that some route accepts, and those of users who sign in for the
// authorization server.
func used(o *Options) map[policy.Mechanism]bool {
	used := map[policy.Mechanism]bool{}
	if o.OAuth != nil {
		used[policy.Session], used[policy.OIDC] = true, len(o.Federation.Providers) > 0
	}
	for _, rule := range o.Config.Table().Routes() {
		for _, mechanism := range rule.Mechanisms {
			used[mechanism] = used[mechanism] || rule.Accepts(mechanism)
		}
	}
	return used
}

// newServer makes the authorization server.
func (e *Endpoints) newServer(o *Options, logout *signout.Logout) (*oauth.Server, error) {
	rated := &o.Config.OAuth.RegistrationRate
	limit := rate.Limit{Requests: rated.Requests, Per: rated.Per}
	if o.Running != nil {
		e.registrations = o.Running.registrations
	}
	if e.registrations == nil || e.registrations.Limit() != limit {
		e.registrations = rate.New("oauth:registration", limit, o.Site.Service.Now, o.Counts)
	}
	return oauth.New(oauth.Options{
		Endpoint: e.Shared, Config: o.Config, Clients: o.OAuth.Clients,
		Assertions: o.OAuth.Assertions, Grants: o.OAuth.Grants,
		Consents: o.OAuth.Consents, Devices: o.OAuth.Devices, IDKeys: o.Local.PublicKeys, Logout: logout,
		Registrations: e.registrations, Logins: o.Local.Logins, Accounts: o.Local.Accounts, Verifier: o.Local.Verifier,
		HasDefault: o.Federation.Default != nil,
	})
}

// Find returns the endpoint of a request, nil if it is for a route or for Verify. A path that some
// servers would read as that of an endpoint is an error.
func (e *Endpoints) Find(request *policy.Request) (*endpoint.Endpoint, error) {
	path := &request.Path
	own, err := e.At(request.Host, path.Decoded)
	if err != nil {
		return nil, err
	}
	isOwn := func(path string) bool { return path == e.Verify || e.ByPath[path] != nil }
	switch {
	case path.Opaque && slices.ContainsFunc(path.Readings(), isOwn):
		return nil, &policy.TargetError{Reason: "the path is one of the gateway's own when it is read in another way"}
	case path.Slashed != "" && path.ReadsAs(isOwn):
		return nil, policy.ErrEncodedSlash
	case slices.ContainsFunc(path.Again(), isOwn):
		return nil, &policy.TargetError{Reason: "the path is encoded more than once, and is one of the " +
			"gateway's own when it is decoded again"}
	}
	return own, nil
}

// RepeatedTarget returns the target of the request that a question below Verify repeats. For other
// requests it is empty.
func (e *Endpoints) RepeatedTarget(target string) string {
	if e.below == "" || !strings.HasPrefix(target, e.below) {
		return ""
	}
	return target[len(e.below)-1:]
}

// IsVerify reports whether proxies ask at a path.
func (e *Endpoints) IsVerify(path string) bool {
	return path == e.Verify || e.RepeatedTarget(path) != ""
}

// At returns the endpoint at a path, nil if there is none. Well-known paths have one at some hosts
// alone.
func (e *Endpoints) At(host, path string) (*endpoint.Endpoint, error) {
	own := e.ByPath[path]
	switch known := e.config.WellKnown(); {
	case known.LacksResource(host, path):
		return nil, endpoint.NothingHere("no route of this host that accepts bearer tokens has this resource")
	case own != nil && known.Has(path) && !known.AnsweredAt(host, path):
		return nil, nil
	}
	return own, nil
}
