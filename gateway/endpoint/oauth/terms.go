package oauth

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
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

// terms returns the terms that a client asks for, by the parameters scope and resource.
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
		t.Scopes = s.countingScopes(client, strings.Fields(asked))
		if t.Scopes == nil {
			return t, refuse(codeInvalidScope, "None of the scopes is known here. "+
				"scopes_supported in the metadata of the server lists them.")
		}
	}
	t.OpenID = slices.Contains(t.Scopes, scopeOpenID)
	resource, scopes, err := s.resource(client, &t, values["resource"])
	if err != nil {
		return t, err
	}
	if t.Resource = resource; asked == "" && len(scopes) > 0 {
		if t.Scopes = s.countingScopes(client, scopes); t.Scopes == nil {
			return t, refuse(codeInvalidScope, "The client has registered none of the scopes that it gets by default. "+
				"Ask for those that it has registered.")
		}
	}
	return t, nil
}

// countingScopes returns those scopes that count of the ones that a client asks for.
func (s *core) countingScopes(client *clients.Client, asked []string) (counting []string) {
	known := s.section.AllScopes()
	for _, scope := range asked {
		permitted := client.Scopes == nil || slices.Contains(client.Scopes, scope)
		if permitted && slices.Contains(known, scope) && !slices.Contains(counting, scope) {
			counting = append(counting, scope)
		}
	}
	return counting
}

// resource returns the audience of the tokens: a resource of this gateway (RFC 8707), or, for
// clients of the configuration, "", which is the audience of the gateway's own tokens. OpenID alone
// needs no resource: the token then opens userinfo. It also returns the scopes of the resource.
func (s *core) resource(
	client *clients.Client, t *grants.Terms, asked []string,
) (resource string, scopes []string, err error) {
	switch {
	case len(asked) > 1:
		return "", nil, refuse(codeInvalidTarget,
			"A token is for one resource. Ask for each with a request of its own.")
	case len(asked) == 1:
		if resource, scopes, ok := s.findResource(asked[0]); ok {
			return resource, scopes, nil
		}
		return "", nil, refuse(codeInvalidTarget, "There is no such resource here.")
	case client.Configured && (client.AllByDefault || !s.openIDAlone(t.Scopes)):
		return "", s.section.DefaultScopes(nil), nil
	case client.Configured || t.OpenID:
		return s.address(userinfoPath), nil, nil
	}
	return "", nil, refuse(codeInvalidTarget, "The parameter resource is needed: the address of what the token is for.")
}

// openIDAlone reports whether a client asks for scopes, and only for those of OpenID: it wants to know
// who the user is, and not to act for them.
func (s *core) openIDAlone(scopes []string) bool {
	lends := func(scope string) bool { return slices.Contains(s.section.DefaultScopes(nil), scope) }
	return len(scopes) > 0 && !slices.ContainsFunc(scopes, lends)
}

// findResource returns the resource that a name or an address means, as tokens have it, and its scopes.
func (s *core) findResource(text string) (resource string, scopes []string, ok bool) {
	name, err := config.ResourceName(text)
	if err != nil {
		return "", nil, false
	}
	if shared, ok := s.resources.Shared(name); ok {
		return shared.Name, shared.Scopes, true
	}
	u, err := url.Parse(name)
	if err != nil || u.Scheme == "" {
		return "", nil, false
	}
	host, err := policy.CanonicalHost(u.Host)
	if err != nil || s.site.Origin(host)+u.EscapedPath() != name {
		return "", nil, false
	}
	one, ok := s.resourceAt(host, u.Path)
	if !ok {
		return "", nil, false
	}
	return cmp.Or(one.Name, name), one.Scopes, true
}

// resourceAt returns the resource of the routes with a decoded path at a host.
func (s *core) resourceAt(host, path string) (*config.Protected, bool) {
	if !s.site.Hosts.Has(host) {
		return nil, false
	}
	return s.resources.At(host, escaped(path))
}

// escaped returns a decoded path as a URL has it, without a slash at its end.
func escaped(path string) string {
	u := url.URL{Path: strings.TrimSuffix(path, "/")}
	return u.EscapedPath()
}

// portOf returns the port of an https URL.
func portOf(u *url.URL) string { return cmp.Or(u.Port(), "443") }
