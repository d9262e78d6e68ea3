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
		{"/job/", Caller{User: "client:job", Mechanism: policy.Bearer, Scopes: []string{"tools"}},
			"allow client:job user"},
		{"/admin/", Caller{User: "client:job"}, "forbid roles: needs one of admin"},
	} {
		x, err := e.Explain(&Request{Method: "GET", URL: c.url, Caller: &c.caller})
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
		caller  Caller
		unknown bool
		want    string
	}{
		{Caller{User: "alice", Client: "wikki"}, false, `there is no OAuth client "wikki"; did you mean "wiki"?`},
		{Caller{User: "alice", Client: "other"}, false, "the oauth.clients are job, ledger, wiki"},
		{Caller{User: "client:jobb"}, true, `there is no OAuth client "jobb"; did you mean "job"?`},
		{Caller{User: "client:wiki"}, false, "its grants have neither client_credentials nor jwt_bearer"},
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
		x, err := e.Explain(&Request{Method: "GET", URL: "/any/", Caller: &c.caller})
		wantMistake(t, &c.caller, x, err, c.unknown, c.want)
	}
	for _, c := range []Caller{
		{User: "alice", Scopes: []string{"x"}}, {User: "alice", Client: "wiki"}, {User: "client:job"},
		{User: "alice", Resource: "https://gw.example/any"},
	} {
		x, err := without.Explain(&Request{Method: "GET", URL: "/any", Caller: &c})
		wantMistake(t, &c, x, err, false, "need oauth.enabled")
	}
	for want, c := range map[string]Caller{
		`there is no trusted issuer "machine"; did you mean "machines"?`: {Issuer: "machine"},
		`there is no trusted issuer "corp"; the token.trusted_issuers`:   {Issuer: "corp"}, // a provider
		"belongs to no login": {Issuer: "machines", Token: map[string]any{"sub": "1"}, Factors: 2},
	} {
		x, err := without.Explain(&Request{Method: "GET", URL: "/any", Caller: &c})
		wantMistake(t, &c, x, err, false, want)
	}
	c := Caller{Provider: "machines", Client: "wiki"}
	x, err := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig+
		"oauth: {enabled: true, clients: [{id: wiki, redirect_uris: [\"https://a.example/\"]}]}\n")).
		Explain(&Request{Method: "GET", URL: "/any", Caller: &c})
	wantMistake(t, &c, x, err, false, `"machines" is another issuer`)
}

// wantMistake fails the test unless a description is refused, because of a user or client that does
// not exist, or else as a *Mistake.
func wantMistake(t *testing.T, c *Caller, x *Result, err error, unknown bool, want string) {
	t.Helper()
	_, mistake := errors.AsType[*Mistake](err)
	if x != nil || err == nil || mistake == unknown || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: got %+v, %v, want an error that says %q", c, x, err, want)
	}
}
