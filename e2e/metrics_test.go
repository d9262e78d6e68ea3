package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads the metrics: series like name{a="b",c="d"} and their values,
// of histograms the number of observations.
func (g *instance) scrape(t testing.TB) map[string]float64 {
	t.Helper()
	response, err := http.Get(g.adm + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+strconv.Quote(l.GetValue()))
			}
			slices.Sort(labels)
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			all[name+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return all
}

// requests is the name of a series of authgate_requests_total.
func requests(route, mechanism, decision string, code int) string {
	return fmt.Sprintf(`authgate_requests_total{code="%d",decision=%q,mechanism=%q,route=%q}`, code, decision, mechanism, route)
}

// measured is a gateway with a route of every kind.
func measured(t *testing.T, more string) *instance {
	t.Helper()
	return start(t, people+more+`
upstreams: {app: {url: "`+record(t).url+`"}, gone: {url: "http://127.0.0.1:`+freePort(t)+`"}}
token: {reuse_leeway: 0s}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /basic, name: shared, upstream: app, auth: [basic]}
  - {match: /secure/, upstream: app, auth: [session, bearer]}
  - {match: /admin, upstream: app, auth: [session, bearer], policy: admin}
  - {match: /gone, upstream: gone, auth: [none]}
`)
}

// presenting turns a session cookie or an Authorization value into headers.
func presenting(credential string) []string {
	switch {
	case credential == "":
		return nil
	case strings.HasPrefix(credential, "session_id="):
		return []string{"Cookie", credential}
	}
	return []string{"Authorization", credential}
}

// TestMetrics: each metric of design B.12, by the labels that it is to have,
// after requests of every kind.
func TestMetrics(t *testing.T) {
	t.Parallel()
	g := measured(t, "limits: {login_failures: 3}\n")
	c := g.stranger()
	alice, bob := g.signIn(c, "alice"), g.signIn(c, "bob")
	for _, r := range []struct {
		method, path, credential string
		status                   int
		route, mechanism         string
		decision                 string
	}{
		{"GET", "/basic", basicService, 200, "shared", "basic", "allow"},
		{"GET", "/basic", basicOf("service:wrong"), 401, "shared", "none", "challenge"},
		{"HEAD", "/basic", "", 401, "shared", "none", "challenge"},
		{"GET", "/secure/x", alice.session, 200, "/secure/", "session", "allow"},
		{"POST", "/secure/y", alice.access, 200, "/secure/", "bearer", "allow"},
		{"GET", "/secure/z", "Bearer x", 401, "/secure/", "none", "challenge"},
		{"GET", "/secure", "", 401, "/secure/", "none", "challenge"},
		{"GET", "/admin", bob.session, 403, "/admin", "session", "forbid"},
		{"GET", "/admin", bob.access, 403, "/admin", "bearer", "forbid"},
		{"GET", "/gone", "", 502, "/gone", "none", "error"},
		{"GET", "/nowhere", "", 404, "none", "none", "error"},
		{"GET", "/a//b", "", 400, "none", "none", "error"},
		{"GET", "/me", alice.session, 200, "authgate/me", "session", "allow"},
		{"DELETE", "/login", "", 405, "authgate/login", "none", "error"},
		{"POST", "/login", basicOf("alice:wonderland"), 200, "authgate/login", "session", "allow"},
		{"POST", "/login", basicOf("bob:wrong"), 401, "authgate/login", "none", "challenge"},
		{"POST", "/logout", bob.session, 200, "authgate/logout", "none", "allow"},
		{"POST", "/logout", bob.access, 401, "authgate/logout", "none", "challenge"},
	} {
		before := g.scrape(t)
		if got := g.status(c, r.method, r.path, presenting(r.credential)...); got != r.status {
			t.Errorf("%s %s: %d, expected %d", r.method, r.path, got, r.status)
		}
		// The request is counted when its answer is complete: perhaps a moment later.
		series := requests(r.route, r.mechanism, r.decision, r.status)
		until(t, series, func() bool { return g.scrape(t)[series] == before[series]+1 })
	}
	next, _, err := g.tryRefresh(c, alice.refresh)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name, token string
		status      int
	}{
		{"the new token", next.refresh, 200}, {"a used token", alice.refresh, 401}, {"a token of an ended login", next.refresh, 401},
	} {
		if _, got, err := g.tryRefresh(c, r.token); err != nil || got != r.status {
			t.Errorf("refresh with %s: %d, %v", r.name, got, err)
		}
	}
	again := g.signIn(c, "alice")
	wantStatus(t, "logout", g.do(c, "POST", "/logout", "", "Authorization", again.access), 200)
	g.signIn(c, "bob")
	wantStatus(t, "the third failure of this address", g.do(c, "POST", "/login", "", "Authorization", basicOf("carol:x")), 401)
	wantStatus(t, "one login more of an unknown client", g.do(c, "POST", "/login", "", "Authorization", basicOf("carol:x")), 429)
	wantStatus(t, "and by Basic", g.do(c, "GET", "/basic", "", "Authorization", basicOf("printer:x")), 429)
	g.plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: localhost\n\n")
	g.signal(syscall.SIGHUP)
	until(t, "a reload", func() bool { return g.scrape(t)[`authgate_config_reloads_total{result="success"}`] == 1 })
	g.write("config.yaml", "nonsense\n")
	g.signal(syscall.SIGHUP)
	until(t, "a reload that fails", func() bool { return g.scrape(t)[`authgate_config_reloads_total{result="failure"}`] == 1 })

	got := g.scrape(t)
	for series, want := range map[string]float64{
		requests("authgate/plain", "none", "allow", 308):                1,
		requests("authgate/login", "none", "error", 429):                1,
		requests("authgate/refresh", "none", "challenge", 401):          2,
		requests("authgate/refresh", "bearer", "allow", 200):            2,
		requests("authgate/logout", "bearer", "allow", 200):             1,
		`authgate_logins_total{mechanism="session",result="success"}`:   5,
		`authgate_logins_total{mechanism="session",result="failure"}`:   2,
		`authgate_logins_total{mechanism="session",result="throttled"}`: 1,
		`authgate_logins_total{mechanism="basic",result="failure"}`:     1,
		`authgate_logins_total{mechanism="basic",result="throttled"}`:   1,
		`authgate_tokens_total{event="issued"}`:                         4,
		`authgate_tokens_total{event="refreshed"}`:                      2,
		`authgate_tokens_total{event="reused"}`:                         1,
		`authgate_tokens_total{event="revoked"}`:                        2, // by a session of the same login, and by token
		`authgate_sessions_active{}`:                                    2, // alice by Basic, bob the second time
		`authgate_request_duration_seconds{route="shared"}`:             4,
		`authgate_upstream_duration_seconds{upstream="app"}`:            3,
		`authgate_upstream_duration_seconds{upstream="gone"}`:           1,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, expected %v", series, got[series], want)
		}
	}
	for _, series := range []string{
		`authgate_store_duration_seconds{operation="get"}`, `authgate_store_duration_seconds{operation="put"}`,
		`authgate_store_duration_seconds{operation="swap"}`, `authgate_store_duration_seconds{operation="take"}`,
		`authgate_store_duration_seconds{operation="delete"}`,
		"go_goroutines{}", "process_resident_memory_bytes{}", "process_open_fds{}",
	} {
		if got[series] <= 0 {
			t.Errorf("%s is %v", series, got[series])
		}
	}
	build := regexp.MustCompile(`^authgate_build_info\{goversion="go1\.[^"]+",version="[^"]+"\}$`)
	if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), build.MatchString) {
		t.Error("there is no authgate_build_info")
	}
}

// ownSeries are the names of the gateway's own series.
func (g *instance) ownSeries(t testing.TB) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(g.scrape(t))), func(s string) bool { return !strings.HasPrefix(s, "authgate_") })
}

// TestMetricsAreBounded: whatever clients choose, there are no more series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	g := measured(t, "limits: {login_failures: 100000}\n")
	c := g.stranger11()
	word := func() string { return fmt.Sprintf("w%d", rand.Uint64()) }
	vary := func() {
		g.do(c, word(), "/"+word()+"?"+word(), "")
		g.do(c, word(), "/basic", "", "Authorization", basicOf(word()+":"+word()), word(), word())
		g.do(c, "GET", "/secure/"+word(), "", "Authorization", "Bearer "+word(), "X-Request-Id", word())
		g.do(c, "GET", "/secure/"+word(), "", "Authorization", word()+" "+word(), "Cookie", word()+"="+word())
		g.do(c, "GET", "/secure/"+word(), "", "Cookie", "session_id="+word(), "User-Agent", word())
		g.do(c, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":%q}`, word(), word()), "Content-Type", typeJSON)
		g.do(c, "POST", "/login?mechanism="+word(), right, "Content-Type", typeJSON)
		g.do(c, "POST", "/login", word(), "Content-Type", word()+"/"+word())
		g.do(c, "POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, word()), "Content-Type", typeJSON)
		g.do(c, word(), "/logout", "")
		g.raw(t, "GET /secure/ HTTP/1.1\nHost: "+word()+".example.org\nX-Auth-User: "+word()+"\nX-Forwarded-For: "+word()+"\n\n")
		g.plain(t, "127.0.0.1", word()+" /"+word()+" HTTP/1.1\nHost: "+word()+"\n\n")
	}
	vary()
	// A request is counted when its answer is complete, perhaps a moment later.
	until(t, "the first requests to be counted", func() bool { return len(g.entriesOf("request")) == 12 })
	before := g.ownSeries(t)
	const rounds = 10
	for range rounds {
		vary()
	}
	until(t, "all requests to be counted", func() bool { return len(g.entriesOf("request")) == 12*(1+rounds) })
	if after := g.ownSeries(t); !slices.Equal(after, before) {
		t.Errorf("there were %d series, and now there are %d:\n%s", len(before), len(after), strings.Join(after, "\n"))
	}
}

// TestAdminIsPrivate: operators' endpoints are on their listener alone.
func TestAdminIsPrivate(t *testing.T) {
	t.Parallel()
	g := measured(t, "")
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got := g.status(g.stranger(), "GET", path); got != http.StatusNotFound {
			t.Errorf("%s on the public listener: %d", path, got)
		}
		response, err := http.Get(g.adm + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s on the admin listener: %d", path, response.StatusCode)
		}
	}
	for _, path := range []string{"/basic", "/login", "/me", "/", "/debug/pprof/"} {
		response, err := http.Get(g.adm + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s on the admin listener: %d", path, response.StatusCode)
		}
	}
}
