package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"authgate/policy"
)

// tokensConfig has an authorization server, and routes that tokens of its clients open or do not.
const tokensConfig = `public_url: https://gw.example
accounts:
  users:
    - {username: alice, roles: [user, admin], password_hash: "` + aliceHash + `"}
    - {username: bob, roles: [user], password_hash: "` + bobHash + `"}
basic: {users: [{username: service, password_hash: "` + aliceHash + `"}]}
providers: [{name: corp, issuer: "https://id.invalid", client_id: authgate}]
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
  - {match: mcp.example/mcp, upstream: app, auth: [bearer], policy: tools}
oauth:
  enabled: true
  scopes: {tools: [user], all: []}
  clients:
    - {id: job, secret: "` + oauthSecret + `", grants: [client_credentials], roles: [user, robot]}
    - {id: wiki, secret: "` + oauthSecret + `", consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}
    - {id: ledger, secret: "` + oauthSecret + `", policy: admin, redirect_uris: ["https://ledger.example.net/cb"]}
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
		"https://gw.example/job", "https://gw.example/fresh", "https://mcp.example/mcp"} {
		for _, scope := range []string{"tools", "all", "openid", "openid tools"} {
			for line, caller := range map[string]Caller{
				"Authorization: Bearer " + r.lendFor(in, scope, resource).Access: {
					User: "alice", Client: "wiki", Factors: 1, Age: time.Second,
				},
				r.credentialsAt("gw.example", scope, resource): {User: "client:job"},
			} {
				caller.Scopes, caller.Resource = strings.Fields(scope), resource
				for _, place := range []string{"gw.example/tools/x", "gw.example/any/", "gw.example/admin/", "gw.example/job/",
					"gw.example/fresh/", "gw.example/pages/", "mcp.example/mcp"} {
					host, path, _ := strings.Cut(place, "/")
					x, err := e.Explain(&Described{Method: "GET", URL: "https://" + place, Caller: &caller})
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

// A described token has the defaults of a client that does not ask for scopes or a resource.
func TestExplainTokensInWords(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, parseConfig(t, t.TempDir(), tokensConfig))
	for _, c := range []struct {
		url    string
		caller Caller
		want   string // outcome, the user and the roles that the upstream gets, or the reason
	}{
		{"https://mcp.example/mcp", Caller{User: "alice", Client: "wiki"}, "allow alice user"},
		{"/any/", Caller{User: "alice", Client: "wiki"}, "allow alice user,admin"},
		{"/tools/", Caller{User: "bob", Scopes: []string{"tools"}}, "allow bob user"},
		{"/tools/", Caller{User: "bob", Scopes: []string{}}, "forbid roles: needs one of user"},
		{"/tools/", Caller{User: "alice", Client: "wiki", Resource: "https://gw.example/tools/"}, "allow alice user"},
		{"/tools/", Caller{User: "alice", Resource: "https://gw.example/any"}, "challenge that of the route is"},
		{"/pages/", Caller{User: "alice", Client: "wiki"}, "challenge accepts session"},
		{"/tools/", Caller{Username: "eve", Roles: []string{"user"}, Scopes: []string{"tools"}}, "allow eve user"},
		{"/tools/", Caller{Username: "eve", Provider: "corp", Roles: []string{"user", "x"}, Client: "wiki"},
			"allow eve user"},
		{"/any/", Caller{Username: "eve", Claims: map[string][]string{"a": {"b"}}, Client: "wiki"}, "allow eve"},
		{"/fresh/", Caller{Username: "eve", Provider: "corp", Client: "wiki", Age: time.Minute}, "allow eve"},
		{"/fresh/", Caller{User: "alice", Client: "wiki"}, "challenge max_age"},
		{"/admin/", Caller{User: "alice", Client: "ledger", Scopes: []string{"all"}}, "allow alice user,admin"},
		{"/admin/", Caller{User: "alice", Client: "https://app.example/client.json", Scopes: []string{"all"}},
			"allow alice user,admin"},
		{"/job/", Caller{User: "client:job"}, "allow client:job user,robot"},
		{"/job/", Caller{User: "client:job", Mechanism: policy.Bearer, Scopes: []string{"tools"}}, "allow client:job user"},
		{"/admin/", Caller{User: "client:job"}, "forbid roles: needs one of admin"},
	} {
		x, err := e.Explain(&Described{Method: "GET", URL: c.url, Caller: &c.caller})
		if err != nil {
			t.Errorf("%s by %+v: %v", c.url, c.caller, err)
			continue
		}
		outcome, want, _ := strings.Cut(c.want, " ")
		got := strings.TrimSpace(x.Header.Get("X-Auth-User") + " " + x.Header.Get("X-Auth-Roles"))
		if x.Outcome != outcome || outcome == OutcomeAllow && got != want ||
			outcome != OutcomeAllow && !strings.Contains(x.Reason, want) {
			t.Errorf("%s by %+v: got %s %q %s, want %s", c.url, c.caller, x.Outcome, got, x.Reason, c.want)
		}
	}
}

// A token that no client can have is an error, which tells why.
func TestExplainTokenMistakes(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, parseConfig(t, t.TempDir(), tokensConfig))
	without := newExplainer(t, parseConfig(t, t.TempDir(), explainConfig))
	for _, c := range []struct {
		caller  Caller
		unknown bool
		want    string
	}{
		{Caller{User: "alice", Client: "wikki"}, false, `there is no OAuth client "wikki"; did you mean "wiki"?`},
		{Caller{User: "alice", Client: "other"}, false, "the oauth.clients are job, ledger, wiki"},
		{Caller{User: "client:jobb"}, true, `there is no OAuth client "jobb"; did you mean "job"?`},
		{Caller{User: "client:wiki"}, false, "its grants have no client_credentials"},
		{Caller{User: "client:job", Client: "wiki"}, false, "acts for itself"},
		{Caller{User: "client:job", Roles: []string{"user"}}, false, "has the properties of the configuration"},
		{Caller{User: "client:job", Factors: 2}, false, "belongs to no login"},
		{Caller{Provider: "client", Username: "job"}, false, "is the user client:ID"},
		{Caller{User: "alice", Scopes: []string{"tolls"}}, false, `no token has the scope "tolls"`},
		{Caller{User: "alice", Scopes: []string{"tools"}, Roles: []string{"user"}}, false, "properties"},
		{Caller{User: "alice", Scopes: []string{"tools"}, Mechanism: policy.Session}, false, "does not prove"},
		{Caller{User: "alice", Scopes: []string{"tools"}, APIToken: true}, false, "API token"},
		{Caller{User: "bob", Client: "ledger"}, false, "its policy does not let them in"},
		{Caller{User: "service", Client: "wiki"}, false, "user of basic"},
		{Caller{User: "alicee", Client: "wiki"}, true, `did you mean "alice"?`},
		{Caller{User: "alicee"}, true, `did you mean "alice"?`},
		{Caller{User: "corp:dave"}, true, `provider "corp", username "dave"`},
		{Caller{Username: "eve", Provider: "basic", Client: "wiki"}, false, "its users cannot sign in"},
		{Caller{Username: "eve", Provider: "local", Claims: map[string][]string{"a": {"b"}}, Client: "wiki"},
			false, "local accounts have no claims"},
		{Caller{Username: "eve", Roles: []string{""}, Client: "wiki"}, false, "a role is empty"},
	} {
		x, err := e.Explain(&Described{Method: "GET", URL: "/any/", Caller: &c.caller})
		wantMistake(t, &c.caller, x, err, c.unknown, c.want)
	}
	for _, c := range []Caller{
		{User: "alice", Scopes: []string{"x"}}, {User: "alice", Client: "wiki"}, {User: "client:job"},
		{User: "alice", Resource: "https://gw.example/any"},
	} {
		x, err := without.Explain(&Described{Method: "GET", URL: "/any", Caller: &c})
		wantMistake(t, &c, x, err, false, "need oauth.enabled")
	}
	c := Caller{Provider: "machines", Client: "wiki"}
	x, err := newExplainer(t, parseConfig(t, t.TempDir(), explainConfig+
		"oauth: {enabled: true, clients: [{id: wiki, redirect_uris: [\"https://a.example/\"]}]}\n")).
		Explain(&Described{Method: "GET", URL: "/any", Caller: &c})
	wantMistake(t, &c, x, err, false, `"machines" is another issuer`)
}

// wantMistake fails the test unless a description is refused, because of a user or client that does
// not exist, or else as a *DescriptionError.
func wantMistake(t *testing.T, c *Caller, x *Explanation, err error, unknown bool, want string) {
	t.Helper()
	_, nobody := errors.AsType[*unknownUserError](err)
	_, mistake := errors.AsType[*DescriptionError](err)
	if x != nil || nobody != unknown || mistake == unknown || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: got %+v, %v, want an error that says %q", c, x, err, want)
	}
}
