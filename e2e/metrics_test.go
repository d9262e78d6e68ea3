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

// scrape reads the metrics: series like name{a="b",c="d"} and their values. The
// value of a histogram is the number of observations.
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

// requests returns the name of a series of authgate_requests_total.
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

// observation is what log and metrics must have of a request.
type observation struct {
	route, mechanism, decision string
	status                     int
	subject, audit             string
}

// observed sends requests to a gateway and collects what to expect of them.
type observed struct {
	*instance
	c     *http.Client
	wants map[string]observation // by X-Request-Id
}

func (o *observed) ask(method, path, body string, want observation, headers ...string) answer {
	o.t.Helper()
	id := fmt.Sprintf("request-%d", len(o.wants))
	o.wants[id] = want
	a := o.do(o.c, method, path, body, append(headers, "X-Request-Id", id)...)
	if a.status != want.status {
		o.t.Errorf("%s %s %s: %d, expected %d", id, method, path, a.status, want.status)
	}
	return a
}

func (o *observed) login(user string) signIn {
	o.t.Helper()
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, user, passwords[user])
	a := o.ask("POST", "/login", body, observation{"authgate/login", "session", "allow", 200, "", "login subject=local:" + user}, "Content-Type", typeJSON)
	s, err := tokens(a)
	if err != nil {
		o.t.Fatal(err)
	}
	s.session = cookieOf(a)
	return s
}

func (o *observed) refresh(token string, want observation) (next string) {
	o.t.Helper()
	a := o.ask("POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, token), want, "Content-Type", typeJSON)
	s, err := tokens(a)
	if err != nil {
		o.t.Fatal(err)
	}
	return s.refresh
}

// TestLogAndMetrics: each request has one line in the access log, its events in
// the audit log, and counts in one series. The metrics of design B.12 count what
// came of them.
func TestLogAndMetrics(t *testing.T) {
	t.Parallel()
	o := &observed{instance: measured(t, "limits: {login_failures: 4}\n"), wants: map[string]observation{}}
	o.c = o.stranger()
	alice, bob := o.login("alice"), o.login("bob")
	for _, r := range []struct {
		method, path, credential string
		want                     observation
	}{
		{"GET", "/basic", basicService, observation{"shared", "basic", "allow", 200, "basic:service", ""}},
		{"GET", "/basic", basicOf("service:x"), observation{"shared", "none", "challenge", 401, "", "denied"}},
		{"HEAD", "/basic", "", observation{"shared", "none", "challenge", 401, "", ""}},
		{"GET", "/secure/x", alice.session, observation{"/secure/", "session", "allow", 200, "local:alice", ""}},
		{"POST", "/secure/y", alice.access, observation{"/secure/", "bearer", "allow", 200, "local:alice", ""}},
		{"GET", "/secure/z", "Bearer x", observation{"/secure/", "none", "challenge", 401, "", "denied"}},
		{"GET", "/secure", "", observation{"/secure/", "none", "challenge", 401, "", ""}},
		{"GET", "/admin", bob.session, observation{"/admin", "session", "forbid", 403, "local:bob", "denied subject=local:bob"}},
		{"GET", "/admin", bob.access, observation{"/admin", "bearer", "forbid", 403, "local:bob", "denied subject=local:bob"}},
		{"GET", "/gone", "", observation{"/gone", "none", "error", 502, "", ""}},
		{"GET", "/nowhere", "", observation{"none", "none", "error", 404, "", ""}},
		{"GET", "/a//b", "", observation{"none", "none", "error", 400, "", ""}},
		{"GET", "/me", alice.session, observation{"authgate/me", "session", "allow", 200, "local:alice", ""}},
		{"DELETE", "/login", "", observation{"authgate/login", "none", "error", 405, "", ""}},
		{"POST", "/login", basicOf("alice:wonderland"), observation{"authgate/login", "session", "allow", 200, "", "login subject=local:alice"}},
	} {
		o.ask(r.method, r.path, "", r.want, presenting(r.credential)...)
	}
	o.ask("POST", "/admin", "", observation{"/admin", "session", "forbid", 403, "local:alice", "denied subject=local:alice"}, "Cookie", alice.session, "Origin", "https://evil.example")
	failed := observation{"authgate/login", "none", "challenge", 401, "", "login result=failure"}
	wrong := func(want observation, user string) {
		o.ask("POST", "/login", `{"username":"`+user+`","password":"x"}`, want, "Content-Type", typeJSON)
	}
	wrong(observation{"authgate/login", "none", "challenge", 401, "", "login result=failure subject=local:alice"}, "alice")
	wrong(failed, "carol")
	rejected := observation{"authgate/refresh", "none", "challenge", 401, "", "refresh result=failure"}
	next := o.refresh(alice.refresh, observation{"authgate/refresh", "bearer", "allow", 200, "", "refresh subject=local:alice"})
	o.refresh("x", rejected)
	o.refresh(alice.refresh, observation{"authgate/refresh", "none", "challenge", 401, "", "reuse_detected subject=local:alice"})
	o.refresh(next, rejected)
	o.ask("POST", "/logout", "", observation{"authgate/logout", "none", "allow", 200, "", "logout subject=local:bob"}, "Cookie", bob.session)
	o.ask("POST", "/logout", "", observation{"authgate/logout", "none", "allow", 200, "", ""}, "Cookie", bob.session)
	again := o.login("bob")
	o.ask("POST", "/logout", "", observation{"authgate/logout", "bearer", "allow", 200, "local:bob", "logout subject=local:bob"}, "Authorization", again.access)
	wrong(failed, "carol")
	wrong(observation{"authgate/login", "none", "error", 429, "", "login result=throttled"}, "carol")
	o.ask("GET", "/basic", "", observation{"shared", "none", "error", 429, "", ""}, "Authorization", basicOf("printer:x"))
	o.wants["plain"] = observation{"authgate/plain", "none", "allow", 308, "", ""}
	o.plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: localhost\nX-Request-Id: plain\n\n")

	until(t, "the last line of the log", func() bool { return len(o.entriesOf("request")) >= len(o.wants) })
	o.wantLog(t)
	o.signal(syscall.SIGHUP)
	until(t, "a reload", func() bool { return o.scrape(t)[`authgate_config_reloads_total{result="success"}`] == 1 })
	o.write("config.yaml", "nonsense\n")
	o.signal(syscall.SIGHUP)
	until(t, "a reload that fails", func() bool { return o.scrape(t)[`authgate_config_reloads_total{result="failure"}`] == 1 })
	o.wantMetrics(t)
	o.wantPrivateAdmin(t)
}

// wantLog compares the access log and the audit log with what is expected.
func (o *observed) wantLog(t *testing.T) {
	t.Helper()
	lines, audits := map[string][]map[string]any{}, map[string]string{}
	for _, entry := range o.entries() {
		id := fmt.Sprint(entry["request_id"])
		switch entry["msg"] {
		case "request":
			lines[id] = append(lines[id], entry)
		case "audit":
			audits[id] += fmt.Sprint(entry["event"])
			for _, key := range []string{"result", "subject"} {
				if entry[key] != nil {
					audits[id] += fmt.Sprintf(" %s=%v", key, entry[key])
				}
			}
		}
	}
	if len(lines) != len(o.wants) {
		t.Errorf("%d requests in the log, expected %d", len(lines), len(o.wants))
	}
	for id, want := range o.wants {
		if len(lines[id]) != 1 {
			t.Errorf("%s %+v has %d lines, expected one", id, want, len(lines[id]))
			continue
		}
		line := lines[id][0]
		subject, _ := line["subject"].(string)
		status, _ := line["status"].(float64)
		got := observation{fmt.Sprint(line["route"]), fmt.Sprint(line["mechanism"]), fmt.Sprint(line["decision"]), int(status), subject, audits[id]}
		if got != want {
			t.Errorf("%s: the log has %+v, expected %+v", id, got, want)
		}
		for _, key := range []string{"time", "level", "method", "path", "client", "duration_us", "bytes", "protocol"} {
			if _, ok := line[key]; !ok {
				t.Errorf("%s: the line has no %s", id, key)
			}
		}
	}
}

// wantMetrics compares the metrics with what is expected.
func (o *observed) wantMetrics(t *testing.T) {
	t.Helper()
	want := map[string]float64{
		`authgate_logins_total{mechanism="session",result="success"}`:   4,
		`authgate_logins_total{mechanism="session",result="failure"}`:   3,
		`authgate_logins_total{mechanism="session",result="throttled"}`: 1,
		`authgate_logins_total{mechanism="basic",result="failure"}`:     1,
		`authgate_logins_total{mechanism="basic",result="throttled"}`:   1,
		`authgate_tokens_total{event="issued"}`:                         3,
		`authgate_tokens_total{event="refreshed"}`:                      1,
		`authgate_tokens_total{event="reused"}`:                         1,
		`authgate_tokens_total{event="revoked"}`:                        2, // by a session of the login, and by token
		`authgate_sessions_active{}`:                                    1, // of alice, by Basic
		`authgate_request_duration_seconds{route="shared"}`:             4,
		`authgate_upstream_duration_seconds{upstream="app"}`:            3,
		`authgate_upstream_duration_seconds{upstream="gone"}`:           1,
	}
	for _, w := range o.wants {
		want[requests(w.route, w.mechanism, w.decision, w.status)]++
	}
	got := o.scrape(t)
	for series, value := range want {
		if got[series] != value {
			t.Errorf("%s is %v, expected %v", series, got[series], value)
		}
	}
	positive := []string{"go_goroutines{}", "process_resident_memory_bytes{}", "process_open_fds{}"}
	for _, operation := range []string{"get", "put", "swap", "take", "delete"} {
		positive = append(positive, fmt.Sprintf("authgate_store_duration_seconds{operation=%q}", operation))
	}
	for _, series := range positive {
		if got[series] <= 0 {
			t.Errorf("%s is %v", series, got[series])
		}
	}
	build := regexp.MustCompile(`^authgate_build_info\{goversion="go1\.[^"]+",version="[^"]+"\}$`)
	if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), build.MatchString) {
		t.Error("there is no authgate_build_info")
	}
}

// wantPrivateAdmin: the endpoints for operators are on their own listener, and
// nothing else is.
func (o *observed) wantPrivateAdmin(t *testing.T) {
	t.Helper()
	for path, want := range map[string]int{
		"/metrics": 200, "/healthz": 200, "/readyz": 200, "/basic": 404, "/login": 404, "/me": 404, "/": 404, "/debug/pprof/": 404,
	} {
		response, err := http.Get(o.adm + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s on the admin listener: %d, expected %d", path, response.StatusCode, want)
		}
		if got := o.status(o.stranger(), "GET", path); want == 200 && got != http.StatusNotFound {
			t.Errorf("%s on the public listener: %d", path, got)
		}
	}
}

// ownSeries returns the names of the gateway's own series.
func (g *instance) ownSeries(t testing.TB) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(g.scrape(t))), func(s string) bool { return !strings.HasPrefix(s, "authgate_") })
}

// TestMetricsAreBounded: no value that a client chooses adds a series.
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
	// A request counts when its answer is complete, which may be a moment later.
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
