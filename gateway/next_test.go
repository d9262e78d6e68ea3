package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/wire/conn"
	"authgate/internal/test/must"
	"authgate/policy"
)

// nextConfig has a policy that is to become stricter, one for requests without credentials, and a route for a proxy.
const nextPolicies = `
policies:
  some: {roles: [user], next: {roles: [admin]}}
  both: {all: [some], next: {roles: [user], factors: 2}}
  reads: {any: [{methods: [GET]}, {roles: [user]}], next: {roles: [user]}}
`

func nextConfig(t testing.TB) string {
	t.Helper()
	yaml := edit(t, baseConfig, "\npolicies:\n", nextPolicies)
	return edit(t, yaml, "\nroutes:\n", `
routes:
  - {name: next, match: /next/, upstream: app, auth: [session, bearer], policy: some}
  - {name: both, match: /both/, upstream: app, auth: [session], policy: both}
  - {name: reads, match: /reads/, upstream: app, auth: [session, none], policy: reads}
`)
}

// nextEvents returns the events next_differs of the log.
func (r *rig) nextEvents() (events []map[string]any) {
	for _, line := range r.log.Records(r.t, "audit") {
		if line["event"] == "next_differs" {
			events = append(events, line)
		}
	}
	return events
}

// A next changes no answer. It is counted where the outcome differs, for requests without credentials
// too, and told once an hour for each user and route.
func TestNextDiffers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nextConfig(t))
	alice, bob := r.login(aliceIn), r.login(bobIn)
	differs := func(route, now, next string) float64 {
		return r.sample("authgate_policy_next_total", "route="+route, "now="+now, "next="+next)
	}
	for range 3 {
		r.want(200, "GET", "/next/x", "", bob.cookie)
		r.want(200, "GET", "/next/x", "", alice.cookie)
		r.want(200, "GET", "/both/x", "", bob.cookie)
		r.want(200, "GET", "/reads/x", "")
		r.want(401, "GET", "/next/x", "")
	}
	for _, c := range []struct {
		route, now, next string
		want             float64
	}{
		{"next", "allow", "forbid", 3}, {"next", "sign-in", "allow", 0}, {"next", "allow", "step-up", 0},
		{"both", "allow", "step-up", 3}, {"reads", "allow", "sign-in", 3},
	} {
		if got := differs(c.route, c.now, c.next); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
	var got []string
	for _, e := range r.nextEvents() {
		got = append(got, fmt.Sprint(e["route"], " ", e["policy"], " ", e["now"], " ", e["next"], " ", e["subject"], " ", e["rule"]))
	}
	want := "next some allow forbid local:bob policy some: next.roles\n" +
		"both both,some allow step-up local:bob policy both: next.factors\n" +
		"reads reads allow sign-in  policy reads: next.roles"
	if strings.Join(got, "\n") != want {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if e := r.nextEvents()[0]; e["reason"] != "route next: policy some: next.roles: needs one of admin" {
		t.Errorf("the reason is %v", e["reason"])
	}
	r.clock.Advance(59 * time.Minute)
	bob = r.login(bobIn)
	r.want(200, "GET", "/next/x", "", bob.cookie)
	if n := len(r.nextEvents()); n != 3 {
		t.Errorf("after 59 minutes: %d events", n)
	}
	r.clock.Advance(time.Minute)
	r.want(200, "GET", "/next/x", "", bob.cookie)
	if n := len(r.nextEvents()); n != 4 {
		t.Errorf("after an hour: %d events", n)
	}
}

// The question of a proxy counts as the request would, and a resource that a request names counts for its
// own route.
func TestNextOfVerifyAndNamedResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, nextConfig(t)+"listen: {trusted_proxies: [10.0.0.0/8]}\n")
	bob := r.login(bobIn)
	forbidden := func() float64 {
		return r.sample("authgate_policy_next_total", "route=next", "now=allow", "next=forbid")
	}
	r.asks(200, asTraefik("GET", "gw.example", "/next/x"), bob.cookie)
	r.asks(401, asTraefik("GET", "gw.example", "/next/x"))
	if got := forbidden(); got != 1 {
		t.Errorf("after a question of a proxy: %v", got)
	}
	r.want(200, "MOVE", "/session/x", "", bob.cookie, "Destination: https://gw.example/next/y")
	if got := forbidden(); got != 2 {
		t.Errorf("after a Destination: %v", got)
	}
}

// The recheck of a stream, explain and the start page go by the present policy alone.
func TestNextIsForRequestsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nextConfig(t))
	bob := r.login(bobIn)
	ex := r.begin(&nowhere{header: http.Header{}}, request("GET", "/next/x", "", bob.cookie))
	if err := ex.read(); err != nil {
		t.Fatal(err)
	}
	ex.route = r.state.Load().routing.lookup(&ex.Canonical)
	id, err := ex.identify()
	if err != nil {
		t.Fatal(err)
	}
	ex.Identity = id
	for range 3 {
		if err := ex.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.want(200, "GET", "/", "", bob.cookie, browser)
	if got := r.sample("authgate_policy_next_total"); got != 0 {
		t.Errorf("%v differences without a request", got)
	}
}

// The policies of OAuth clients and of those who look after accounts decide as they are, and are not
// compared with their next.
func TestNextIsForRoutes(t *testing.T) {
	t.Parallel()
	yaml := edit(t, tokensConfig, "  admin: {roles: [admin]}", "  admin: {roles: [admin]}\n"+
		"  some: {roles: [user], next: {roles: [owner]}}")
	i, j := strings.Index(yaml, "accounts:\n"), strings.Index(yaml, "upstreams:")
	yaml = yaml[:i] + "accounts: {file: accounts.yaml, admins: some}\n" + yaml[j:]
	yaml = edit(t, yaml, "{id: wiki, ", "{id: wiki, policy: some, ")
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "accounts.yaml"), []byte(fileAccounts), 0o600))
	memory := store.NewMemory(time.Now)
	t.Cleanup(func() { memory.Close() })
	r, err := startRig(t, dir, yaml, memory, time.Now)
	must.Do(t, err)
	in := r.login(aliceIn)
	token := r.client.Lend(in.cookie, "all", "https://gw.example/any").Access
	r.want(200, "GET", "/any/x", "", "Authorization: Bearer "+token)
	r.want(200, "GET", "/account/people", "", in.cookie, "Accept: application/json")
	if got := r.sample("authgate_policy_next_total"); got != 0 {
		t.Errorf("%v differences at policies of no route", got)
	}
}

// A full memory of events forgets what was told longest ago, and never grows.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	d, now := newDifferences(), time.Now()
	for i := range 2 * rememberedSubjects {
		if !d.isDue(fmt.Sprint(i), "r", now) {
			t.Fatal("no event for another subject")
		}
	}
	if d.last.Len() != rememberedSubjects || d.isDue(fmt.Sprint(2*rememberedSubjects-1), "r", now) {
		t.Errorf("%d are remembered", d.last.Len())
	}
}

// BenchmarkNextCompare is the part of a warm request that a next adds, if it decides otherwise.
func BenchmarkNextCompare(b *testing.B) {
	r, _ := benchRig(b)
	some := "\npolicies:\n  some: {roles: [user], next: {roles: [user], factors: 2}}\n"
	yaml := edit(b, baseConfig, "\npolicies:\n", some)
	yaml = edit(b, yaml, "\nroutes:\n", "\nroutes:\n  - {match: /next/, upstream: app, auth: [session], policy: some}\n")
	if err := r.reload(yaml); err != nil {
		b.Fatal(err)
	}
	ex := r.begin(&nowhere{header: http.Header{}}, request("GET", "/next/x", "", r.login(bobIn).cookie))
	if err := ex.read(); err != nil {
		b.Fatal(err)
	}
	ex.route = r.state.Load().routing.lookup(&ex.Canonical)
	id, err := ex.identify()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ex.route.next.compare(ex, id, &ex.Canonical, policy.Allow)
	}
}

// BenchmarkNext is a warm request whose route has no next, one that decides alike, and ones that decide otherwise.
func BenchmarkNext(b *testing.B) {
	r, _ := benchRig(b)
	bob := r.login(bobIn)
	for _, c := range []struct{ name, next string }{
		{"absent", ""}, {"alike", ", next: {roles: [user, other]}"}, {"forbid", ", next: {roles: [admin]}"},
		{"step-up", ", next: {roles: [user], factors: 2}"},
	} {
		yaml := edit(b, baseConfig, "\npolicies:\n", "\npolicies:\n  some: {roles: [user]"+c.next+"}\n")
		yaml = edit(b, yaml, "\nroutes:\n", "\nroutes:\n  - {match: /next/, upstream: app, auth: [session], policy: some}\n")
		if err := r.reload(yaml); err != nil {
			b.Fatal(err)
		}
		r.through(echoless{})
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			w := &nowhere{header: http.Header{}}
			q := request("GET", "/next/resource", "", append(requestHeaders, bob.cookie)...)
			q = q.WithContext(conn.Context(q.Context(), nil))
			for b.Loop() {
				clear(w.header)
				if r.ServeHTTP(w, q); w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
		})
	}
}
