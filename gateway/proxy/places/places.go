// Package places knows where users go: the hosts and addresses of the gateway, where a user may be led
// after a sign-in, and how that is written in an address.
//
// # Limits and threats
//
// No link leads a user away from the gateway's hosts, or to one of its endpoints that would do
// something the user did not ask for. A browser that waits for a session at another host has a
// binding, see journey.Binding; a binding that does not belong there is dropped.
package places

import (
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/wire/peer"
	"authgate/policy"
)

// Places are those of one configuration. They do not change.
type Places struct {
	PublicURL string
	Prefix    string // of own endpoints
	Hosts     Hosts
	// Start is the URL of the page of the user's applications; empty: there is none.
	Start string
	// ProviderOrigins returns where users may be redirected to sign in.
	ProviderOrigins func() []string

	home   string // the canonical host of PublicURL, where users sign in
	port   string // of PublicURL with its colon; empty: the default
	others bool   // there are others of the gateway's hosts to which users may be led
	forms  string // their origins, to which a form may lead
	domain string // that shares its cookies, after a dot; empty: none

	endpoints    map[string]bool // paths of own endpoints to which no user is led after sign-in
	keepsSlashes bool            // some route keeps encoded slashes
}

// New returns the places of a configuration.
func New(cfg *config.Config) *Places {
	p := &Places{
		PublicURL: cfg.PublicURL.String(), Prefix: cfg.Endpoints.Prefix, Hosts: newHosts(cfg), Start: cfg.StartPage(),
		home: cfg.Hosts()[0],
	}
	p.endpoints = map[string]bool{p.Own(config.EndpointVerify): true}
	for _, name := range cfg.OwnEndpoints() {
		p.endpoints[p.Own(name)] = !isLanding(name)
	}
	if port := cfg.PublicURL.Port(); port != "" {
		p.port = ":" + port
	}
	if cfg.Session.Domain != "" {
		p.domain = "." + cfg.Session.Domain
	}
	others := p.otherHosts(cfg.Hosts())
	p.others, p.forms = len(others) > 0, p.sources(others)
	p.keepsSlashes = slices.ContainsFunc(cfg.Routes,
		func(r config.Route) bool { return r.EncodedSlashes == config.EncodedSlashesKeep })
	return p
}

// Binds reports whether a sign-in may go on at another host, in the browser that waits there.
func (p *Places) Binds() bool { return p.others && p.domain == "" }

// ParseTarget parses the target of a request for a canonical host. It accepts encoded
// slashes if some route keeps them, and opaque paths if some route of the host takes them;
// the route of the request decides.
func (p *Places) ParseTarget(host, target string) (policy.Path, error) {
	switch {
	case p.Hosts.Opaque(host):
		return policy.ParseTargetOpaque(target)
	case p.keepsSlashes:
		return policy.ParseTargetWithSlashes(target)
	}
	return policy.ParseTarget(target)
}

// Own returns the path of an own endpoint.
func (p *Places) Own(name string) string { return config.OwnPath(p.Prefix, name) }

// SecureURL returns where a request by plain HTTP is redirected to: the same
// host if it is a name of the gateway's, with the port of public_url, and else
// public_url. Addresses are the gateway's only so that load balancers can ask
// for them; people are led to the name that they know.
func (p *Places) SecureURL(host string, path policy.Path) string {
	if !p.Hosts.Has(host) || peer.ParseAddr(host).IsValid() {
		return p.PublicURL + path.Target()
	}
	return p.Origin(host) + path.Target()
}

// Origin returns the origin of one of the gateway's hosts.
func (p *Places) Origin(host string) string { return "https://" + host + p.port }

// CookieScope returns where browsers send the cookies that the gateway sets at
// a host; see auth.Credentials.
func (p *Places) CookieScope(host string) string {
	if p.domain != "" && (strings.HasSuffix(host, p.domain) || host == p.domain[1:]) {
		return p.domain
	}
	return host
}

// HostOrHome returns the host if it is one of the gateway's, else that of public_url, where users sign
// in.
func (p *Places) HostOrHome(host string) string {
	if p.Hosts.Has(host) {
		return host
	}
	return p.home
}

// IsHome reports whether a canonical host is the one where users sign in.
func (p *Places) IsHome(host string) bool { return host == p.home }

// SignInHost returns the host that a user signs in to: the host of the page that they
// want, or the host of public_url.
func (p *Places) SignInHost(r Return) string {
	if r.Host != "" {
		return r.Host
	}
	return p.home
}

// LeadsTo reports whether a user may be led to a host during a sign-in. The
// name or the address of the user's own machine is one of the gateway's hosts
// for tests: another program can listen there, so it counts only if public_url
// is such a name too. Where the cookie of session.domain does not get, a
// sign-in would never end.
func (p *Places) LeadsTo(host string) bool {
	switch {
	case host == p.home:
		return true
	case !p.Hosts.Has(host) || loopback(host) && !loopback(p.home):
		return false
	}
	return p.domain == "" || p.CookieScope(host) == p.domain
}

func loopback(host string) bool { return policy.Loopback(strings.Trim(host, "[]")) }

// otherHosts returns the hosts of the gateway that users may be led to, without the host of
// public_url.
func (p *Places) otherHosts(hosts []string) []string {
	return slices.DeleteFunc(hosts, func(host string) bool {
		// A name below a wildcard represents all of them.
		return host == p.home || !p.LeadsTo(strings.Replace(host, "*", "x", 1))
	})
}

// sources returns the origins of hosts as sources of a Content-Security-Policy
// (CSP Level 3, section 2.3.1), which has no form for IPv6 addresses.
func (p *Places) sources(hosts []string) string {
	var origins []string
	for _, host := range hosts {
		if !strings.HasPrefix(host, "[") {
			origins = append(origins, p.Origin(host))
		}
	}
	return strings.Join(origins, " ")
}

// FormTargets returns the origins to which forms on the gateway's pages at a
// host may lead, beside their own: browsers apply form-action to the redirects
// that follow a form.
func (p *Places) FormTargets(host string) string {
	targets := []string{p.forms}
	if host != "" && host != p.home {
		targets = append(targets, p.PublicURL)
	}
	if p.ProviderOrigins != nil {
		providers := p.ProviderOrigins()
		slices.Sort(providers)
		targets = append(targets, slices.Compact(providers)...)
	}
	return strings.TrimSpace(strings.Join(targets, " "))
}
