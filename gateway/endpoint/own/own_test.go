package own

import (
	"errors"
	"testing"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/proxy/web"
	"authgate/internal/test/must"
	"authgate/policy"
)

const (
	discovery = "/.well-known/openid-configuration"
	resource  = "/.well-known/oauth-protected-resource"
)

const ownConfig = `public_url: https://gw.example
accounts:
  users:
    - username: alice
      password_hash: "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$iWh06vD8Fy27wf9npn6FXWiCX4K6pW6Ue1Bnzz07Z8A"
upstreams: {app: {url: "http://app.invalid"}}
oauth: {enabled: true}
routes:
  - {match: gw.example/, upstream: app, auth: [none]}
  - {match: gw.example/mcp/, upstream: app, auth: [bearer, certificate]}
  - {match: other.example/, upstream: app, auth: [none], encoded_slashes: opaque}
tls: {client_ca: local}
certificates: {username: cn}
`

// newEndpoints returns endpoints that serve nothing, at the paths of some names.
func newEndpoints(t *testing.T) *Endpoints {
	e := &Endpoints{
		ByPath: map[string]*endpoint.Endpoint{}, Verify: "/verify",
		config: must.Get(config.Parse("authgate.yaml", []byte(ownConfig)))(t),
	}
	for _, path := range []string{"/me", "/oauth/token", discovery, resource + "/mcp"} {
		e.ByPath[path] = &endpoint.Endpoint{}
	}
	return e
}

// A path leads to an own endpoint by its canonical form alone. One that leads there in another
// reading is refused.
func TestFind(t *testing.T) {
	t.Parallel()
	const home, other = "gw.example", "other.example"
	const twice = "the path is encoded more than once, and is one of the gateway's own when it is decoded again"
	const slash = "the path holds an encoded slash"
	const read = "the path is one of the gateway's own when it is read in another way"
	e := newEndpoints(t)
	for _, c := range []struct {
		parse      func(string) (policy.Path, error)
		host, raw  string
		path, fail string // of the endpoint, and of the error; both empty: it is for a route
	}{
		{policy.ParseTarget, home, "/me", "/me", ""},
		{policy.ParseTarget, other, "/%6De?x=y", "/me", ""},
		{policy.ParseTarget, home, "/me/", "", ""},
		{policy.ParseTarget, home, "/ME", "", ""},
		{policy.ParseTarget, home, "/verify", "", ""}, // served on the way of routes

		{policy.ParseTarget, home, "/%256De", "", twice},
		{policy.ParseTarget, other, "/%25256De", "", twice},
		{policy.ParseTarget, home, "/verif%2579", "", twice},
		{policy.ParseTarget, home, "/me/%256De", "", ""},

		{policy.ParseTargetWithSlashes, home, "/oauth%2Ftoken", "", slash},
		{policy.ParseTargetWithSlashes, home, "/oauth%2Ftok%2565n", "", twice},
		{policy.ParseTargetWithSlashes, home, "/%2Foauth/token", "", slash},
		{policy.ParseTargetWithSlashes, home, "/oauth%2F/tok%2565n", "", twice},
		{policy.ParseTargetWithSlashes, home, "/oauth%2Ftokens", "", ""},

		{policy.ParseTargetOpaque, other, "//me", "", read},
		{policy.ParseTargetOpaque, other, "/oauth//token", "", read},
		{policy.ParseTargetOpaque, other, "/%5Cverify", "", read},
		{policy.ParseTargetOpaque, other, "/oauth%252Ftoken", "", read},
		{policy.ParseTargetOpaque, other, "//me;x=y", "", read},
		{policy.ParseTargetOpaque, other, "//mine", "", ""},

		// Each document is at the hosts that it is about, and refused in other readings at each.
		{policy.ParseTarget, home, discovery, discovery, ""},
		{policy.ParseTarget, other, discovery, "", ""},
		{policy.ParseTarget, other, "/.well-known/%256Fpenid-configuration", "", twice},
		{policy.ParseTarget, home, resource + "/mcp", resource + "/mcp", ""},
		{policy.ParseTarget, other, resource + "/mcp", "", ""},
		{policy.ParseTarget, home, resource + "/wiki", "", "Not Found"},
		{policy.ParseTarget, other, resource + "/wiki", "", ""},
	} {
		path := must.Get(c.parse(c.raw))(t)
		got, err := e.Find(&policy.Request{Method: "GET", Host: c.host, Path: path})
		fail := ""
		if refused, ok := errors.AsType[*policy.TargetError](err); ok {
			fail = refused.Reason
		} else if refused, ok := errors.AsType[*web.Error](err); ok && refused.Status == 404 {
			fail = "Not Found"
		} else if err != nil {
			t.Errorf("%s%s: %v", c.host, c.raw, err)
		}
		if want := e.ByPath[c.path]; got != want || fail != c.fail {
			t.Errorf("%s%s: found %t, %q; want %t, %q", c.host, c.raw, got != nil, fail, want != nil, c.fail)
		}
	}
}

// Users can sign in with what some route accepts, and for OAuth clients with a session.
func TestUsed(t *testing.T) {
	t.Parallel()
	cfg := newEndpoints(t).config
	one := &mechanism.Federation{Providers: []*mechanism.Provider{{}}}
	for _, c := range []struct {
		federation    *mechanism.Federation
		oauth         *mechanism.OAuth
		session, oidc bool
	}{
		{one, nil, false, false},
		{&mechanism.Federation{}, &mechanism.OAuth{}, true, false},
		{one, &mechanism.OAuth{}, true, true},
	} {
		got := used(&Options{Config: cfg, Federation: c.federation, OAuth: c.oauth})
		if !got[policy.Bearer] || !got[policy.Certificate] || got[policy.Basic] || got[policy.Session] != c.session ||
			got[policy.OIDC] != c.oidc {
			t.Errorf("with OAuth %t: %v", c.oauth != nil, got)
		}
	}
}
