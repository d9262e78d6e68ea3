package explain_test

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/explain"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
	"authgate/policy"
)

type (
	Caller  = explain.Caller
	Mistake = explain.Mistake
	Request = explain.Request
	Result  = explain.Result
)

// explainConfig has what rig.Base has not: a provider, a trusted issuer, and a
// route for verify.
const explainConfig = `
public_url: https://gw.example
data_dir: not/here
basic:
  users:
    - {username: service, password_hash: "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"}
accounts:
  users:
    - {username: alice, roles: [admin], password_hash: "` + rig.AliceHash + `"}
    - {username: carol, disabled: true, password_hash: "` + rig.AliceHash + `"}
providers:
  - {name: corp, issuer: "https://id.invalid", client_id: authgate}
token: {algorithm: RS256, trusted_issuers: [{name: machines, issuer: "https://tokens.invalid", audience: [gw]}]}
upstreams:
  app: {url: "http://app.invalid", health: {path: /healthz}}
policies:
  admin: {roles: [admin]}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /any, upstream: app, auth: [basic, oidc, bearer, session]}
  - {match: /tokens, upstream: app, auth: [session, bearer], policy: {mechanisms: [bearer]}}
  - {match: /staff, upstream: app, auth: [oidc], policy: {roles: [staff], users: ["corp:dave"]}}
  - {match: /office, upstream: app, auth: [session], policy: [admin, {networks: [198.51.100.0/24]}]}
  - {match: /sales, upstream: app, auth: [session, bearer, oidc], ` +
	`policy: {claims: {department: [sales, support], address.country: [NL]}}}
  - {match: /orders, upstream: app, auth: [basic, session, bearer, oidc], policy: {scopes: [orders]}}
  - {match: /juniors, upstream: app, auth: [bearer], policy: {none: [admin]}}
  - {match: /asked, auth: [session], policy: admin}
  - {match: /public, upstream: app, auth: [none]}
`

// newExplainer returns what explains requests by the engine that decides.
func newExplainer(t testing.TB, cfg *config.Config) *gateway.Explainer {
	t.Helper()
	e := must.Get(gateway.NewExplainer(cfg))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

// A user has the mechanisms that the route accepts, those that it lets in first.
// An identity in words is what a mechanism can prove.
func TestExplainCallers(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig))
	words := func(c Caller) *Caller { return &c }
	for _, c := range []struct {
		path   string
		caller *Caller
		want   string // outcome, mechanism, and the user and the subject that the upstream gets
	}{
		{"/any", nil, "challenge"},
		{"/any", &Caller{User: "alice"}, "allow bearer alice local:alice"},
		{"/any", &Caller{User: "alice", Mechanism: policy.Session}, "allow session alice local:alice"},
		{"/any", &Caller{User: "alice", Mechanism: policy.Basic}, "challenge"}, // a local account has no Basic password
		{"/any", &Caller{User: "service"}, "allow basic service basic:service"},
		{"/tokens", &Caller{User: "alice"}, "allow bearer alice local:alice"}, // not session, which comes first
		{"/tokens", &Caller{User: "alice", Mechanism: policy.Session}, "forbid session"},
		{"/tokens", &Caller{User: "service"}, "challenge"},
		{"/tokens", &Caller{User: "alice", APIToken: true}, "allow bearer alice local:alice"},
		{"/tokens", &Caller{User: "alice", APIToken: true, Roles: []string{"admin"}, Mechanism: policy.Bearer},
			"allow bearer alice local:alice"},
		{"/office", &Caller{User: "alice", APIToken: true}, "challenge"},
		{"/juniors", &Caller{User: "alice", APIToken: true, Roles: []string{}}, "forbid bearer"},
		{"/basic", &Caller{User: "alice"}, "challenge"},
		{"/public", &Caller{User: "alice"}, "allow"}, // credentials do not count
		{"/staff", words(Caller{Username: "dave", Roles: []string{"staff"}}), "allow oidc dave corp:dave"},
		{"/staff", words(Caller{Username: "dave", Roles: []string{"staff"}, Provider: "corp"}),
			"allow oidc dave corp:dave"},
		{"/staff", words(Caller{Username: "dave"}), "forbid oidc"},
		{"/staff", words(Caller{Username: "dave", Roles: []string{"staff"}, Mechanism: policy.Bearer}), "challenge"},
		{"/staff", words(Caller{Username: "dave", Roles: []string{"staff"}, Provider: "machines"}), "challenge"},
		{"/any", words(Caller{Username: "m1", Provider: "machines"}), "allow bearer m1 machines:m1"},
		{"/any", words(Caller{Roles: []string{"x"}}), "allow oidc"}, // basic proves no role
		{"/any", words(Caller{Mechanism: policy.Basic, Username: "x"}), "allow basic x basic:x"},
		{"/sales", words(Caller{
			Username: "dave", Claims: map[string][]string{"department": {"it", "sales"}, "address.country": {"NL"}},
		}), "allow oidc dave corp:dave"},
		{"/sales", words(Caller{
			Username: "dave", Claims: map[string][]string{"department": {"sales"}, "address.country": {"DE"}},
		}), "forbid oidc"},
		{"/sales", words(Caller{Username: "dave"}), "forbid session"},
		{"/sales", words(Caller{
			Provider: "machines", Claims: map[string][]string{"department": {"support"}, "address.country": {"NL"}},
		}), "allow bearer"},
		{"/orders", words(Caller{Username: "m1", Provider: "machines", Scopes: []string{"read", "orders"}}),
			"allow bearer m1 machines:m1"},
		{"/orders", words(Caller{Username: "m1", Provider: "machines", Scopes: []string{"read"}}), "forbid bearer"},
	} {
		x, err := e.Explain(&Request{Method: "GET", URL: c.path, Caller: c.caller})
		if err != nil {
			t.Errorf("%s by %+v: %v", c.path, c.caller, err)
			continue
		}
		got := strings.Join(strings.Fields(x.Outcome+" "+string(x.Mechanism)+" "+
			x.Header.Get("X-Auth-User")+" "+x.Header.Get("X-Auth-Subject")), " ")
		if got != c.want {
			t.Errorf("%s by %+v: got %q, want %q: %s", c.path, c.caller, got, c.want, x.Reason)
		}
		identity := slices.ContainsFunc(slices.Collect(maps.Keys(x.Header)),
			func(name string) bool { return strings.HasPrefix(name, "X-Auth-") })
		if identity && x.Outcome != explain.OutcomeAllow {
			t.Errorf("%s by %+v: refused, with %q", c.path, c.caller, x.Header)
		}
	}
}

// Claims in words reach an upstream, or a proxy that asks, in the headers that the real ones
// would be in.
func TestExplainClaimHeaders(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig+
		"identity_headers: {claims: {X-Department: department, X-Country: address.country}}\n"))
	caller := &Caller{Username: "dave", Provider: "machines",
		Claims: map[string][]string{"department": {"it", "sales"}, "address.country": {"NL"}}}
	for path, verify := range map[string]bool{"/any": false, "/tokens": true} {
		x, err := e.Explain(&Request{Method: "GET", URL: path, Caller: caller, Verify: verify})
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Header.Get("X-Department") + " " + x.Header.Get("X-Country"); got != "it,sales NL" {
			t.Errorf("%s: got %q, %s", path, got, x.Reason)
		}
	}
}

// What has no meaning is an error, and never an identity.
func TestExplainMistakes(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig))
	for _, c := range []struct {
		d       Request
		unknown bool
		want    string
	}{
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "mallory"}}, true, `"mallory"`},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "carol"}}, true, "disabled"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "corp:dave"}}, true, `"corp:dave"`},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", Roles: []string{"x"}}}, false,
			"properties"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", Mechanism: "none"}}, false, "mechanism"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Provider: "nowhere"}}, false, "provider"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Provider: "corp", Mechanism: policy.Session}},
			false, "does not prove"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Roles: []string{"x"}, Mechanism: policy.Basic}},
			false, "does not prove"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Roles: []string{""}}}, false, "role"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Mechanism: policy.OIDC, Scopes: []string{"x"}}},
			false, "scopes"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Mechanism: policy.Bearer, Scopes: []string{"x"}}},
			false, "scopes"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Mechanism: policy.Session,
			Claims: map[string][]string{"a": {"b"}}}}, false, "claims"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Mechanism: policy.Bearer,
			Claims: map[string][]string{"a": {"b"}}}}, false, "claims"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{Mechanism: policy.Basic,
			Claims: map[string][]string{"a": {"b"}}}}, false, "claims"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", Claims: map[string][]string{"a": {"b"}}}},
			false, "properties"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", APIToken: true, Scopes: []string{"x"}}},
			false, "an API token has no scopes"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{APIToken: true}}, false, "name its user"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "service", APIToken: true}}, true, `"service"`},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", APIToken: true, Roles: []string{"user"}}},
			false, `does not have the role "user"`},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", APIToken: true, Mechanism: policy.Session}},
			false, "bearer"},
		{Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice", APIToken: true, Email: "x@example.org"}},
			false, "roles alone"},
		{Request{Method: "GET", URL: "/any", Header: http.Header{"cookie": {"a=b"}}}, false,
			"prove who makes the request"},
		{Request{Method: "GET", URL: "/any", Header: http.Header{"Authorization": {"x"}}},
			false, "prove who makes the request"},
		{Request{Method: "GET", URL: "/any", Header: http.Header{"Host": {"x"}}}, false, "in the URL"},
		{Request{Method: "GET", URL: "/any", Header: http.Header{"Transfer-Encoding": {"chunked"}}},
			false, "about the connection"},
		{Request{Method: "GET", URL: "/any", Header: http.Header{"a b": {"x"}}}, false, "not a header field"},
		{Request{Method: "GET", URL: "/any", Header: http.Header{"A": {"x\ny"}}}, false, "not a header field"},
		{Request{URL: "/any"}, false, "method"},
		{Request{Method: "GET", URL: "http://gw.example/any"}, false, "not https"},
		{Request{Method: "GET", URL: "gw.example/any"}, false, "expected https://HOST/PATH"},
		{Request{Method: "GET", URL: "https://alice@gw.example/any"}, false, "has a user"},
		{Request{Method: "GET", URL: "https:///any"}, false, "no host"},
	} {
		x, err := e.Explain(&c.d)
		_, mistake := errors.AsType[*Mistake](err)
		if x != nil || err == nil || mistake == c.unknown || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %+v, %v, want an error that says %q", c.d, x, err, c.want)
		}
	}
}

// Every condition is evaluated, also after one that fails, and for an identity
// whose mechanism the route does not accept.
func TestExplainConditions(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig))
	for _, c := range []struct {
		caller *Caller
		from   string
		want   []bool // auth, roles, networks
	}{
		{nil, "198.51.100.1", []bool{false, false, true}},
		{&Caller{User: "alice"}, "192.0.2.1", []bool{true, true, false}},
		{&Caller{User: "alice"}, "::ffff:198.51.100.1", []bool{true, true, true}},
		{&Caller{User: "service"}, "198.51.100.1", []bool{false, false, true}},
		{&Caller{Roles: []string{"admin"}, Mechanism: policy.Bearer}, "192.0.2.1", []bool{false, true, false}},
		{&Caller{Username: "alice"}, "192.0.2.1", []bool{true, false, false}},
	} {
		x, err := e.Explain(&Request{
			Method: "GET", URL: "https://gw.example/office", From: netip.MustParseAddr(c.from), Caller: c.caller,
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []bool
		for _, condition := range x.Conditions {
			got = append(got, condition.Holds)
		}
		if !slices.Equal(got, c.want) || x.Route != "/office" || x.Upstream != "app" {
			t.Errorf("%+v from %s: got %+v, want %v", c.caller, c.from, x, c.want)
		}
	}
}

// A route for verify alone is 404 for a direct request. What the proxy gets is
// every identity header.
func TestExplainVerify(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, rig.Parse(t, t.TempDir(), explainConfig))
	for _, verify := range []bool{false, true} {
		x, err := e.Explain(&Request{Method: "GET", URL: "/asked", Verify: verify, Caller: &Caller{User: "alice"}})
		if err != nil {
			t.Fatal(err)
		}
		email, sent := x.Header["X-Auth-Email"]
		switch {
		case !verify && (x.Outcome != explain.OutcomeNotFound || x.Status != 404 || x.Route != ""):
			t.Errorf("a direct request: %+v", x)
		case verify && (x.Outcome != explain.OutcomeAllow || x.Header.Get("X-Auth-User") != "alice" ||
			!sent || email[0] != "" || x.Header["X-Forwarded-For"] != nil):
			t.Errorf("a request to verify: %+v", x)
		}
	}
	x, err := e.Explain(&Request{Method: "POST", URL: "/login", Verify: true})
	if err != nil || x.Outcome != explain.OutcomeNotFound {
		t.Errorf("verify of an own endpoint: %+v, %v", x, err)
	}
}

// With tls.mode off a request comes through a trusted proxy, which says who the
// client is and that it uses https.
func TestExplainBehindProxy(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, explainConfig, "data_dir: not/here\n",
		"tls: {mode: \"off\"}\nlisten: {https: \"\", http: \":8080\", trusted_proxies: [10.0.0.0/8]}\n")
	e := newExplainer(t, rig.Parse(t, t.TempDir(), yaml))
	for url, want := range map[string]string{
		"https://gw.example/office": explain.OutcomeAllow, "http://gw.example/office": explain.OutcomeForbid,
	} {
		x, err := e.Explain(&Request{
			Method: "GET", URL: url, From: netip.MustParseAddr("198.51.100.7"), Caller: &Caller{User: "alice"},
		})
		if err != nil || x.Outcome != want ||
			want == explain.OutcomeAllow && x.Header.Get("X-Forwarded-For") != "198.51.100.7, 10.0.0.0" {
			t.Errorf("%s: got %+v, %v, want %s", url, x, err, want)
		}
	}
}

// An Explainer needs no file and leaves none, whatever keys the gateway would
// generate.
func TestExplainTouchesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg, err := config.Parse(dir+"/config.yaml", []byte(explainConfig))
	if err != nil {
		t.Fatal(err)
	}
	e := newExplainer(t, cfg)
	x, err := e.Explain(&Request{Method: "GET", URL: "/any", Caller: &Caller{User: "alice"}})
	if err != nil || x.Outcome != explain.OutcomeAllow {
		t.Errorf("got %+v, %v", x, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
	if cfg.Token.Algorithm != config.AlgorithmRS256 || cfg.Store.Driver != config.StoreSQLite {
		t.Error("it changed the configuration")
	}
}

// A rate counts nothing that is only described.
func TestExplainCountsNoRate(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, explainConfig, "{match: /public,", "{match: /public, rate: {requests: 1, per: 1h},")
	e := newExplainer(t, rig.Parse(t, t.TempDir(), yaml))
	for range 3 {
		if x, err := e.Explain(&Request{Method: "GET", URL: "/public"}); err != nil ||
			x.Outcome != explain.OutcomeAllow {
			t.Errorf("got %+v, %v", x, err)
		}
	}
}

// An API token is never a cookie, so that another site can do nothing with it.
func TestExplainAPITokenOfOtherSite(t *testing.T) {
	t.Parallel()
	yaml := strings.Replace(explainConfig, "algorithm: RS256", "algorithm: RS256, delivery: cookie", 1)
	e := newExplainer(t, rig.Parse(t, t.TempDir(), yaml))
	for _, c := range []struct {
		caller Caller
		want   string
	}{
		{Caller{User: "alice", APIToken: true}, explain.OutcomeAllow},
		{Caller{User: "alice", Mechanism: policy.Bearer}, explain.OutcomeForbid},
	} {
		x, err := e.Explain(&Request{
			Method: "POST", URL: "/tokens", Header: http.Header{"Origin": {"https://evil.example"}}, Caller: &c.caller,
		})
		if err != nil || x.Outcome != c.want {
			t.Errorf("%+v: %+v, %v; want %s", c.caller, x, err, c.want)
		}
	}
}

// A request at a time finds the roles and accounts that have not ended by then.
func TestExplainAt(t *testing.T) {
	t.Parallel()
	cfg := rig.Parse(t, t.TempDir(), rig.Edit(t, rig.Base, "roles: [user, admin],",
		`roles: [user, {name: admin, until: "2030-11-30T12:00:00+01:00"}], until: 2030-12-04T18:00:00Z,`))
	for text, want := range map[string]string{
		"2030-11-30T10:59:59Z": "allow", "2030-11-30T11:00:00Z": "forbid", "2030-12-04T17:59:59Z": "forbid",
		"2030-12-04T18:00:00Z": "unknown", "2040-01-01T00:00:00+01:00": "unknown",
	} {
		at := must.Get(time.Parse(time.RFC3339, text))(t)
		e := must.Get(gateway.NewExplainerAt(cfg, func() time.Time { return at }))(t)
		x, err := e.Explain(&Request{Method: "GET", URL: "https://gw.example/admin/", From: netip.MustParseAddr("192.0.2.1"),
			Caller: &Caller{User: "alice"}})
		e.Close()
		got := "unknown"
		if err == nil {
			got = x.Outcome
		}
		if got != want {
			t.Errorf("at %s: %s (%v), want %s", text, got, err, want)
		}
	}
}
