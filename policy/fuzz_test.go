package policy_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"authgate/policy"
)

// dice makes choices from fuzzed bytes. After the last byte it returns 0.
type dice struct{ data []byte }

func (d *dice) roll(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % n
}

// some returns a subset of words, nil if it is empty.
func (d *dice) some(words ...string) []string {
	var chosen []string
	for bits := d.roll(1 << len(words)); len(words) > 0; words, bits = words[1:], bits>>1 {
		if bits&1 != 0 {
			chosen = append(chosen, words[0])
		}
	}
	return chosen
}

func (d *dice) one(words ...string) string { return words[d.roll(len(words))] }

// lists are the keys of a policy that hold a list, with values for them.
var lists = [][]string{
	{"roles", "user", "admin", "staff"}, {"all_roles", "user", "admin"}, {"users", "alice", "basic:service", "idp:alice"},
	{"email_domains", "example.org", "example.net"}, {"scopes", "read", "write"}, {"mechanisms", "basic", "session", "bearer", "oidc"},
	{"providers", "local", "basic", "idp"}, {"networks", "192.0.2.0/24", "2001:db8::1"}, {"methods", "GET", "POST"},
}

// key adds a key to s, or does nothing. References use names.
func (d *dice) key(s *spec, depth int, names []string) {
	kind := d.roll(len(lists) + 4)
	if kind < len(lists) {
		if l := list(s, lists[kind][0]); *l == nil {
			*l = d.some(lists[kind][1:]...)
		}
		return
	}
	if kind == len(lists) {
		if values := d.some("x", "7", "true"); values != nil && s.Claims == nil {
			s.Claims = map[string][]string{d.one("a", "b.c"): values}
		}
		return
	}
	refs := []*[]policy.Ref{&s.Any, &s.All, &s.None}[kind-len(lists)-1]
	if *refs != nil || depth == 0 {
		return
	}
	for range d.roll(3) {
		if i := d.roll(len(names) + 1); i < len(names) {
			*refs = append(*refs, policy.Ref{Name: names[i]})
		} else {
			*refs = append(*refs, policy.Ref{Spec: d.spec(depth-1, names)})
		}
	}
}

// spec returns a policy with at least one rule.
func (d *dice) spec(depth int, names []string) *spec {
	s := &spec{}
	for range 1 + d.roll(3) {
		d.key(s, depth, names)
	}
	if reflect.ValueOf(*s).IsZero() {
		s.Roles = []string{"user"}
	}
	return s
}

func (d *dice) identity() *policy.Identity {
	id := &policy.Identity{
		Username:  d.one("alice", "service", "bob"),
		Provider:  d.one("local", "basic", "idp"),
		Email:     d.one("", "a@example.org", "a@EXAMPLE.net", "a@example.org@example.net"),
		Roles:     d.some("user", "admin", "staff"),
		Scopes:    d.some("read", "write"),
		Mechanism: policy.Mechanism(d.one("session", "basic", "bearer", "oidc")),
	}
	values := []any{"x", 7.0, true, []any{"y", 7.0}, nil}
	id.Claims = map[string]any{"a": values[d.roll(len(values))], "b": map[string]any{"c": values[d.roll(len(values))]}}
	return id
}

func (d *dice) request() *policy.Request {
	clients := []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("10.0.0.1"), {}}
	return &policy.Request{
		Method: d.one("GET", "POST", "HEAD"),
		Host:   "example.org",
		Path:   policy.Path{Raw: "/", Decoded: "/"},
		Client: clients[d.roll(len(clients))],
	}
}

// holds reports whether a policy holds, by a literal reading of its definition.
func holds(named specs, s *spec, id *policy.Identity, req *policy.Request) bool {
	among := func(list []string, has func(string) bool) bool { return list == nil || slices.ContainsFunc(list, has) }
	account := id.Provider + ":" + id.Username
	_, domain, _ := strings.Cut(strings.ToLower(id.Email), "@")
	ok := among(s.Roles, func(r string) bool { return slices.Contains(id.Roles, r) }) &&
		among(s.Users, func(u string) bool { return u == account || "local:"+u == account }) &&
		among(s.EmailDomains, func(d string) bool { return d == domain }) &&
		among(s.Scopes, func(sc string) bool { return slices.Contains(id.Scopes, sc) }) &&
		among(s.Mechanisms, func(m string) bool { return m == string(id.Mechanism) }) &&
		among(s.Providers, func(p string) bool { return p == id.Provider }) &&
		among(s.Methods, func(m string) bool { return m == req.Method }) &&
		among(s.Networks, func(n string) bool {
			addr := strings.TrimSuffix(n, ".0/24")
			return req.Client.IsValid() && (addr == req.Client.String() || addr != n && strings.HasPrefix(req.Client.String(), addr+"."))
		})
	for _, r := range s.AllRoles {
		ok = ok && slices.Contains(id.Roles, r)
	}
	for name, values := range s.Claims {
		claim := id.Claims["a"]
		if name == "b.c" {
			claim = id.Claims["b"].(map[string]any)["c"]
		}
		spelling := map[any][]string{"x": {"x"}, 7.0: {"7"}, true: {"true"}, nil: nil}
		spellings, single := []string{"y", "7"}, false
		if _, array := claim.([]any); !array {
			spellings, single = spelling[claim]
			ok = ok && single
		}
		ok = ok && slices.ContainsFunc(values, func(v string) bool { return slices.Contains(spellings, v) })
	}
	met := func(ref policy.Ref) bool {
		if ref.Spec == nil {
			ref.Spec = named[ref.Name]
		}
		return holds(named, ref.Spec, id, req)
	}
	unmet := func(ref policy.Ref) bool { return !met(ref) }
	return ok && (s.Any == nil || slices.ContainsFunc(s.Any, met)) && !slices.ContainsFunc(s.All, unmet) && !slices.ContainsFunc(s.None, met)
}

// addThrows adds n seeds for dice.
func addThrows(f *testing.F, n, size int, start [32]byte) {
	f.Add([]byte{})
	random := rand.NewChaCha8(start)
	for range n {
		seed := make([]byte, size)
		random.Read(seed) // never fails
		f.Add(seed)
	}
}

// A decision agrees with the definition of the policy, and an addition to a
// policy never allows more.
func FuzzDecide(f *testing.F) {
	addThrows(f, 500, 80, [32]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		id, req := d.identity(), d.request()
		named := specs{}
		var names []string
		for _, name := range []string{"one", "two"} { // each may refer to those before it
			named[name] = d.spec(2, names)
			names = append(names, name)
		}
		whole := d.spec(3, names)
		decide := func(refs ...policy.Ref) policy.Decision {
			return policyRoute(t, named, refs...).Decide(id, req)
		}

		before := decide(policy.Ref{Spec: whole})
		if got, want := before.Outcome == policy.Allow, holds(named, whole, id, req); got != want {
			t.Fatalf("%+v: allowed: %t by %q, want %t", whole, got, before.Rule, want)
		}
		if !strings.HasPrefix(before.Reason, "route r: "+before.Rule+": ") {
			t.Errorf("the reason %q does not name the rule %q", before.Reason, before.Rule)
		}
		if not := decide(inline(spec{None: []policy.Ref{{Spec: whole}}})); (not.Outcome == policy.Allow) == (before.Outcome == policy.Allow) {
			t.Errorf("%+v: %v, and none of it: %v", whole, before, not)
		}

		other := d.spec(2, names)
		if both := decide(policy.Ref{Spec: whole}, policy.Ref{Spec: other}); both.Outcome > before.Outcome {
			t.Errorf("a second policy turned %v into %v", before, both)
		}
		d.key(whole, 2, names)
		if after := decide(policy.Ref{Spec: whole}); after.Outcome > before.Outcome {
			t.Errorf("a further key turned %v into %v", before, after)
		}

		mechanisms := []policy.Mechanism{policy.Basic, policy.Session, policy.Bearer, policy.OIDC}
		for _, r := range []policy.Route{{}, {Policy: &policy.Policy{}}, {Mechanisms: mechanisms, Policy: &policy.Policy{}}} {
			if got := r.Decide(id, req); got.Outcome != policy.Forbid {
				t.Errorf("%+v: %v, want forbid", r, got)
			}
		}
		if got := policyRoute(t, named, policy.Ref{Spec: whole}).Decide(nil, req); got.Outcome != policy.Challenge {
			t.Errorf("no identity: %v, want challenge", got)
		}
	})
}

// A path without a slash at its end matches the route to which a http.ServeMux
// leads, with or without a redirect.
func FuzzSlashLikeServeMux(f *testing.F) {
	addThrows(f, 300, 40, [32]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		var patterns []string
		for range 1 + d.roll(6) {
			var path strings.Builder
			for range d.roll(4) {
				path.WriteString("/" + d.one("a", "b", "{x}", "{y}"))
			}
			path.WriteString(d.one("", "/", "/", "/{$}", "/{rest...}"))
			pattern := d.one("", "", "", "GET ", "POST ") + d.one("", "", "h.example") + path.String()
			if _, err := policy.NewTable(routes(append(patterns, pattern)...)); err == nil {
				patterns = append(patterns, pattern)
			}
		}
		table := newTable(t, routes(patterns...)...)
		mux := http.NewServeMux()
		for _, pattern := range patterns {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Pattern", pattern) })
		}
		var target strings.Builder
		for range 1 + d.roll(4) {
			target.WriteString("/" + d.one("a", "b", "c", "a%20b"))
		}
		target.WriteString(d.one("", "", "/"))
		method, host := d.one("GET", "HEAD", "POST", "PUT"), d.one("h.example", "other.example")

		want := served(mux, method, host, target.String())
		got, ok := table.Match(request(t, method, host, target.String()))
		if ok != (want != "") || ok && got.Route.Pattern != want {
			t.Errorf("of %q, %s %s%s has the route %+v, a ServeMux leads to %q", patterns, method, host, target.String(), got.Route, want)
		}
	})
}

// served returns the pattern that serves a request, empty if none does.
func served(mux *http.ServeMux, method, host, target string) string {
	for range 2 {
		r := httptest.NewRequest(method, "http://"+host+target, nil)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if pattern := w.Header().Get("X-Pattern"); pattern != "" {
			return pattern
		}
		location, err := url.Parse(w.Header().Get("Location"))
		if err != nil || w.Code < 300 || w.Code > 399 {
			return ""
		}
		target = location.EscapedPath()
	}
	return ""
}
