package gateway

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/explain"
	"authgate/internal/test/must"
	"authgate/policy"
)

// randomConfig returns a configuration with routes, policies and headers by chance.
// One route always accepts sessions, without which a login sets no cookie.
func randomConfig(rnd *rand.Rand) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	yaml := strings.Replace(baseConfig[:strings.Index(baseConfig, "routes:")],
		"https://gw.example", "https://gw.example.org", 1)
	yaml += fmt.Sprintf("  office: {networks: [198.51.100.0/24]}\n"+
		"  people: {any: [admin, {users: [bob]}], none: [{methods: [DELETE]}]}\n"+
		"  two: {factors: 2}\n  fresh: {max_age: 15m}\n"+
		"  vault: {any: [office, {roles: [admin], factors: 2}], max_age: 1ms}\n"+
		"session: {domain: example.org, csrf_token: %s}\nidentity_headers: %s\n%sroutes:\n",
		pick("false", "true"), pick("{}", `{user: Remote-User, provider: ""}`),
		pick("", "tracing: {endpoint: \"http://127.0.0.1:1\", sample: 0.0}\nlisten: {trusted_proxies: [198.51.100.9]}\n"))
	matches := map[string]string{
		"/": "", "/a/": "/a", "/a/b": "/a", "GET /a/b/": "/a/b", "/c/{name}": "/c",
		"/d/{rest...}": "/d", "POST /e": "", "wiki.example.org/": "", "wiki.example.org/a/": "/a",
		"opaque.example.org/": "",
	}
	for i, match := range slices.Sorted(maps.Keys(matches)) {
		if i > 0 && rnd.IntN(4) == 0 {
			continue
		}
		mechanisms := []string{"session", "bearer", "basic"}
		rnd.Shuffle(len(mechanisms), func(i, j int) { mechanisms[i], mechanisms[j] = mechanisms[j], mechanisms[i] })
		auth := strings.Join(mechanisms[:1+rnd.IntN(3)], ", ")
		rule := pick("", "policy: admin, ", "policy: office, ", "policy: [people, office], ", "policy: people, ",
			"policy: two, ", "policy: fresh, ", "policy: vault, ", "policy: {mechanisms: [bearer]}, ")
		if rnd.IntN(6) == 0 {
			auth, rule = "none", ""
		}
		extra := ""
		if rnd.IntN(5) > 0 {
			extra = "upstream: app, " + pick("", `headers: {set: {X-Set: "1", User-Agent: gateway}}, `,
				"headers: {remove: [X-Other]}, ", "forward_credentials: true, ")
			if strip := matches[match]; strip != "" && rnd.IntN(3) == 0 {
				extra += "strip_prefix: " + strip + ", "
			}
		}
		if strings.Contains(auth, "session") {
			extra += pick("", "unauthenticated: redirect, ")
		}
		extra += pick("", "", "cross_origin: allow, ", `cors: {origins: ["https://app.example"], credentials: true}, `,
			`cors: {origins: ["*"]}, `,
			"cors: {preflight: application}, ")
		slashes := pick("", "encoded_slashes: keep, ")
		if strings.HasPrefix(match, "opaque") {
			slashes = "encoded_slashes: opaque, "
		}
		yaml += fmt.Sprintf("  - {match: %q, name: r%d, %s%s%sauth: [%s]}\n", match, i, rule, extra, slashes, auth)
	}
	return yaml + "  - {match: /session/, auth: [session]}\n"
}

// callersTrace is the trace of a caller, which the gateway continues if the caller is
// trusted.
const callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// randomHeader returns header lines by chance: those on which decisions depend, and
// others, which reach the upstream or must not.
func randomHeader(rnd *rand.Rand) (lines []string) {
	for _, choices := range [][]string{
		{"Origin: https://gw.example.org", "Origin: https://wiki.example.org", "Origin: https://app.example",
			"Origin: http://gw.example.org", "Origin: null"},
		{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: none"},
		{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: cors"},
		{"Sec-Fetch-Dest: document", "Sec-Fetch-Dest: empty"},
		{"Accept: text/html", "Accept: application/json", "Accept: */*"},
		{"Access-Control-Request-Method: DELETE", "Access-Control-Request-Method: GET"},
		{"Upgrade: websocket", "Upgrade: h2c"},
		{"Destination: https://gw.example.org/a/b", "Destination: /a/x", "Destination: /c/x", "If: </a/b/c> (<a:b>)",
			"If: (<a:b>)"},
		{"X-Auth-User: mallory", "x_auth_user: mallory", "Remote-User: mallory", "X-Auth-Roles: admin"},
		{"X-Forwarded-For: 198.51.100.9", "Forwarded: for=198.51.100.9", "X-Forwarded-Prefix: /x"},
		{"X-Other: 1", "X-Set: 2", "User-Agent: curl", "X-Request-Id: mine"},
		{"Traceparent: 00-" + callersTrace + "-00f067aa0ba902b7-00", "Traceparent: nonsense", "Tracestate: a=1"},
	} {
		if rnd.IntN(4) == 0 {
			lines = append(lines, choices[rnd.IntN(len(choices))])
		}
	}
	return lines
}

// apiToken makes two API tokens with a session, one with all roles and one with
// some, and returns the header line of each.
func (r *rig) apiToken(cookie, roles string) (whole, reduced string) {
	r.t.Helper()
	var lines [2]string
	for i, more := range [2]string{"", `, "roles": ` + roles} {
		q := request("POST", "/account/tokens", `{"name": "x", "expires_in": 3600`+more+`}`,
			jsonType, cookie, "Sec-Fetch-Site: same-origin")
		w := r.serve(overTLS(q, "gw.example.org", "192.0.2.7"))
		var made struct{ Token string }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 {
			r.t.Fatalf("an API token: %d %s, %v", w.Code, w.Body, err)
		}
		lines[i] = "Authorization: Bearer " + made.Token
	}
	return lines[0], lines[1]
}

// overTLS makes a request that came over TLS, from a client.
func overTLS(q *http.Request, host, from string) *http.Request {
	q.Host, q.RemoteAddr, q.TLS = host, from+":4711", &tls.ConnectionState{}
	return q
}

// Explain and the gateway that runs agree on every request: on status, route,
// decision and reason, on the path, and on every header of the upstream.
func FuzzExplain(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { explainAsServed(t, seed) }) // on a slow machine, the time of a request runs out
	})
}

// explainAsServed compares the answers to random requests by a random configuration with their explanations.
func explainAsServed(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	yaml := randomConfig(rnd)
	cfg, err := config.Parse(t.TempDir()+"/config.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	r, e := newRig(t, yaml), newExplainer(t, cfg)
	callers := map[string]*explain.Caller{"": nil, basicHeader("service", "s3rvice"): {User: "service"}}
	for name, body := range map[string]string{"alice": aliceIn, "bob": bobIn} {
		in := readLogin(t, r.serve(overTLS(request("POST", "/login", body, jsonType), "gw.example.org", "192.0.2.7")))
		callers[in.cookie] = &explain.Caller{User: name, Mechanism: policy.Session, Factors: 1, Age: time.Second}
		callers[in.bearer] = &explain.Caller{User: name, Mechanism: policy.Bearer, Factors: 1, Age: time.Second}
		whole, reduced := r.apiToken(in.cookie, `["user"]`)
		callers[whole] = &explain.Caller{User: name, APIToken: true}
		callers[reduced] = &explain.Caller{User: name, APIToken: true, Roles: []string{"user"}}
	}
	r.clock.Advance(time.Second)
	credentials := slices.Collect(maps.Keys(callers))
	slices.SortFunc(credentials, func(a, b string) int {
		return strings.Compare(fmt.Sprint(callers[a]), fmt.Sprint(callers[b]))
	})
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	for range 60 {
		method := pick("GET", "GET", "HEAD", "POST", "DELETE", "get", "OPTIONS")
		host := pick("gw.example.org", "gw.example.org:443", "wiki.example.org", "WIKI.example.org.",
			"other.example.org", "a b", "opaque.example.org")
		target := pick("/", "/a/", "/a", "/a/b", "/a/b/c?x=%2F&y", "/c/n", "/c/n/m", "/d/x/y?", "/e", "/a%2Fb",
			"/d/x%2Fy", "/a/../b", "//a", "/%C3%A9", "/a#b", "/verify", "/c/%00", "//a%5Cb",
			"/a%252Fb//;c?d", "/a%2F..")
		from, credential := pick("192.0.2.7", "198.51.100.9", "127.0.0.1"), pick(credentials...)
		what := fmt.Sprintf("%s https://%s%s by %+v from %s", method, host, target, callers[credential], from)
		lines := randomHeader(rnd)
		what += fmt.Sprintf(" with %q", lines)
		q := overTLS(request(method, target, "", append(lines, credential)...), host, from)
		header := q.Header.Clone()
		header.Del("Authorization")
		header.Del("Cookie")
		described := &explain.Request{Method: method, URL: "https://" + host + target, Header: header,
			From: netip.MustParseAddr(from), Caller: callers[credential]}
		if q.Header.Get("Upgrade") != "" { // as HTTP completes it
			full := must.Get(described.HTTP(cfg))(t).Header
			for _, name := range []string{"Connection", "Sec-Websocket-Key", "Sec-Websocket-Version"} {
				q.Header[name] = full[name]
			}
		}
		x, err := e.Explain(described)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		wantExplained(t, r, what, q, x)
	}
	if t.Failed() {
		t.Log(yaml)
	}
}

// wantExplained sends a request and compares with its explanation.
func wantExplained(t *testing.T, r *rig, what string, q *http.Request, x *explain.Result) {
	t.Helper()
	before := r.upstream.Reached()
	r.log.Reset()
	w := r.serve(q)
	reached := r.upstream.Reached() > before
	answered := w.Code == http.StatusNoContent || w.Code == http.StatusPermanentRedirect // a preflight, a prefix
	if w.Code != x.Status || (reached || answered) != (x.Outcome == explain.OutcomeAllow) ||
		reached != (x.Header != nil) ||
		reached != (x.Path != "") || (x.Upstream == "app") != (x.Route != "") {
		t.Errorf("%s: %d, explained as %+v", what, w.Code, x)
	}
	want := map[int]string{200: explain.OutcomeAllow, 204: explain.OutcomeAllow, 308: explain.OutcomeAllow,
		302: explain.OutcomeChallenge,
		400: explain.OutcomeBadRequest, 401: explain.OutcomeChallenge, 403: explain.OutcomeForbid,
		404: explain.OutcomeNotFound, 421: explain.OutcomeNotFound}
	if x.Outcome != want[w.Code] {
		t.Errorf("%s: %d, explained as %s", what, w.Code, x.Outcome)
	}
	for name, values := range x.Header {
		if len(values) == 0 {
			t.Errorf("%s: %s is in the header, without a value", what, name)
		}
	}
	logged := r.log.Last(t, "request")
	reason, _ := logged["reason"].(string)
	decision := map[string]string{explain.OutcomeNotFound: "error", explain.OutcomeBadRequest: "error"}[x.Outcome]
	if decision == "" {
		decision = x.Outcome
	}
	if route := logged["route"]; logged["decision"] != decision ||
		route != x.Route && (x.Route != "" || route != "none" && route != "authgate/"+config.EndpointVerify) {
		t.Errorf("%s: logged as %+v, explained as %+v", what, logged, x)
	}
	if reason != "" && reason != x.Reason {
		t.Errorf("%s: the reason is %q, explained as %q", what, reason, x.Reason)
	}
	fails := func(c policy.Condition) bool { return c.Depth == 0 && !c.Holds }
	if holds := !slices.ContainsFunc(x.Conditions, fails); reached && !holds {
		t.Errorf("%s is allowed under %+v", what, x.Conditions)
	}
	if !reached {
		return
	}
	got := r.upstream.Last()
	if path := sentPath(got); path != x.Path {
		t.Errorf("%s: the upstream got the path %q, explained as %q", what, path, x.Path)
	}
	sent, explained := comparableHeader(got.Header), comparableHeader(x.Header)
	if !reflect.DeepEqual(sent, explained) {
		t.Errorf("%s: the upstream got\n%q, explained as\n%q", what, sent, explained)
	}
}

func sentPath(q *http.Request) string {
	path := q.URL.Opaque
	if q.URL.RawQuery != "" || q.URL.ForceQuery {
		path += "?" + q.URL.RawQuery
	}
	return path
}

// comparableHeader returns a header without the credential that a description leaves out,
// and without the value that each request has of its own.
func comparableHeader(h http.Header) http.Header {
	h = h.Clone()
	maps.DeleteFunc(h, func(name string, values []string) bool {
		return values == nil || name == "Authorization" || name == "Cookie"
	})
	if len(h["X-Request-Id"]) == 1 && h["X-Request-Id"][0] != "" {
		h["X-Request-Id"] = []string{"one"}
	}
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) == 4 {
		if parts[1] != callersTrace {
			parts[1] = "new"
		}
		if parts[2] != "00f067aa0ba902b7" {
			parts[2] = "ours"
		}
		h["Traceparent"] = []string{strings.Join(parts, "-")}
	}
	return h
}

func newExplainer(t testing.TB, cfg *config.Config) *Explainer {
	t.Helper()
	e, err := NewExplainer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
