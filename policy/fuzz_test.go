package policy_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

func (d *dice) one(words ...string) string { return words[d.roll(len(words))] }

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

// meaning is a policy with a literal reading of its definition.
type meaning struct {
	spec  spec
	holds func(id *policy.Identity, req *policy.Request) bool
}

// meanings are policies without references.
var meanings = []meaning{
	{spec{}, func(*policy.Identity, *policy.Request) bool { return true }}, // with references only
	{spec{Roles: []string{"user", "admin"}}, func(id *policy.Identity, _ *policy.Request) bool {
		return slices.Contains(id.Roles, "user") || slices.Contains(id.Roles, "admin")
	}},
	{spec{AllRoles: []string{"user", "admin"}}, func(id *policy.Identity, _ *policy.Request) bool {
		return slices.Contains(id.Roles, "user") && slices.Contains(id.Roles, "admin")
	}},
	{spec{Users: []string{"alice", "idp:bob"}}, func(id *policy.Identity, _ *policy.Request) bool {
		return id.Provider+":"+id.Username == "local:alice" || id.Provider+":"+id.Username == "idp:bob"
	}},
	{spec{EmailDomains: []string{"example.org"}}, func(id *policy.Identity, _ *policy.Request) bool {
		return strings.EqualFold(id.Email, "a@example.org")
	}},
	{spec{
		Scopes: []string{"read"}, Methods: []string{"GET", "POST"},
	}, func(id *policy.Identity, req *policy.Request) bool {
		return slices.Contains(id.Scopes, "read") && req.Method != "HEAD"
	}},
	{spec{Mechanisms: []string{"basic", "oidc"}}, func(id *policy.Identity, _ *policy.Request) bool {
		return id.Mechanism == policy.Basic || id.Mechanism == policy.OIDC
	}},
	{spec{Providers: []string{"basic", "idp"}}, func(id *policy.Identity, _ *policy.Request) bool {
		return id.Provider != "local"
	}},
	{spec{Networks: []string{"192.0.2.0/24", "2001:db8::1"}}, func(_ *policy.Identity, req *policy.Request) bool {
		return req.Client.IsValid() && req.Client.String() != "10.0.0.1"
	}},
	{spec{Claims: map[string][]string{"a.b": {"x", "7", "true"}}}, func(id *policy.Identity, _ *policy.Request) bool {
		return id.Claims["a"].(map[string]any)["b"] != nil
	}},
	{spec{Factors: 1}, func(*policy.Identity, *policy.Request) bool { return true }},
	{spec{Factors: 2}, func(id *policy.Identity, _ *policy.Request) bool { return slices.Contains(id.AMR, "mfa") }},
	{spec{MaxAge: time.Minute}, func(id *policy.Identity, _ *policy.Request) bool {
		return !id.AuthTime.Before(now.Add(-time.Minute))
	}},
	{spec{MaxAge: time.Hour}, func(id *policy.Identity, _ *policy.Request) bool {
		return !id.AuthTime.Before(now.Add(-time.Hour))
	}},
}

// demands are all that a policy of meanings can demand of a login.
var demands = []policy.Demand{
	{}, {Factors: 2}, {MaxAge: time.Minute}, {MaxAge: time.Hour},
	{Factors: 2, MaxAge: time.Minute}, {Factors: 2, MaxAge: time.Hour},
}

// enough reports whether a sign-in that just meets a demand is let in, and one made now, also
// with as many factors as the login has.
func enough(m meaning, id *policy.Identity, req *policy.Request, d policy.Demand) bool {
	with := func(factors int, at time.Time) bool {
		probe := *id
		probe.Proof = policy.Proof{AuthTime: at}
		if factors == 2 {
			probe.AMR = []string{"mfa"}
		}
		return m.holds(&probe, req)
	}
	oldest := now.Add(-d.MaxAge)
	if d.MaxAge == 0 {
		oldest = time.Time{}
	}
	factors := max(d.Factors, id.Factors())
	return with(d.Factors, oldest) && with(d.Factors, now) && with(factors, oldest) && with(factors, now)
}

// wantStepUp fails the test unless a step-up is offered exactly to those whom proof lets
// in, and demands enough, and no more than that.
func wantStepUp(t *testing.T, d policy.Decision, m meaning, id *policy.Identity, req *policy.Request) {
	t.Helper()
	helps := func(one policy.Demand) bool { return !one.Met(&id.Proof, now) && enough(m, id, req, one) }
	switch {
	case d.Outcome != policy.StepUp && d.Demand != policy.Demand{}:
		t.Errorf("%+v: %+v demands something", m.spec, d)
	case d.Outcome == policy.Forbid && slices.ContainsFunc(demands, helps):
		t.Errorf("%+v: forbidden, but proof lets %+v in", m.spec, id)
	case d.Outcome == policy.StepUp && !helps(d.Demand):
		t.Errorf("%+v: what %+v demands is not enough", m.spec, d)
	}
	for _, less := range demands {
		if d.Outcome == policy.StepUp && less != d.Demand && less.And(d.Demand) == d.Demand && helps(less) {
			t.Errorf("%+v: %+v demands more than %+v", m.spec, d, less)
		}
	}
}

// policy returns a policy with at least one rule. Its references use named.
func (d *dice) policy(depth int, named []meaning) meaning {
	m := meanings[d.roll(len(meanings))]
	for range d.roll(3) {
		m = d.with(m, depth, named)
	}
	if reflect.ValueOf(m.spec).IsZero() {
		return meanings[1]
	}
	return m
}

// with returns m with references added to one of its keys, or m.
func (d *dice) with(m meaning, depth int, named []meaning) meaning {
	var refs []policy.Ref
	var others []meaning
	for range 1 + d.roll(2) {
		if i := d.roll(len(named) + 1); i < len(named) {
			refs, others = append(refs, policy.Ref{Name: strconv.Itoa(i)}), append(others, named[i])
		} else if depth > 0 {
			other := d.policy(depth-1, named)
			refs, others = append(refs, inline(other.spec)), append(others, other)
		}
	}
	before, key := m.holds, d.roll(3)
	switch {
	case refs == nil || key == 0 && m.spec.Any != nil: // a further alternative would allow more
		return m
	case key == 0:
		m.spec.Any = refs
	case key == 1:
		m.spec.All = slices.Concat(m.spec.All, refs)
	default:
		m.spec.None = slices.Concat(m.spec.None, refs)
	}
	m.holds = func(id *policy.Identity, req *policy.Request) bool {
		met := 0
		for _, other := range others {
			if other.holds(id, req) {
				met++
			}
		}
		return before(id, req) && []bool{met > 0, met == len(others), met == 0}[key]
	}
	return m
}

func (d *dice) identity() *policy.Identity {
	values := []any{"x", 7.0, true, []any{"y", 7.0}, nil}
	return &policy.Identity{
		Username:  d.one("alice", "service", "bob"),
		Provider:  d.one("local", "basic", "idp"),
		Email:     d.one("", "a@example.org", "a@EXAMPLE.org", "a@example.org@example.net"),
		Roles:     d.some("user", "admin", "staff"),
		Scopes:    d.some("read", "write"),
		Mechanism: policy.Mechanism(d.one("session", "basic", "bearer", "oidc")),
		Claims:    map[string]any{"a": map[string]any{"b": values[d.roll(len(values))]}},
		Proof: policy.Proof{
			AMR: d.some("pwd", "mfa"), AuthTime: []time.Time{{}, now.Add(-24 * time.Hour), now, now.Add(-30 * time.Minute)}[d.roll(4)],
		},
	}
}

func (d *dice) request() *policy.Request {
	clients := []netip.Addr{
		netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("10.0.0.1"), {},
	}
	return &policy.Request{Method: d.one("GET", "POST", "HEAD"), Client: clients[d.roll(len(clients))], Now: now}
}

// A decision agrees with the definition of the policy, and an addition to a
// policy never allows more.
func FuzzDecide(f *testing.F) {
	addThrows(f, 500, 60, [32]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		id, req := d.identity(), d.request()
		var named []meaning
		all := specs{}
		for i := range 2 { // each may refer to those before it
			named = append(named, d.policy(2, named))
			all[strconv.Itoa(i)] = &named[i].spec
		}
		m, other := d.policy(3, named), d.policy(2, named)
		decide := func(refs ...policy.Ref) policy.Decision { return policyRoute(t, all, refs...).Decide(id, req) }

		before := decide(inline(m.spec))
		if got, want := before.Outcome == policy.Allow, m.holds(id, req); got != want {
			t.Fatalf("%+v: allowed: %t by %q, want %t", m.spec, got, before.Rule, want)
		}
		if !strings.HasPrefix(before.Reason, "route r: "+before.Rule+": ") {
			t.Errorf("the reason %q does not name the rule %q", before.Reason, before.Rule)
		}
		if before.Outcome != policy.Allow {
			wantStepUp(t, before, m, id, req)
		}
		wantConditions(t, policyRoute(t, all, inline(m.spec)), id, req)
		wantConditions(t, policyRoute(t, all, inline(m.spec), inline(other.spec)), id, req)
		if both := decide(inline(m.spec), inline(other.spec)); both.Outcome > before.Outcome {
			t.Errorf("a second policy turned %v into %v", before, both)
		}
		if after := decide(inline(d.with(m, 2, named).spec)); after.Outcome > before.Outcome {
			t.Errorf("a further key turned %v into %v", before, after)
		}
		reduced := id.Reduced(d.some("user", "admin", "staff"))
		derived := policyRoute(t, all, inline(m.spec)).Decide(reduced, req)
		if got, want := derived.Outcome == policy.Allow, m.holds(reduced, req) && m.holds(id, req); got != want {
			t.Errorf("%+v with %q of %q: allowed: %t by %q, want %t", m.spec, reduced.Roles, id.Roles, got, derived.Rule, want)
		}
		wantConditions(t, policyRoute(t, all, inline(m.spec), inline(other.spec)), reduced, req)
		if got := policyRoute(t, all, inline(m.spec)).Decide(nil, req); got.Outcome != policy.Challenge {
			t.Errorf("no identity: %v, want challenge", got)
		}
	})
}

// wantConditions fails the test unless the conditions explain the decision.
func wantConditions(t *testing.T, route *policy.Route, id *policy.Identity, req *policy.Request) {
	t.Helper()
	decision := route.Decide(id, req)
	var failed []string
	for _, c := range route.Conditions(id, req) {
		if c.Depth == 0 && !c.Holds {
			failed = append(failed, c.Rule)
		}
	}
	switch allowed := decision.Outcome == policy.Allow; {
	case allowed && failed != nil:
		t.Errorf("%q do not hold, but the decision is %+v", failed, decision)
	case !allowed && !slices.Contains(failed, decision.Rule):
		t.Errorf("%q do not hold, and the decision names another rule: %+v", failed, decision)
	}
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
			t.Errorf("of %q, %s %s%s has the route %+v, a ServeMux leads to %q",
				patterns, method, host, target.String(), got.Route, want)
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
