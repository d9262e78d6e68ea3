package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/policy"
)

// The resource of a route is its host, and its path up to the first wildcard, without a slash
// at the end. Only routes that accept bearer have one.
func TestResource(t *testing.T) {
	t.Parallel()
	for match, want := range map[string]Resource{
		"/":                            {"", ""},
		"/{$}":                         {"", ""},
		"/{all...}":                    {"", ""},
		"/mcp":                         {"", "/mcp"},
		"/mcp/":                        {"", "/mcp"},
		"POST /mcp/v1/{$}":             {"", "/mcp/v1"},
		"/teams/{team}/mcp/":           {"", "/teams"},
		"Tools.Example.org/":           {"tools.example.org", ""},
		"GET tools.example.org/a%20b/": {"tools.example.org", "/a%20b"},
		"/%61-b/caf%C3%A9/":            {"", "/a-b/caf%C3%A9"},
		"*.example.org/mcp/{rest...}":  {"*.example.org", "/mcp"},
		"[2001:DB8::1]/mcp":            {"[2001:db8::1]", "/mcp"},
	} {
		route := Route{Match: match, Auth: []policy.Mechanism{policy.Session, policy.Bearer}}
		if got, ok := route.Resource(); !ok || got != want {
			t.Errorf("%s: %+v, %t; want %+v", match, got, ok, want)
		}
		route.Auth = route.Auth[:1]
		if got, ok := route.Resource(); ok {
			t.Errorf("%s without bearer: %+v", match, got)
		}
	}
}

const wellKnownConfig = `public_url: https://gateway.example.org
accounts: {users: [{username: alice, password_hash: "${HASH}"}]}
upstreams: {app: {url: "http://127.0.0.1:1"}}
routes:
  - {match: /mcp/, upstream: app, auth: [bearer]}
  - {match: tools.example.org/mcp/, upstream: app, auth: [session, bearer]}
  - {match: tools.example.org/files/, upstream: app, auth: [bearer]}
  - {match: "*.team.example.org/", upstream: app, auth: [bearer]}
  - {match: /pages/, upstream: app, auth: [session]}
`

// The documents about the issuer are at the host of public_url alone: an application at
// another host may be a provider itself. Those of resources are at the hosts of the routes.
func TestWellKnown(t *testing.T) {
	t.Parallel()
	if w := mustParse(t, wellKnownConfig).WellKnown(); len(w.Paths()) > 0 ||
		w.AnsweredAt("gateway.example.org", WellKnownFinger) {
		t.Errorf("without oauth: %q", w.Paths())
	}
	w := mustParse(t, wellKnownConfig+`token: {issuer: "https://gateway.example.org/auth"}
oauth: {enabled: true}`).WellKnown()
	const home, tools = "gateway.example.org", "tools.example.org"
	hosts := map[string]map[string]bool{ // those that answer
		"/.well-known/oauth-authorization-server/auth":  {home: true},
		"/.well-known/openid-configuration/auth":        {home: true},
		"/auth/.well-known/openid-configuration":        {home: true},
		"/.well-known/webfinger":                        {home: true},
		"/.well-known/oauth-protected-resource/mcp":     {home: true, tools: true, "a.team.example.org": true},
		"/.well-known/oauth-protected-resource/files":   {tools: true},
		"/.well-known/oauth-protected-resource":         {"a.team.example.org": true},
		"/.well-known/oauth-protected-resource/pages":   {},
		"/.well-known/openid-configuration":             {},
		"/.well-known/oauth-protected-resource/mcp/":    {},
		"/.well-known/oauth-protected-resource/mcp/sub": {},
	}
	want := slices.Sorted(maps.Keys(hosts))
	want = slices.DeleteFunc(want, func(path string) bool { return len(hosts[path]) == 0 })
	if diff := cmp.Diff(want, w.Paths()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, own := range hosts {
		for _, host := range []string{home, tools, "a.team.example.org"} {
			if got := w.AnsweredAt(host, path); got != own[host] {
				t.Errorf("%s at %s: %t", path, host, got)
			}
			resource := strings.HasPrefix(path, WellKnownResource)
			if got := w.LacksResource(host, path); got != (resource && !own[host]) {
				t.Errorf("%s at %s is lacking: %t", path, host, got)
			}
		}
	}
	if w.LacksResource(home, WellKnownResource+"s") {
		t.Error("a longer name is a resource that is lacking")
	}
	alone := mustParse(t, strings.Replace(wellKnownConfig, "match: /mcp/", "match: gateway.example.org/mcp/", 1)+
		"oauth: {enabled: true}").WellKnown()
	if alone.LacksResource("app.example.org", WellKnownResource+"/mcp") || !alone.LacksResource(tools, WellKnownResource) {
		t.Error("a host without resources lacks one, or one with resources lacks none")
	}
	for _, host := range []string{"team.example.org", "a.b.team.example.org", ".team.example.org"} {
		if w.AnsweredAt(host, WellKnownResource) {
			t.Errorf("%s is below the wildcard", host)
		}
	}
}
