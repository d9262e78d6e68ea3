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
		if got, ok := (&Config{}).Resource(&route); !ok || got != want {
			t.Errorf("%s: %+v, %t; want %+v", match, got, ok, want)
		}
		route.Auth = route.Auth[:1]
		if got, ok := (&Config{}).Resource(&route); ok {
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
	if cfg := mustParse(t, wellKnownConfig); len(cfg.WellKnown()) > 0 ||
		cfg.AnswersWellKnown("gateway.example.org", WellKnownFinger) {
		t.Errorf("without oauth: %q", cfg.WellKnown())
	}
	cfg := mustParse(t, wellKnownConfig+`token: {issuer: "https://gateway.example.org/auth"}
oauth: {enabled: true}`)
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
	if diff := cmp.Diff(want, cfg.WellKnown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, own := range hosts {
		for _, host := range []string{home, tools, "a.team.example.org"} {
			if got := cfg.AnswersWellKnown(host, path); got != own[host] {
				t.Errorf("%s at %s: %t", path, host, got)
			}
			resource := strings.HasPrefix(path, WellKnownResource)
			if got := cfg.LacksResource(host, path); got != (resource && !own[host]) {
				t.Errorf("%s at %s is lacking: %t", path, host, got)
			}
		}
	}
	if cfg.LacksResource(home, WellKnownResource+"s") {
		t.Error("a longer name is a resource that is lacking")
	}
	alone := mustParse(t, strings.Replace(wellKnownConfig, "match: /mcp/", "match: gateway.example.org/mcp/", 1)+
		"oauth: {enabled: true}")
	if alone.LacksResource("app.example.org", WellKnownResource+"/mcp") || !alone.LacksResource(tools, WellKnownResource) {
		t.Error("a host without resources lacks one, or one with resources lacks none")
	}
	for _, host := range []string{"team.example.org", "a.b.team.example.org", ".team.example.org"} {
		if cfg.AnswersWellKnown(host, WellKnownResource) {
			t.Errorf("%s is below the wildcard", host)
		}
	}
}

// Users of providers have bearer tokens by clients alone, and clients by themselves.
func TestBearerByClients(t *testing.T) {
	t.Parallel()
	const bearer = `upstreams: {app: {url: "http://127.0.0.1:1"}}
routes: [{match: /mcp/, upstream: app, auth: [bearer]}]
`
	const provider = `providers: [{name: sso, issuer: "https://id.example.org", client_id: gateway}]` + "\n"
	for config, works := range map[string]bool{
		"":                                    false,
		provider:                              false,
		"oauth: {enabled: true}\n":            false,
		provider + "oauth: {enabled: true}\n": true,
		"oauth: {enabled: true, clients: [{id: job, grants: [client_credentials], secret: \"${SECRET}\"}]}\n": true,
	} {
		if _, err := parse("config.yaml", []byte(bearer+config), lookup); (err == nil) != works {
			t.Errorf("%q: %v", config, err)
		}
	}
}

// A client's policy decides who may sign in to it, by a session.
func TestClientPolicy(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, `policies: {staff: {roles: [staff]}}
accounts: {users: [{username: alice, password_hash: "${HASH}", roles: [staff]}]}
oauth: {clients: [{id: a, grants: [device_code], policy: staff}, {id: b, grants: [device_code]}]}`)
	staff := cfg.ClientPolicy(&cfg.OAuth.Clients[0])
	if staff == nil || cfg.ClientPolicy(&cfg.OAuth.Clients[1]) != nil {
		t.Fatalf("got %v and %v", staff, cfg.ClientPolicy(&cfg.OAuth.Clients[1]))
	}
	for roles, want := range map[string]policy.Outcome{"staff": policy.Allow, "user": policy.Forbid} {
		for _, m := range []policy.Mechanism{policy.Session, policy.OIDC} {
			id := &policy.Identity{
				Username: "x", Subject: "x", Mechanism: m, Provider: policy.LocalProvider, Roles: []string{roles},
			}
			if got := staff.Decide(id, &policy.Request{}); got.Outcome != want {
				t.Errorf("%s by %s: %+v", roles, m, got)
			}
		}
	}
}

// What is valid and probably wrong about clients is a warning that shows no secret.
func TestWarningsOfClients(t *testing.T) {
	t.Parallel()
	client := func(keys string) string {
		return "oauth: {clients: [{id: app, grants: [device_code], " + keys + "}]}\n"
	}
	const not = "policies: {not: {none: [{factors: 2}]}}\n"
	for source, want := range map[string]struct{ key, part string }{
		client("secret: tooshort"):                {"oauth.clients[0].secret", "has only 8 characters"},
		client("secrets: [aaaaaaaaaaaaaaaaaaaa]"): {"oauth.clients[0].secrets[0]", "has only 1 different characters"},
		client(`secret: "${HASH}"`):               {"oauth.clients[0].secret", "has a cost of 5"},
		client(`secret: "${SECRET}"`):             {},
		"oauth: {redirect_schemes: [cursor]}\n":   {"oauth.redirect_schemes[0]", "has no dot"},
		"oauth: {redirect_schemes: [com.x]}\n":    {},
		"oauth: {scopes: {read: [editor]}}\n":     {"oauth.scopes.read[0]", `no account has the role "editor"`},
		client("policy: not") + not:               {"policies.not.none[0].factors", "is under none"},
	} {
		checkWarning(t, source, warnings(t, "config.yaml", source), want.key != "", want.key, want.part)
	}
}
