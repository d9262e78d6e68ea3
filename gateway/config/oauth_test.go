package config

import (
	"testing"

	"authgate/policy"
)

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
		return "oauth: {enabled: false, clients: [{id: app, grants: [device_code], " + keys + "}]}\n"
	}
	const not = "policies: {not: {none: [{factors: 2}]}}\n"
	for source, want := range map[string]struct{ key, part string }{
		client("secret: tooshort"): {"oauth.clients[0].secret", "has only 8 characters"},
		client("secrets: [aaaaaaaaaaaaaaaaaaaa]"): {"oauth.clients[0].secrets[0]",
			"has only 1 different characters"},
		client(`secret: "${HASH}"`):                             {"oauth.clients[0].secret", "has a cost of 5"},
		client(`secret: "${SECRET}"`):                           {},
		"oauth: {enabled: false, redirect_schemes: [cursor]}\n": {"oauth.redirect_schemes[0]", "has no dot"},
		"oauth: {enabled: false, redirect_schemes: [com.x]}\n":  {},
		"oauth: {enabled: false, scopes: {read: [editor]}}\n": {"oauth.scopes.read[0]",
			`no account has the role "editor"`},
		client("policy: not") + not: {"policies.not.none[0].factors", "is under none"},
	} {
		checkWarning(t, source, warnings(t, "config.yaml", source), want.key != "", want.key, want.part)
	}
}
