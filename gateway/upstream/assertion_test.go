package upstream

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/jose"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/policy"
)

// newAsserting returns headers with an assertion, and what reads it as an application does.
func newAsserting(t *testing.T) (*IdentityHeaders, *clocktest.Clock, *jose.Reader) {
	t.Helper()
	clock := clocktest.At(time.Now())
	keys := must.Get(jose.Load("RS256", "", "", t.TempDir()))(t)
	headers := NewIdentityHeaders(HeaderOptions{
		Names: config.IdentityHeaders{Roles: "X-Auth-Roles"},
		Roles: map[string]string{"staff": "Editor", "writers": "Editor"},
		Assertion: &Assertion{
			Header: "X-Auth-Assertion", Keys: keys, Issuer: "https://gw.example", Audience: "wiki", Lifetime: 5 * time.Minute,
			Now: clock.Now,
		},
	})
	return headers, clock, jose.NewReader(keys, jose.ReaderOptions{
		Issuer: "https://gw.example", Audience: []string{"wiki"}, Now: clock.Now,
	})
}

func field(h *IdentityHeaders, id *policy.Identity, name string) string {
	for _, f := range h.Fields(id) {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// An assertion says what the identity headers say, in a form that an application can verify.
func TestAssertion(t *testing.T) {
	t.Parallel()
	h, _, reader := newAsserting(t)
	id := &policy.Identity{
		Username: "alice", Subject: "local:alice", Name: "Alice, Ünïcode", Email: "a@example.org",
		Roles: []string{"staff", "admin", "writers"}, Mechanism: policy.Session, Provider: "local", Login: "SID",
	}
	claims, _, err := reader.Read(field(h, id, "X-Auth-Assertion"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"sub": "local:alice", "username": "alice", "name": "Alice, Ünïcode", "email": "a@example.org", "mechanism": "session",
		"provider": "local", "sid": "SID",
	} {
		if claims[name] != want {
			t.Errorf("%s is %v, want %v", name, claims[name], want)
		}
	}
	if roles := field(h, id, "X-Auth-Roles"); roles != "Editor,admin" {
		t.Errorf("the header has the roles %q", roles)
	}
	if roles, _ := json.Marshal(claims["roles"]); string(roles) != `["Editor","admin"]` {
		t.Errorf("the assertion has the roles %s", roles)
	}
	basic := &policy.Identity{Username: "service", Subject: "basic:service", Mechanism: policy.Basic, Provider: "basic"}
	claims, _, err = reader.Read(field(h, basic, "X-Auth-Assertion"))
	if _, login := claims["sid"]; err != nil || login || claims["sub"] != "basic:service" {
		t.Errorf("without a login: %v, %v", claims, err)
	}
	for _, name := range []string{"X-Auth-Assertion", "x_auth-assertion", "X.Auth.Assertion"} {
		if !h.Refuses(http.CanonicalHeaderKey(name), nil) {
			t.Errorf("a client may send %s", name)
		}
	}
	answer := http.Header{"X-Auth-Assertion": {"of another"}}
	if h.SetAll(answer, nil); answer.Get("X-Auth-Assertion") != "" || len(answer["X-Auth-Assertion"]) != 1 {
		t.Errorf("without a user: %q", answer["X-Auth-Assertion"])
	}
}

// An assertion is signed once, and sent again while half of its lifetime remains.
func TestAssertionIsSentAgain(t *testing.T) {
	t.Parallel()
	h, clock, reader := newAsserting(t)
	id := &policy.Identity{Username: "alice", Subject: "local:alice"}
	first := field(h, id, "X-Auth-Assertion")
	clock.Advance(2 * time.Minute)
	if field(h, id, "X-Auth-Assertion") != first {
		t.Error("it is signed for every request")
	}
	clock.Advance(time.Minute)
	next := field(h, id, "X-Auth-Assertion")
	if _, expires, err := reader.Read(next); err != nil || next == first || expires.Sub(clock.Now()) < 4*time.Minute {
		t.Errorf("after half of its lifetime: %v, %v", expires, err)
	}
}

// Claims of a provider become headers if they can be written so that they are read as they are.
func TestClaimHeaders(t *testing.T) {
	t.Parallel()
	id := &policy.Identity{Claims: map[string]any{
		"text": "Einkauf", "number": json.Number("42"), "exponent": json.Number("1e3"), "half": json.Number("0.5"),
		"float": 7.0, "yes": true, "no": false, "null": nil, "object": map[string]any{"inner": "deep", "n": json.Number("1")},
		"list": []any{"a", json.Number("2"), true}, "texts": []string{"x", "y"}, "empty": []any{}, "comma": []any{"a,b", "c"},
		"nested": []any{"a", []any{"b"}}, "lines": "a\r\nX-Auth-User: root", "long": strings.Repeat("x", 8<<10+1),
		"longest": strings.Repeat("x", 8<<10), "a.b": "dots", "a": map[string]any{"b": "path"}, "space": " x",
		"badlist": []any{"ok", "a\x00b"}, "huge": math.MaxFloat64,
	}}
	for path, want := range map[string]string{
		"text": "Einkauf", "number": "42", "exponent": "1000", "half": "0.5", "float": "7", "yes": "true", "no": "false",
		"null": "", "object": "", "object.inner": "deep", "object.n": "1", "list": "a,2,true", "texts": "x,y", "empty": "",
		"comma": "", "nested": "", "lines": "", "long": "", "longest": strings.Repeat("x", 8<<10), "a.b": "dots", "space": "",
		"missing": "", "badlist": "",
	} {
		h := NewIdentityHeaders(HeaderOptions{Names: config.IdentityHeaders{Claims: map[string]string{"X-Claim": path}}})
		if got := field(h, id, "X-Claim"); got != want {
			t.Errorf("%s: %.60q, want %.60q", path, got, want)
		}
		if !h.Refuses("X-Claim", nil) {
			t.Error("a client may send the header")
		}
	}
}
