package oauth

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/clients"
	"authgate/gateway/config"
	"authgate/gateway/grants"
	"authgate/policy"
)

// The scopes of OpenID Connect Core 1.0, section 5.4 and 11, and that of groups. They lend
// no roles.
const (
	scopeOpenID  = "openid"
	scopeProfile = "profile"
	scopeEmail   = "email"
	scopeGroups  = "groups"
	scopeOffline = "offline_access"
)

// terms returns what a client asks for, by the parameters scope and resource.
func (s *core) terms(client *clients.Client, values url.Values) (grants.Terms, error) {
	t := grants.Terms{Client: client.ID, Access: s.lifetimes.access}
	if client.Access > 0 {
		t.Access = client.Access
	}
	if client.May(grantRefresh) {
		if t.Refresh = s.lifetimes.refresh; client.Refresh > 0 {
			t.Refresh = client.Refresh
		}
	}
	asked := values.Get("scope")
	if asked != "" {
		t.Scopes = s.counting(client, strings.Fields(asked))
		if t.Scopes == nil {
			return t, refuse(codeInvalidScope, "None of the scopes is known here. scopes_supported in the metadata of the "+
				"server lists them.")
		}
	}
	t.OpenID = slices.Contains(t.Scopes, scopeOpenID)
	resource, scopes, err := s.resource(client, &t, values["resource"])
	if err != nil {
		return t, err
	}
	if t.Resource = resource; asked == "" && len(scopes) > 0 {
		if t.Scopes = s.counting(client, scopes); t.Scopes == nil {
			return t, refuse(codeInvalidScope, "The client has registered none of the scopes that it gets by default. "+
				"Ask for those that it has registered.")
		}
	}
	return t, nil
}

// counting returns those scopes that count of the ones that a client asks for.
func (s *core) counting(client *clients.Client, asked []string) (counting []string) {
	known := s.section.AllScopes()
	for _, scope := range asked {
		permitted := client.Scopes == nil || slices.Contains(client.Scopes, scope)
		if permitted && slices.Contains(known, scope) && !slices.Contains(counting, scope) {
			counting = append(counting, scope)
		}
	}
	return counting
}

// lending returns the scopes that a client gets which asks for none, where the policy names some
// scopes: those of them that are known, or else all that lend roles.
func lending(o *config.OAuth, named []string) []string {
	known := o.AllScopes()
	named = slices.DeleteFunc(named, func(scope string) bool { return !slices.Contains(known, scope) })
	if len(named) == 0 {
		return slices.Sorted(maps.Keys(o.Scopes))
	}
	return named
}

// resource returns for what tokens are asked: a resource of this gateway (RFC 8707), or, for
// clients of the configuration, "": the audience of the gateway's own tokens. OpenID alone
// needs no resource: the token then opens userinfo. It also returns the scopes of the resource.
func (s *core) resource(
	client *clients.Client, t *grants.Terms, asked []string,
) (resource string, scopes []string, err error) {
	switch {
	case len(asked) > 1:
		return "", nil, refuse(codeInvalidTarget, "A token is for one resource. Ask for each with a request of its own.")
	case len(asked) == 1:
		if resource, scopes, ok := s.known(asked[0]); ok {
			return resource, scopes, nil
		}
		return "", nil, refuse(codeInvalidTarget, "There is no such resource here.")
	case client.Configured:
		return "", lending(s.section, nil), nil
	case t.OpenID:
		return s.address(userinfoPath), nil, nil
	}
	return "", nil, refuse(codeInvalidTarget, "The parameter resource is needed: the address of what the token is for.")
}

// known returns the resource that an address names, as tokens have it, and its scopes.
func (s *core) known(address string) (resource string, scopes []string, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", nil, false
	}
	host, err := policy.CanonicalHost(u.Host)
	if err != nil || !s.samePort(u) {
		return "", nil, false
	}
	return s.resourceAt(host, u.Path)
}

// resourceAt returns the resource with a decoded path at a host, as tokens have it, and its scopes.
func (s *core) resourceAt(host, path string) (resource string, scopes []string, ok bool) {
	if !s.site.Hosts.Has(host) {
		return "", nil, false
	}
	u := url.URL{Path: strings.TrimSuffix(path, "/")}
	path = u.EscapedPath()
	_, parent, _ := strings.Cut(host, ".")
	for _, pattern := range []string{host, "*." + parent, ""} {
		if scopes, ok := s.resources[config.Resource{Host: pattern, Path: path}]; ok {
			return s.site.Origin(host) + path, scopes, true
		}
	}
	return "", nil, false
}

// resources returns the resources of the routes that accept bearer tokens, each with its scopes.
func resources(cfg *config.Config) map[config.Resource][]string {
	found := map[config.Resource][]string{}
	for i, rule := range cfg.Table().Routes() {
		if resource, ok := cfg.Routes[i].Resource(); ok {
			found[resource] = append(found[resource], rule.Scopes()...)
		}
	}
	for resource, named := range found {
		slices.Sort(named)
		found[resource] = lending(&cfg.OAuth, slices.Compact(named))
	}
	return found
}

// samePort reports whether a URL has the port of public_url.
func (s *core) samePort(u *url.URL) bool {
	public, err := url.Parse(s.site.PublicURL)
	return err == nil && portOf(u) == portOf(public)
}

// portOf returns the port of an https URL.
func portOf(u *url.URL) string { return cmp.Or(u.Port(), "443") }
