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

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/account"
	"authgate/gateway/endpoint/oauth"
	"authgate/gateway/endpoint/people"
	"authgate/gateway/endpoint/relyingparty"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/endpoint/startpage"
	"authgate/gateway/wire/rate"
	"authgate/policy"
)

// Options are the parts of Endpoints.
type Options struct {
	Config *config.Config
	// Shared has Site, CrossSite, Now, Local, Federation, OAuth and Editor. New sets the rest of
	// it, by the configuration.
	Shared *endpoint.Options
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

	config        *config.Config
	registrations *rate.Limiter // of OAuth clients, by address; nil without an authorization server
}

// New makes the own endpoints of a configuration.
func New(o *Options) (*Endpoints, error) {
	cfg, shared := o.Config, o.Shared
	shared.Realm, shared.Apps, shared.Admins = cfg.Basic.Realm, cfg.HasApps(), cfg.Admins()
	shared.Routes, shared.Used = cfg.Table(), used(cfg.Table(), shared)
	if shared.MayAddFactor == nil {
		shared.MayAddFactor = account.MayAddFactor(shared.Editor, shared.Local.Proofs)
	}
	e := &Endpoints{config: cfg, Verify: shared.Site.Own(config.EndpointVerify)}
	out, start := signout.New(shared), startpage.New(shared, cfg)
	hosts, issuer := signin.NewOtherHosts(shared, out.Presented), signin.NewIssuer(shared)
	e.Home = start.Home()
	rows := slices.Concat(
		signin.Rows(shared, out, hosts, issuer), out.Rows(), relyingparty.Rows(shared, out.Presented, hosts),
		account.Rows(shared, out, issuer), people.Rows(shared, out, cfg.PolicyRoutes()), start.Rows(),
	)
	var server *oauth.Server
	var err error
	if shared.OAuth != nil {
		if server, err = e.newServer(o, out); err != nil {
			return nil, err
		}
		rows = append(rows, server.Rows()...)
	}
	if e.ByPath, err = endpoint.New(shared, cfg.OwnEndpoints(), rows); err != nil {
		return nil, err
	}
	if server != nil {
		maps.Copy(e.ByPath, server.WellKnown())
		shared.Local.Logins.OnEnd(server.LoginEnded)
	}
	return e, nil
}

// used returns the mechanisms that some route accepts, and those of users who sign in for the
// authorization server.
func used(routes *policy.Table, shared *endpoint.Options) map[policy.Mechanism]bool {
	used := map[policy.Mechanism]bool{}
	if shared.OAuth != nil {
		used[policy.Session], used[policy.OIDC] = true, len(shared.Federation.Providers) > 0
	}
	for _, rule := range routes.Routes() {
		for _, mechanism := range rule.Mechanisms {
			used[mechanism] = used[mechanism] || rule.Accepts(mechanism)
		}
	}
	return used
}

// newServer makes the authorization server.
func (e *Endpoints) newServer(o *Options, logout *signout.Logout) (*oauth.Server, error) {
	rated, shared := &o.Config.OAuth.RegistrationRate, o.Shared
	limit := rate.Limit{Requests: rated.Requests, Per: rated.Per}
	if o.Running != nil {
		e.registrations = o.Running.registrations
	}
	if e.registrations == nil || e.registrations.Limit() != limit {
		e.registrations = rate.New("oauth:registration", limit, shared.Site.Service.Now, o.Counts)
	}
	return oauth.New(oauth.Options{
		Endpoint: shared, Config: o.Config, Clients: shared.OAuth.Clients, Grants: shared.OAuth.Grants,
		Consents: shared.OAuth.Consents, Devices: shared.OAuth.Devices, IDKeys: shared.Local.PublicKeys, Logout: logout,
		Registrations: e.registrations,
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
	case path.Slashed != "" && isOwn(path.Slashed):
		return nil, policy.ErrEncodedSlash
	case slices.ContainsFunc(path.Again(), isOwn):
		return nil, &policy.TargetError{Reason: "the path is encoded more than once, and is one of the gateway's own when " +
			"it is decoded again"}
	}
	return own, nil
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
