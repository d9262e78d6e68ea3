package upstream

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/policy"
)

// newAsserting returns headers with an assertion, and what reads it as an application does.
func newAsserting(t *testing.T) (*IdentityHeaders, *clocktest.Clock, *jose.Reader) {
	t.Helper()
	clock := clocktest.At(time.Now())
	keys := must.Get(jose.Load("RS256", "", "", t.TempDir()))(t)
	headers := NewIdentityHeaders(HeaderOptions{
		Names: forwarding.IdentityHeaders{Roles: "X-Auth-Roles"},
		Roles: map[string]string{"staff": "Editor", "writers": "Editor"},
		Assertion: &Assertion{
			Header: "X-Auth-Assertion", Keys: keys, Issuer: "https://gw.example", Audience: "wiki", Lifetime: 5 * time.Minute,
			Now: clock.Now,
		},
		Logger: slog.New(slog.DiscardHandler),
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
		Actor: "client:agent", EarlierActors: []string{"client:bot"},
	}
	claims, _, err := reader.Read(field(h, id, "X-Auth-Assertion"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"sub": "local:alice", "username": "alice", "name": "Alice, Ünïcode", "email": "a@example.org",
		"mechanism": "session", "provider": "local", "sid": "SID",
	} {
		if claims[name] != want {
			t.Errorf("%s is %v, want %v", name, claims[name], want)
		}
	}
	if act, _ := json.Marshal(claims["act"]); string(act) != `{"act":{"sub":"client:bot"},"sub":"client:agent"}` {
		t.Errorf("act is %s", act)
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

// An identity that cannot be signed is an error in the log, and the next request tries again.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	broken := &rsa.PrivateKey{PublicKey: key.PublicKey, D: big.NewInt(1), Primes: key.Primes}
	var log logtest.Buffer
	h := NewIdentityHeaders(HeaderOptions{
		Names: forwarding.IdentityHeaders{User: "X-Auth-User"}, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
		Assertion: &Assertion{
			Header: "X-Auth-Assertion", Keys: must.Get(jose.NewRS256(broken))(t), Lifetime: time.Hour,
			Now: clocktest.At(time.Now()).Now,
		},
	})
	id := &policy.Identity{Username: "alice", Subject: "local:alice"}
	for range 2 {
		if got := field(h, id, "X-Auth-Assertion"); got != "" {
			t.Errorf("the application gets %q", got)
		}
	}
	all := log.Records(t, "an identity is not signed, so the application does not get it in that header")
	if len(all) != 2 || all[0]["header"] != "X-Auth-Assertion" || all[0]["subject"] != "local:alice" {
		t.Errorf("the log says %v", all)
	}
}

// Claims of a provider become headers if they can be written so that they are read as they are.
func TestClaimHeaders(t *testing.T) {
	t.Parallel()
	id := &policy.Identity{Claims: map[string]any{
		"text": "Einkauf", "none": "", "number": json.Number("42"), "exponent": json.Number("1e3"),
		"half": json.Number("0.5"), "round": json.Number("7.0"), "long number": json.Number("12345678901234567890"),
		"small": json.Number("-1.50E-7"), "exact": json.Number("1234567890.12345678901234567890e9"),
		"endless": json.Number("1e99999"), "yes": true, "no": false, "null": nil,
		"object": map[string]any{"inner": "deep", "n": json.Number("1")},
		"list":   []any{"a", json.Number("2"), true}, "empty": []any{},
		"comma": []any{"a,b", "c"}, "hole": []any{"a", ""},
		"nested": []any{"a", []any{"b"}}, "lines": "a\r\nX-Auth-User: root", "long": strings.Repeat("x", 8<<10+1),
		"longest": strings.Repeat("x", 8<<10), "a.b": "dots", "a": map[string]any{"b": "path"}, "space": " x",
		"badlist": []any{"ok", "a\x00b"}, "nulls": []any{nil},
	}}
	const leftOut = "\x00"
	for path, want := range map[string]string{
		"text": "Einkauf", "none": "", "number": "42", "exponent": "1000", "half": "0.5", "round": "7",
		"long number": "12345678901234567890", "small": "-0.00000015", "exact": "1234567890123456789.0123456789",
		"endless": leftOut, "yes": "true", "no": "false", "null": "",
		"object": leftOut, "object.inner": "deep", "object.n": "1",
		"list": "a,2,true", "empty": "", "comma": leftOut, "hole": leftOut, "nested": leftOut,
		"lines": leftOut, "long": leftOut, "longest": strings.Repeat("x", 8<<10), "a.b": "dots", "space": leftOut,
		"missing": "", "badlist": leftOut, "nulls": leftOut,
	} {
		var log logtest.Buffer
		h := NewIdentityHeaders(HeaderOptions{
			Names:  forwarding.IdentityHeaders{Claims: map[string]string{"X-Claim": path}},
			Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if got := field(h, id, "X-Claim"); got != strings.Trim(want, leftOut) {
			t.Errorf("%s: %.60q, want %.60q", path, got, want)
		}
		if said := log.String() != ""; said != (want == leftOut) {
			t.Errorf("%s: the log says %q", path, log.String())
		}
		if !h.Refuses("X-Claim", nil) {
			t.Error("a client may send the header")
		}
	}
}

// An assertion ends with the account and each role that it names, and is made anew for what is left.
func TestAssertionEnds(t *testing.T) {
	t.Parallel()
	h, clock, reader := newAsserting(t)
	end := func(d time.Duration) time.Time { return clock.Now().Truncate(time.Second).Add(d) }
	for want, ends := range map[time.Duration]policy.Ends{
		5 * time.Minute:  {Account: end(6 * time.Minute), Roles: map[string]time.Time{"other": end(time.Second)}},
		4 * time.Minute:  {Account: end(4 * time.Minute), Roles: map[string]time.Time{"staff": end(5 * time.Minute)}},
		30 * time.Second: {Account: end(6 * time.Minute), Roles: map[string]time.Time{"staff": end(30 * time.Second)}},
	} {
		id := &policy.Identity{Username: "a", Subject: "local:a", Roles: []string{"user", "staff"}, Ends: ends}
		_, expires, err := reader.Read(field(h, id, "X-Auth-Assertion"))
		if err != nil || !expires.Equal(end(want)) {
			t.Errorf("it ends at %v (%v), want %v", expires, err, end(want))
		}
	}
}
