package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/explain"
	"authgate/gateway/wire/strictjson"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// tokensConfig has an authorization server, and routes that tokens of its clients open or do not.
const tokensConfig = `public_url: https://gw.example
accounts:
  users:
    - {username: alice, roles: [user, admin], password_hash: "` + aliceHash + `"}
    - {username: bob, roles: [user], password_hash: "` + bobHash + `"}
upstreams: {app: {url: "http://app.invalid"}}
policies:
  admin: {roles: [admin]}
  tools: {roles: [user], scopes: [tools]}
routes:
  - {match: /any/, upstream: app, auth: [session, bearer]}
  - {match: /tools/, upstream: app, auth: [bearer], policy: tools}
  - {match: /admin/, upstream: app, auth: [bearer], policy: admin}
  - {match: /job/, upstream: app, auth: [bearer], policy: {users: ["client:job"]}}
  - {match: /fresh/, upstream: app, auth: [bearer], policy: {max_age: 15m}}
  - {match: /pages/, upstream: app, auth: [session]}
  - {match: /shared/, upstream: app, auth: [bearer], resource: team}
  - {match: mcp.example/mcp, upstream: app, auth: [bearer], policy: tools}
oauth:
  enabled: true
  scopes: {tools: [user], all: []}
  clients:
    - {id: job, secret: "` + ownrig.OAuthSecret + `", grants: [client_credentials], roles: [user, robot]}
    - {id: wiki, secret: "` + ownrig.OAuthSecret + `", consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}
`

// A token of an OAuth client is explained as the gateway treats it: its resource, its scopes, the
// roles that they lend, and what its user has proved.
func TestExplainTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokensConfig)
	e := newExplainer(t, parseConfig(t, t.TempDir(), tokensConfig))
	in := r.login(aliceIn)
	r.clock.Advance(time.Second)
	for _, resource := range []string{"https://gw.example/tools", "https://gw.example/any", "https://gw.example/admin",
		"https://gw.example/job", "https://gw.example/fresh", "https://gw.example/shared", "team",
		"https://mcp.example/mcp"} {
		for _, scope := range []string{"tools", "all", "openid", "openid tools"} {
			for line, caller := range map[string]explain.Caller{
				"Authorization: Bearer " + r.client.Lend(in.cookie, scope, resource).Access: {
					User: "alice", Client: "wiki", Factors: 1, Age: time.Second,
				},
				r.client.CredentialsAt("gw.example", scope, resource): {User: "client:job"},
			} {
				caller.Scopes, caller.Resource = strings.Fields(scope), resource
				for _, place := range []string{"gw.example/tools/x", "gw.example/any/", "gw.example/admin/", "gw.example/job/",
					"gw.example/fresh/", "gw.example/pages/", "gw.example/shared/", "mcp.example/mcp"} {
					host, path, _ := strings.Cut(place, "/")
					x, err := e.Explain(&explain.Request{Method: "GET", URL: "https://" + place, Caller: &caller})
					if err != nil {
						t.Fatal(err)
					}
					q := overTLS(request("GET", "/"+path, "", line), host, "127.0.0.1")
					wantExplained(t, r, fmt.Sprintf("%s by %+v", place, caller), q, x)
				}
			}
		}
	}
}

// issuedConfig trusts an issuer with an audience, and one without. The address of the first is missing.
const issuedConfig = `public_url: https://gw.example
accounts: {users: [{username: alice, password_hash: "` + aliceHash + `"}]}
token:
  trusted_issuers:
    - {name: ci, issuer: "%s", audience: [gateway, other], roles_claim: groups.names}
    - {name: cluster, issuer: "https://cluster.invalid"}
upstreams: {app: {url: "http://app.invalid"}}
identity_headers: {claims: {X-Repository: repository_id, X-Run: run.number}}
policies: {main: {claims: {repository_id: ["1296269"], run.ref: [refs/heads/main]}}}
routes:
  - {match: /any/, upstream: app, auth: [session, bearer]}
  - {match: /main/, upstream: app, auth: [bearer], policy: main}
  - {match: /roles/, upstream: app, auth: [bearer], policy: {roles: [deployer]}}
  - {match: /scopes/, upstream: app, auth: [bearer], policy: {scopes: [deploy]}}
  - {match: /users/, upstream: app, auth: [bearer], policy: {users: ["ci:runner"], email_domains: [example.org]}}
  - {match: /local/, upstream: app, auth: [bearer], policy: {providers: [local]}}
  - {match: /actors/, upstream: app, auth: [bearer], policy: {actors: ["client:agent"]}}
  - {match: /fresh/, upstream: app, auth: [bearer], policy: {max_age: 15m}}
  - {match: /pages/, upstream: app, auth: [session]}
  - {match: /public/, upstream: app, auth: [none]}
oauth: {enabled: true, clients: [{id: agent, redirect_uris: ["https://agent.example.net/cb"]}]}
`

// A token of a trusted issuer is explained by its claims as the gateway treats a signed token with them:
// who it is, what it may open, and why it is not valid.
func TestExplainIssuedTokens(t *testing.T) {
	t.Parallel()
	p := ownrig.NewProvider(t)
	yaml := fmt.Sprintf(issuedConfig, p.Issuer)
	r := newRig(t, yaml)
	p.Now = r.clock.Now
	e := must.Get(NewExplainerAt(parseConfig(t, t.TempDir(), yaml), r.clock.Now))(t)
	t.Cleanup(func() { e.Close() })
	opened := map[string]bool{}
	in := func(d time.Duration) int64 { return r.clock.Now().Add(d).Unix() }
	for _, changes := range []map[string]any{
		{}, {"aud": []string{"x", "other"}}, {"sub": "repo:a/b", "name": "Job"}, {"groups": "deployer"},
		{"repository_id": 1296269, "run": map[string]any{"ref": "refs/heads/main"}},
		{"repository_id": "1296269", "run": map[string]any{"ref": []string{"refs/heads/main"}, "number": 1 << 60}},
		{"repository_id": "1296270", "run": map[string]any{"ref": "refs/heads/main"}},
		{"groups": map[string]any{"names": []string{"deployer", "x"}}}, {"scope": "deploy read"},
		{"scp": []string{"deploy"}}, {"preferred_username": "runner", "email": "runner@example.org"},
		{"preferred_username": "runner", "email": "runner@example.org", "email_verified": false},
		{"preferred_username": "boss@example.org"}, {"act": map[string]any{"sub": "client:agent"}},
		{"sub": nil}, {"sub": ""}, {"sub": 7}, {"SUB": "x"}, {"aud": "elsewhere"}, {"aud": nil}, {"exp": nil},
		{"exp": in(-time.Second)}, {"exp": in(time.Second)}, {"exp": "tomorrow"}, {"nbf": in(time.Hour)},
		{"iat": in(time.Hour)}, {"nonce": "n"}, {"events": map[string]any{}}, {"cnf": map[string]any{"jkt": "x"}},
	} {
		claims := map[string]any{"iss": p.Issuer, "aud": "gateway", "sub": "1", "preferred_username": nil, "roles": nil,
			"iat": in(0), "exp": in(time.Minute)}
		maps.Copy(claims, changes)
		caller := explain.Caller{Issuer: "ci"}
		caller.Token = must.Get(strictjson.Object(must.Get(json.Marshal(claims))(t)))(t)
		for _, path := range []string{"/any/", "/main/", "/roles/", "/scopes/", "/users/", "/local/", "/actors/",
			"/fresh/", "/pages/", "/public/", "/nowhere"} {
			x, err := e.Explain(&explain.Request{Method: "GET", URL: path, Caller: &caller})
			if err != nil {
				t.Fatalf("%s with %v: %v", path, changes, err)
			}
			q := overTLS(request("GET", path, "", p.Bearer(claims)), "gw.example", "127.0.0.1")
			wantExplained(t, r, fmt.Sprintf("%s with %v", path, changes), q, x)
			opened[path] = opened[path] || x.Outcome == explain.OutcomeAllow
		}
	}
	for path, opens := range opened {
		if opens != slices.Contains([]string{"/any/", "/main/", "/roles/", "/scopes/", "/users/", "/public/"}, path) {
			t.Errorf("some token opens %s: %t", path, opens)
		}
	}
}

// A description need not have the claims that prove a token. A token in the name of another issuer, or of one
// whose tokens open no route, is refused with the reason. Other routes do not look at it.
func TestExplainDescribedToken(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, parseConfig(t, t.TempDir(), fmt.Sprintf(issuedConfig, "https://ci.invalid")))
	sub := map[string]any{"sub": "1"}
	for _, c := range []struct {
		issuer, path string
		claims       map[string]any
		want, reason string // the outcome with the user, and a part of the reason
	}{
		{"ci", "/any/", sub, "allow 1 ci:1", "route /any/"},
		{"ci", "/any/", map[string]any{"sub": "1", "iss": "https://else.invalid"}, "challenge",
			`expected "https://ci.invalid"`},
		{"cluster", "/any/", sub, "challenge", `issuer "cluster" has no audience, so its tokens open no route`},
		{"cluster", "/pages/", sub, "challenge", "accepts session"},
		{"cluster", "/public/", sub, "allow", "route /public/"},
	} {
		x, err := e.Explain(&explain.Request{Method: "GET", URL: c.path, Caller: &explain.Caller{
			Issuer: c.issuer, Token: c.claims,
		}})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(x.Outcome + " " + x.Header.Get("X-Auth-User") + " " + x.Header.Get("X-Auth-Subject"))
		if got != c.want || !strings.Contains(x.Reason, c.reason) {
			t.Errorf("%s with a token of %s: got %s, %s, want %s, %s",
				c.path, c.issuer, got, x.Reason, c.want, c.reason)
		}
	}
}
