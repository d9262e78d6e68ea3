package oauth

import (
	"cmp"
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

var standardScopes = []string{scopeOpenID, scopeProfile, scopeEmail, scopeGroups, scopeOffline}

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
	var err error
	if t.Scopes, err = s.scopes(client, values.Get("scope")); err != nil {
		return t, err
	}
	t.OpenID = slices.Contains(t.Scopes, scopeOpenID)
	t.Resource, err = s.resource(client, &t, values["resource"])
	return t, err
}

// scopes returns those scopes that count of the ones that a client asks for.
func (s *core) scopes(client *clients.Client, asked string) ([]string, error) {
	if asked == "" && len(s.section.Scopes) == 0 {
		return nil, nil
	}
	var known []string
	for scope := range strings.FieldsSeq(asked) {
		_, lends := s.section.Scopes[scope]
		permitted := client.Scopes == nil || slices.Contains(client.Scopes, scope)
		if (lends || slices.Contains(standardScopes, scope)) && permitted && !slices.Contains(known, scope) {
			known = append(known, scope)
		}
	}
	if known == nil {
		return nil, refuse(codeInvalidScope, "None of the scopes is known here. scopes_supported in the metadata of the "+
			"server lists them.")
	}
	return known, nil
}

// resource returns for what tokens are asked: a resource of this gateway (RFC 8707), or, for
// clients of the configuration, "": the audience of the gateway's own tokens. OpenID alone
// needs no resource: the token then opens userinfo.
func (s *core) resource(client *clients.Client, t *grants.Terms, asked []string) (string, error) {
	switch {
	case len(asked) > 1:
		return "", refuse(codeInvalidTarget, "A token is for one resource. Ask for each with a request of its own.")
	case len(asked) == 1:
		if resource, ok := s.known(asked[0]); ok {
			return resource, nil
		}
		return "", refuse(codeInvalidTarget, "There is no such resource here.")
	case client.Configured:
		return "", nil
	case t.OpenID:
		return s.address(userinfoPath), nil
	}
	return "", refuse(codeInvalidTarget, "The parameter resource is needed: the address of what the token is for.")
}

// known returns the resource that an address names, as tokens have it.
func (s *core) known(address string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", false
	}
	host, err := policy.CanonicalHost(u.Host)
	if err != nil || !s.samePort(u) {
		return "", false
	}
	return s.resourceAt(host, u.Path)
}

// resourceAt returns the resource with a decoded path at a host, as tokens have it.
func (s *core) resourceAt(host, path string) (string, bool) {
	if !s.site.Hosts.Has(host) {
		return "", false
	}
	u := url.URL{Path: strings.TrimSuffix(path, "/")}
	path = u.EscapedPath()
	_, parent, _ := strings.Cut(host, ".")
	for _, pattern := range []string{host, "*." + parent, ""} {
		if s.resources[config.Resource{Host: pattern, Path: path}] {
			return s.site.Origin(host) + path, true
		}
	}
	return "", false
}

// samePort reports whether a URL has the port of public_url.
func (s *core) samePort(u *url.URL) bool {
	public, err := url.Parse(s.site.PublicURL)
	return err == nil && portOf(u) == portOf(public)
}

// portOf returns the port of an https URL.
func portOf(u *url.URL) string { return cmp.Or(u.Port(), "443") }
