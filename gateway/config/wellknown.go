package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"authgate/policy"
)

// Well-known paths (RFC 8615).
const (
	wellKnownServer   = "/.well-known/oauth-authorization-server" // RFC 8414, section 3
	wellKnownOpenID   = "/.well-known/openid-configuration"       // OpenID Connect Discovery 1.0, section 4
	WellKnownFinger   = "/.well-known/webfinger"                  // RFC 7033, section 4
	WellKnownResource = "/.well-known/oauth-protected-resource"   // RFC 9728, section 3
)

// WellKnown are the paths outside of Endpoints.Prefix where the gateway answers itself, decoded:
// those of the documents about the issuer, WellKnownFinger, and WellKnownResource with the path of
// each resource. Without OAuth.Enabled there are none.
type WellKnown struct {
	hosts     map[string][]string // that have the path; the empty host is any host of the gateway
	resources []string            // the hosts of resources
}

// WellKnown returns the well-known paths of the gateway.
func (c *Config) WellKnown() *WellKnown { return &c.wellKnown }

// newWellKnown finds the paths. home is the host of public_url.
func newWellKnown(home, issuer string, routes []Route) WellKnown {
	w := WellKnown{hosts: map[string][]string{}}
	for _, path := range append(metadataPaths(issuer), WellKnownFinger) {
		w.hosts[path] = []string{home}
	}
	known := map[Resource]bool{}
	for i := range routes {
		for _, resource := range routes[i].addresses() {
			if !known[resource] {
				known[resource] = true
				path := WellKnownResource + literalPath(resource.Path)
				w.hosts[path] = append(w.hosts[path], resource.Host)
				w.resources = append(w.resources, resource.Host)
			}
		}
	}
	w.resources = unique(w.resources)
	return w
}

// metadataPaths returns the paths of the documents about the issuer. The path of
// token.issuer follows the well-known path (RFC 8414, section 3.1). The document of OpenID
// Connect is also where clients of that look: after the path of the issuer.
func metadataPaths(issuer string) []string {
	below := ""
	if u, err := url.Parse(issuer); err == nil {
		below = strings.TrimSuffix(u.Path, "/")
	}
	return unique([]string{wellKnownServer + below, wellKnownOpenID + below, below + wellKnownOpenID})
}

// Paths returns the paths in order.
func (w *WellKnown) Paths() []string { return slices.Sorted(maps.Keys(w.hosts)) }

// Has reports whether a path is one of Paths.
func (w *WellKnown) Has(path string) bool { return w.hosts[path] != nil }

// AnsweredAt reports whether the gateway answers at one of Paths at a host, which has the form of
// policy.CanonicalHost. The documents about the issuer are at the host of public_url alone:
// applications at other hosts may have documents of their own.
func (w *WellKnown) AnsweredAt(host, path string) bool {
	return slices.ContainsFunc(w.hosts[path], func(own string) bool { return matchesHost(own, host) })
}

// LacksResource reports whether a path is that of a document about a resource, and there is no
// such resource at the host, but another one. At a host without resources, such documents are
// the business of its applications.
func (w *WellKnown) LacksResource(host, path string) bool {
	rest, found := strings.CutPrefix(path, WellKnownResource)
	return found && (rest == "" || rest[0] == '/') && !w.AnsweredAt(host, path) &&
		slices.ContainsFunc(w.resources, func(own string) bool { return matchesHost(own, host) })
}

// matchesHost reports whether a host is that of a pattern: the same, or one label below a wildcard.
// Without a host, the pattern means each.
func matchesHost(pattern, host string) bool {
	parent, wildcard := strings.CutPrefix(pattern, "*.")
	label, found := strings.CutSuffix(host, "."+parent)
	return pattern == "" || pattern == host || wildcard && found && label != "" && !strings.Contains(label, ".")
}

// wellKnown checks that no route has a path where the gateway answers itself.
func (k *checker) wellKnown() {
	w, one := &k.cfg.wellKnown, len(k.cfg.namedHosts()) == 1
	for i, route := range k.cfg.Routes {
		path, host := literalPath(route.Match), policy.PatternHost(route.Match)
		if slices.Contains(w.hosts[path], host) || one && w.Has(path) || w.AnsweredAt(host, path) {
			k.report.Fault(fmt.Sprintf("routes[%d].match", i), "%q can never be reached, because the gateway itself "+
				"answers there with oauth.enabled; remove the route", route.Match)
		}
	}
}
