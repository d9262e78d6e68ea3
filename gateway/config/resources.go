package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"authgate/policy"
)

// Resource is a part of the gateway that access tokens are for.
type Resource struct {
	Host string // in the form of Hosts; empty: any of the gateway's
	Path string // as in a URL, without a slash at its end; empty: all paths
}

// Resource returns the resource of a route that accepts bearer: its host, and its path up to
// the first wildcard.
func (route *Route) Resource() (Resource, bool) {
	if !slices.Contains(route.Auth, policy.Bearer) {
		return Resource{}, false
	}
	literal, _, _ := strings.Cut(route.Match, "{")
	path := url.URL{Path: strings.TrimRight(literalPath(literal), "/")}
	return Resource{Host: policy.PatternHost(route.Match), Path: path.EscapedPath()}, true
}

// addresses returns the resources of a route that have a document: its own, and the shared one if
// that has an address.
func (route *Route) addresses() (all []Resource) {
	own, ok := route.Resource()
	if !ok {
		return nil
	}
	all = append(all, own)
	if u, err := url.Parse(route.SharedResource); err == nil && u.Host != "" {
		if host, err := policy.CanonicalHost(u.Host); err == nil {
			all = append(all, Resource{Host: host, Path: u.EscapedPath()})
		}
	}
	return all
}

var resourceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ResourceName returns the name of a resource that several routes share, or its URL as tokens have
// it: with the host in the form of Hosts, and neither the default port nor a slash at the end. The
// error is a phrase to follow the text.
func ResourceName(text string) (string, error) {
	if resourceName.MatchString(text) {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		return "", errors.New("is neither a name of letters, digits, dots, - and _ nor an https URL without a " +
			"query and a fragment, like https://api.example.org")
	}
	host, err := policy.CanonicalHost(u.Host)
	if err != nil {
		return "", fmt.Errorf("has no host that can be reached: %w", err)
	}
	if port := u.Port(); port != "" && port != "443" {
		host += ":" + port
	}
	path := url.URL{Path: strings.TrimSuffix(u.Path, "/")}
	return "https://" + host + path.EscapedPath(), nil
}

// Resources are what access tokens can be for.
type Resources struct {
	own    map[Resource]*Protected // by the address of a route
	shared map[string]*Protected   // by Name
}

// Protected is the routes that one resource opens.
type Protected struct {
	Name   string   // in tokens; empty: the address of the route at the host of the request
	Scopes []string // that a client gets which asks for none
}

// Resources returns the resources of the routes that accept bearer.
func (c *Config) Resources() *Resources {
	r := &Resources{map[Resource]*Protected{}, map[string]*Protected{}}
	for i, rule := range c.Table().Routes() {
		address, ok := c.Routes[i].Resource()
		if !ok {
			continue
		}
		one, name := r.own[address], c.Routes[i].SharedResource
		if name != "" {
			one = r.shared[name]
		}
		if one == nil {
			one = &Protected{Name: name}
		}
		if r.own[address] = one; name != "" {
			r.shared[name] = one
		}
		one.Scopes = append(one.Scopes, rule.Scopes()...)
	}
	for _, one := range r.own {
		slices.Sort(one.Scopes)
		one.Scopes = c.OAuth.DefaultScopes(slices.Compact(one.Scopes))
	}
	return r
}

// At returns the resource with a path, as in a URL without a slash at its end, at a host.
func (r *Resources) At(host, path string) (*Protected, bool) {
	_, parent, _ := strings.Cut(host, ".")
	for _, pattern := range []string{host, "*." + parent, ""} {
		if one, ok := r.own[Resource{pattern, path}]; ok {
			return one, true
		}
	}
	return nil, false
}

// Shared returns the resource of a name.
func (r *Resources) Shared(name string) (*Protected, bool) {
	one, ok := r.shared[name]
	return one, ok
}

// InTokens returns the resource that a name or an address means, as tokens have it, empty if there is none.
func (r *Resources) InTokens(text string) string {
	name, err := ResourceName(text)
	if err != nil {
		return ""
	}
	if _, shared := r.shared[name]; shared {
		return name
	}
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return ""
	}
	host, err := policy.CanonicalHost(u.Host)
	if err != nil {
		return ""
	}
	one, found := r.At(host, u.EscapedPath())
	if !found {
		return ""
	}
	return cmp.Or(one.Name, name)
}

// Of returns the resource of a route that accepts bearer.
func (r *Resources) Of(route *Route) *Protected {
	address, _ := route.Resource()
	return r.own[address]
}

// DefaultScopes returns the scopes that a client gets which asks for none, where the policies name
// some scopes: those of them that are known, or else all that lend roles.
func (o *OAuth) DefaultScopes(named []string) []string {
	known := o.AllScopes()
	named = slices.DeleteFunc(named, func(scope string) bool { return !slices.Contains(known, scope) })
	if len(named) == 0 {
		return slices.Sorted(maps.Keys(o.Scopes))
	}
	return named
}

// resources checks the resources that routes share.
func (k *checker) resources() {
	c, r := k.cfg, k.report
	first := map[Resource]int{} // the first route with the address
	for i := range c.Routes {
		route, at := &c.Routes[i], fmt.Sprintf("routes[%d].resource", i)
		address, bearer := route.Resource()
		if route.SharedResource != "" && !r.Unreadable(at) {
			if err := c.checkSharedResource(route.SharedResource); err != nil {
				r.Fault(at, "%q %v", route.SharedResource, err)
			} else if !bearer {
				r.Fault(at,
					"has no effect, because the route accepts no tokens; add bearer to auth, or remove this key")
			}
		}
		if _, known := first[address]; bearer && !known {
			first[address] = i
		}
	}
	for i := range c.Routes {
		route := &c.Routes[i]
		for _, address := range route.addresses() {
			if other, known := first[address]; known && c.Routes[other].SharedResource != route.SharedResource {
				r.Fault(fmt.Sprintf("routes[%d]", max(i, other)), "tokens for routes[%d] would open this route "+
					"too, whose resource is another one; give both the same resource", min(i, other))
			}
		}
	}
}

// checkSharedResource returns why routes cannot share a resource: tokens for it would be for more.
func (c *Config) checkSharedResource(name string) error {
	if _, err := ResourceName(name); err != nil {
		return err
	}
	switch {
	case slices.Contains(c.Token.Audience, name):
		return errors.New("is a token.audience, whose tokens open all routes; choose another name")
	case c.PublicURL != nil && name == c.PublicURL.String()+c.Endpoints.Prefix+"oauth/userinfo":
		return errors.New("is the address of the gateway's userinfo endpoint, for which clients get tokens that " +
			"only say who a user is; choose another URL")
	}
	return nil
}
