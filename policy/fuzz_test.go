package policy_test

import (
	"math/rand/v2"
	"net/netip"
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

// key adds a key to s, or does nothing. References use names.
func (d *dice) key(s *policy.Spec, depth int, names []string) {
	set := func(list *[]string, words ...string) {
		if *list == nil {
			*list = d.some(words...)
		}
	}
	refs := func(list *[]policy.Ref) {
		if *list != nil || depth == 0 {
			return
		}
		for range d.roll(3) {
			if i := d.roll(len(names) + 1); i < len(names) {
				*list = append(*list, policy.Ref{Name: names[i]})
			} else {
				*list = append(*list, policy.Ref{Spec: d.spec(depth-1, names)})
			}
		}
	}
	switch d.roll(13) {
	case 0:
		set(&s.Roles, "user", "admin", "staff")
	case 1:
		set(&s.AllRoles, "user", "admin")
	case 2:
		set(&s.Users, "alice", "basic:service", "idp:alice")
	case 3:
		set(&s.EmailDomains, "example.org", "example.net")
	case 4:
		set(&s.Scopes, "read", "write")
	case 5:
		set(&s.Mechanisms, "basic", "session", "bearer", "oidc")
	case 6:
		set(&s.Providers, "local", "basic", "idp")
	case 7:
		set(&s.Networks, "192.0.2.0/24", "2001:db8::1")
	case 8:
		set(&s.Methods, "GET", "POST")
	case 9:
		if values := d.some("x", "7", "true"); values != nil && s.Claims == nil {
			s.Claims = map[string][]string{d.one("a", "b.c"): values}
		}
	case 10:
		refs(&s.Any)
	case 11:
		refs(&s.All)
	case 12:
		refs(&s.None)
	}
}

// spec returns a policy with at least one rule.
func (d *dice) spec(depth int, names []string) *policy.Spec {
	s := &policy.Spec{}
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
func holds(specs map[string]*policy.Spec, s *policy.Spec, id *policy.Identity, req *policy.Request) bool {
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
	met := 0
	for _, ref := range s.Any {
		if holdsRef(specs, ref, id, req) {
			met++
		}
	}
	ok = ok && (s.Any == nil || met > 0)
	for _, ref := range s.All {
		ok = ok && holdsRef(specs, ref, id, req)
	}
	for _, ref := range s.None {
		ok = ok && !holdsRef(specs, ref, id, req)
	}
	return ok
}

func holdsRef(specs map[string]*policy.Spec, ref policy.Ref, id *policy.Identity, req *policy.Request) bool {
	if ref.Spec != nil {
		return holds(specs, ref.Spec, id, req)
	}
	return holds(specs, specs[ref.Name], id, req)
}

// A decision agrees with the definition of the policy, and an addition to a
// policy never allows more.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{})
	random := rand.NewChaCha8([32]byte{})
	for range 500 {
		seed := make([]byte, 80)
		random.Read(seed) // never fails
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		id, req := d.identity(), d.request()
		specs := make(map[string]*policy.Spec)
		var names []string
		for _, name := range []string{"one", "two"} { // each may refer to those before it
			specs[name] = d.spec(2, names)
			names = append(names, name)
		}
		spec := d.spec(3, names)
		decide := func(refs ...policy.Ref) policy.Decision {
			return policyRoute(t, specs, refs...).Decide(id, req)
		}

		before := decide(policy.Ref{Spec: spec})
		if got, want := before.Outcome == policy.Allow, holds(specs, spec, id, req); got != want {
			t.Fatalf("%+v: allowed: %t by %q, want %t", spec, got, before.Rule, want)
		}
		if !strings.HasPrefix(before.Reason, "route r: "+before.Rule+": ") {
			t.Errorf("the reason %q does not name the rule %q", before.Reason, before.Rule)
		}
		if not := decide(inline(policy.Spec{None: []policy.Ref{{Spec: spec}}})); (not.Outcome == policy.Allow) == (before.Outcome == policy.Allow) {
			t.Errorf("%+v: %v, and none of it: %v", spec, before, not)
		}

		other := d.spec(2, names)
		if both := decide(policy.Ref{Spec: spec}, policy.Ref{Spec: other}); both.Outcome > before.Outcome {
			t.Errorf("a second policy turned %v into %v", before, both)
		}
		d.key(spec, 2, names)
		if after := decide(policy.Ref{Spec: spec}); after.Outcome > before.Outcome {
			t.Errorf("a further key turned %v into %v", before, after)
		}

		mechanisms := []policy.Mechanism{policy.Basic, policy.Session, policy.Bearer, policy.OIDC}
		for _, r := range []policy.Route{{}, {Policy: &policy.Policy{}}, {Mechanisms: mechanisms, Policy: &policy.Policy{}}} {
			if got := r.Decide(id, req); got.Outcome != policy.Forbid {
				t.Errorf("%+v: %v, want forbid", r, got)
			}
		}
		if got := policyRoute(t, specs, policy.Ref{Spec: spec}).Decide(nil, req); got.Outcome != policy.Challenge {
			t.Errorf("no identity: %v, want challenge", got)
		}
	})
}
