package explain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"authgate/gateway/explain"
	"authgate/internal/test/rig"
	"authgate/policy"
)

// tokensConfig has an authorization server, and routes that tokens of its clients open or do not.
const tokensConfig = `public_url: https://gw.example
accounts:
  users:
    - {username: alice, roles: [user, admin], password_hash: "` + rig.AliceHash + `"}
    - {username: bob, roles: [user], password_hash: "` + rig.BobHash + `"}
basic: {users: [{username: service, password_hash: "` + rig.AliceHash + `"}]}
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
    - {id: job, secret: "4dae4b72f33a40dcb9d0d7c1d2f3a98e", grants: [client_credentials], roles: [user, robot]}
    - {id: wiki, secret: "4dae4b72f33a40dcb9d0d7c1d2f3a98e", consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}
    - {id: ledger, secret: "4dae4b72f33a40dcb9d0d7c1d2f3a98e", policy: admin, redirect_uris: ["https://ledger.example.net/cb"]}
`

// A described token has the defaults of a client that does not ask for scopes or a resource.
func TestExplainTokensInWords(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), tokensConfig))
	for _, c := range []struct {
		url    string
		caller explain.Caller
		want   string // outcome, the user and the roles that the upstream gets, or the reason
	}{
		{"https://mcp.example/mcp", explain.Caller{User: "alice", Client: "wiki"}, "allow alice user"},
		{"/any/", explain.Caller{User: "alice", Client: "wiki"}, "allow alice user,admin"},
		{"/tools/", explain.Caller{User: "bob", Scopes: []string{"tools"}}, "allow bob user"},
		{"/tools/", explain.Caller{User: "bob", Scopes: []string{}}, "forbid roles: needs one of user"},
		{"/tools/", explain.Caller{User: "alice", Client: "wiki", Resource: "https://gw.example/tools/"}, "allow alice user"},
		{"/tools/", explain.Caller{User: "alice", Resource: "https://gw.example/any"}, "challenge that of the route is"},
		{"/pages/", explain.Caller{User: "alice", Client: "wiki"}, "challenge accepts session"},
		{"/tools/", explain.Caller{Username: "eve", Roles: []string{"user"}, Scopes: []string{"tools"}}, "allow eve user"},
		{"/tools/", explain.Caller{Username: "eve", Provider: "corp", Roles: []string{"user", "x"}, Client: "wiki"},
			"allow eve user"},
		{"/any/", explain.Caller{Username: "eve", Claims: map[string][]string{"a": {"b"}}, Client: "wiki"}, "allow eve"},
		{"/fresh/", explain.Caller{Username: "eve", Provider: "corp", Client: "wiki", Age: time.Minute}, "allow eve"},
		{"/fresh/", explain.Caller{User: "alice", Client: "wiki"}, "challenge max_age"},
		{"/admin/", explain.Caller{User: "alice", Client: "ledger", Scopes: []string{"all"}}, "allow alice user,admin"},
		{"/admin/", explain.Caller{User: "alice", Client: "https://app.example/client.json", Scopes: []string{"all"}},
			"allow alice user,admin"},
		{"/job/", explain.Caller{User: "client:job"}, "allow client:job user,robot"},
		{"/job/", explain.Caller{User: "client:job", Mechanism: policy.Bearer, Scopes: []string{"tools"}}, "allow client:job user"},
		{"/admin/", explain.Caller{User: "client:job"}, "forbid roles: needs one of admin"},
	} {
		x, err := e.Explain(&explain.Request{Method: "GET", URL: c.url, Caller: &c.caller})
		if err != nil {
			t.Errorf("%s by %+v: %v", c.url, c.caller, err)
			continue
		}
		outcome, want, _ := strings.Cut(c.want, " ")
		got := strings.TrimSpace(x.Header.Get("X-Auth-User") + " " + x.Header.Get("X-Auth-Roles"))
		if x.Outcome != outcome || outcome == explain.OutcomeAllow && got != want ||
			outcome != explain.OutcomeAllow && !strings.Contains(x.Reason, want) {
			t.Errorf("%s by %+v: got %s %q %s, want %s", c.url, c.caller, x.Outcome, got, x.Reason, c.want)
		}
	}
}

// A token that no client can have is an error, which tells why.
func TestExplainTokenMistakes(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), tokensConfig))
	without := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig))
	for _, c := range []struct {
		caller  explain.Caller
		unknown bool
		want    string
	}{
		{explain.Caller{User: "alice", Client: "wikki"}, false, `there is no OAuth client "wikki"; did you mean "wiki"?`},
		{explain.Caller{User: "alice", Client: "other"}, false, "the oauth.clients are job, ledger, wiki"},
		{explain.Caller{User: "client:jobb"}, true, `there is no OAuth client "jobb"; did you mean "job"?`},
		{explain.Caller{User: "client:wiki"}, false, "its grants have no client_credentials"},
		{explain.Caller{User: "client:job", Client: "wiki"}, false, "acts for itself"},
		{explain.Caller{User: "client:job", Roles: []string{"user"}}, false, "has the properties of the configuration"},
		{explain.Caller{User: "client:job", Factors: 2}, false, "belongs to no login"},
		{explain.Caller{Provider: "client", Username: "job"}, false, "is the user client:ID"},
		{explain.Caller{User: "alice", Scopes: []string{"tolls"}}, false, `no token has the scope "tolls"`},
		{explain.Caller{User: "alice", Scopes: []string{"tools"}, Roles: []string{"user"}}, false, "properties"},
		{explain.Caller{User: "alice", Scopes: []string{"tools"}, Mechanism: policy.Session}, false, "does not prove"},
		{explain.Caller{User: "alice", Scopes: []string{"tools"}, APIToken: true}, false, "API token"},
		{explain.Caller{User: "bob", Client: "ledger"}, false, "its policy does not let them in"},
		{explain.Caller{User: "service", Client: "wiki"}, false, "user of basic"},
		{explain.Caller{User: "alicee", Client: "wiki"}, true, `did you mean "alice"?`},
		{explain.Caller{User: "alicee"}, true, `did you mean "alice"?`},
		{explain.Caller{User: "corp:dave"}, true, `provider "corp", username "dave"`},
		{explain.Caller{Username: "eve", Provider: "basic", Client: "wiki"}, false, "its users cannot sign in"},
		{explain.Caller{Username: "eve", Provider: "local", Claims: map[string][]string{"a": {"b"}}, Client: "wiki"},
			false, "local accounts have no claims"},
		{explain.Caller{Username: "eve", Roles: []string{""}, Client: "wiki"}, false, "a role is empty"},
	} {
		x, err := e.Explain(&explain.Request{Method: "GET", URL: "/any/", Caller: &c.caller})
		wantMistake(t, &c.caller, x, err, c.unknown, c.want)
	}
	for _, c := range []explain.Caller{
		{User: "alice", Scopes: []string{"x"}}, {User: "alice", Client: "wiki"}, {User: "client:job"},
		{User: "alice", Resource: "https://gw.example/any"},
	} {
		x, err := without.Explain(&explain.Request{Method: "GET", URL: "/any", Caller: &c})
		wantMistake(t, &c, x, err, false, "need oauth.enabled")
	}
	c := explain.Caller{Provider: "machines", Client: "wiki"}
	x, err := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig+
		"oauth: {enabled: true, clients: [{id: wiki, redirect_uris: [\"https://a.example/\"]}]}\n")).
		Explain(&explain.Request{Method: "GET", URL: "/any", Caller: &c})
	wantMistake(t, &c, x, err, false, `"machines" is another issuer`)
}

// wantMistake fails the test unless a description is refused, because of a user or client that does
// not exist, or else as a *explain.Mistake.
func wantMistake(t *testing.T, c *explain.Caller, x *explain.Result, err error, unknown bool, want string) {
	t.Helper()
	_, mistake := errors.AsType[*explain.Mistake](err)
	if x != nil || err == nil || mistake == unknown || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: got %+v, %v, want an error that says %q", c, x, err, want)
	}
}
