package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
)

// corsConfig is baseConfig with routes that share their responses.
const corsConfig = baseConfig + `
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], rate: {requests: 20, per: 1h}, ` +
	`cors: {origins: ["https://spa.example"], methods: [PUT], credentials: true}}
  - {match: "PUT /write/", name: write, upstream: app, auth: [session], cors: {origins: ["https://spa.example"]}}
  - {match: /write/, name: read, upstream: app, auth: [none]}
  - {match: /world/, name: world, upstream: app, auth: [none], cors: {origins: ["*"]}}
  - {match: /admins/, name: admins, upstream: app, auth: [bearer], policy: admin, ` +
	`cors: {origins: ["https://spa.example"], credentials: true}}
`

const spa = "Origin: https://spa.example"

// The gateway answers preflights of routes with cors by itself, without
// credentials, by the route of the request that is to follow.
func TestPreflight(t *testing.T) {
	t.Parallel()
	r := newRig(t, corsConfig)
	for range 30 { // they do not count for the rate
		w := r.do("OPTIONS", "/shared/x", "", spa, "Access-Control-Request-Method: PUT")
		if h := w.Header(); w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://spa.example" ||
			h.Get("Access-Control-Allow-Methods") != "PUT" || h.Get("Access-Control-Allow-Credentials") != "true" ||
			h.Get("Access-Control-Max-Age") != "600" || w.Body.Len() > 0 {
			t.Fatalf("%d %v", w.Code, h)
		}
	}
	refused := r.want(403, "OPTIONS", "/shared/x", "",
		"Origin: https://evil.example", "Access-Control-Request-Method: PUT")
	if refused.Header().Get("Access-Control-Allow-Origin") != "" ||
		!strings.Contains(refused.Header().Get("Vary")+refused.Header().Values("Vary")[1], "Origin") {
		t.Errorf("another origin: %v", refused.Header())
	}
	if w := r.do("OPTIONS", "/write/", "", spa, "Access-Control-Request-Method: PUT"); w.Code != 204 {
		t.Errorf("for a route of PUT: %d", w.Code)
	}
	if got := r.upstream.Reached(); got != 0 {
		t.Errorf("%d preflights reached the upstream", got)
	}
	r.want(200, "OPTIONS", "/write/", "", spa, "Access-Control-Request-Method: POST") // the application's own business
	r.want(200, "OPTIONS", "/public/", "", spa, "Access-Control-Request-Method: POST")
	r.want(401, "OPTIONS", "/shared/", "", spa)
	r.want(405, "OPTIONS", "/login", "", spa, "Access-Control-Request-Method: POST")
	if got := r.sample("authgate_requests_total", "route=shared", "code=204", "decision=allow"); got != 30 {
		t.Errorf("%v preflights are counted, want 30", got)
	}
}

// All answers on a route with cors carry its fields and no others: those of the
// upstream, and the gateway's own.
func TestSharedAnswers(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, corsConfig, func(w http.ResponseWriter, q *http.Request) {
		w.Header()["Access-Control-Allow-Origin"] = []string{q.Header.Get("Origin"), "*"}
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Access-Control-Expose-Headers", "*")
		w.Header().Set("Vary", "Accept-Encoding")
	})
	alice, bob := r.login(aliceIn), r.login(bobIn)
	long := strings.Repeat("x", 100_000) // not by the fast path
	for _, c := range []struct {
		status       int
		method, path string
		headers      []string
		origin       []string // allowed
	}{
		{200, "GET", "/shared/", []string{spa, alice.cookie}, []string{"https://spa.example"}},
		{200, "POST", "/shared/", []string{spa, alice.bearer}, []string{"https://spa.example"}},
		{200, "GET", "/shared/", []string{"Origin: https://evil.example", alice.cookie}, nil},
		{200, "GET", "/shared/", []string{alice.cookie}, nil},
		{401, "GET", "/shared/", []string{spa}, []string{"https://spa.example"}},
		{401, "GET", "/shared/", []string{spa, "Authorization: Bearer x", browser}, []string{"https://spa.example"}},
		{302, "GET", "/shared/", []string{spa, browser}, []string{"https://spa.example"}},
		{403, "POST", "/shared/", []string{"Origin: https://evil.example", alice.cookie}, nil},
		{403, "GET", "/admins/", []string{spa, bob.bearer}, []string{"https://spa.example"}},
		{200, "GET", "/world/", []string{"Origin: https://evil.example"}, []string{"*"}},
	} {
		body := ""
		if c.method == "POST" {
			body = long
		}
		w := r.do(c.method, c.path, body, c.headers...)
		h := w.Header()
		credentials := ""
		if c.origin != nil && c.origin[0] != "*" {
			credentials = "true"
		}
		exposed := ""
		switch {
		case c.status == 401: // scripts tell it from the application's own
			exposed = "WWW-Authenticate, Authgate-Sign-In"
		case c.status == 403 && c.origin != nil:
			exposed = "WWW-Authenticate"
		}
		if w.Code != c.status || !slices.Equal(h["Access-Control-Allow-Origin"], c.origin) ||
			h.Get("Access-Control-Allow-Credentials") != credentials ||
			h.Get("Access-Control-Expose-Headers") != exposed {
			t.Errorf("%s %s with %.200q: %d %v", c.method, c.path, c.headers, w.Code, h)
		}
		if vary := strings.Join(h["Vary"], ","); strings.Contains(vary, "Origin") != (c.path != "/world/") ||
			w.Code == 200 && !strings.Contains(vary, "Accept-Encoding") {
			t.Errorf("%s %s: Vary %q", c.method, c.path, vary)
		}
	}
	if w := r.do("GET", "/public/", "", spa); len(w.Header()["Access-Control-Allow-Origin"]) != 2 {
		t.Errorf("without cors, the application's fields are changed: %v", w.Header())
	}
}

// An origin with credentials may change state with the user's cookie, and no other
// may.
func TestSharedStateChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, corsConfig)
	alice := r.login(aliceIn)
	site := []string{alice.cookie, "Sec-Fetch-Site: cross-site"}
	r.want(200, "PUT", "/shared/", "", append(site, spa)...)
	r.want(200, "GET", "/shared/", "", append(append(site, spa), ownrig.WebSocket...)...)
	r.want(403, "PUT", "/shared/", "", append(site, "Origin: https://evil.example")...)
	r.want(403, "PUT", "/shared/", "", append(site, "Origin: null")...)
	r.want(403, "PUT", "/shared/", "", site...)
	r.want(403, "PUT", "/write/", "", append(site, spa)...) // cors without credentials
	r.want(403, "POST", "/logout", "", append(site, spa)...)
}

// Preflights of a route with preflight: application reach the application without an identity and
// with nothing that proves who sends them, and its CORS fields pass. Everything else needs
// what it needed.
func TestPreflightByApplication(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [10.0.0.0/8]}\nstore:")+`
  - match: /own/
    name: own
    upstream: app
    auth: [session, bearer]
    policy: admin
    forward_credentials: true
    strip_prefix: /own
    rate: {requests: 3, per: 1h, by: client}
    headers: {set: {Authorization: "Basic b3BlcmF0b3I=", Cookie: a=b, X-Set: "1"}, pass: [X-Real-Ip]}
    cors: {preflight: application}
  - {match: "PUT /write/", upstream: app, auth: [session], cors: {preflight: application}}
  - {match: /listed/, upstream: app, auth: [session], cors: {preflight: application, origins: ["https://spa.example"]}}
  - {match: /asked/, auth: [session], cors: {preflight: application}}
`)
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
		h := http.Header{"Access-Control-Allow-Origin": {q.Header.Get("Origin")}, "Vary": {"Accept"}}
		return response(q, 204, h, ""), nil
	}
	alice := r.login(aliceIn)
	other := "Origin: https://other.example"
	asks := []string{other, "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: x-a",
		"User-Agent: browser", "Sec-Fetch-Mode: cors"}
	proofs := []string{alice.cookie, "Authorization: Bearer x", "Proxy-Authorization: Basic x", "X-Api-Key: x",
		"X-HTTP-Method-Override: DELETE", "X-Auth-User: mallory", "X-Real-Ip: 192.0.2.1", "Cookie: theirs=1",
		"Connection: Upgrade", "Upgrade: websocket"}
	for range 3 {
		w := r.want(204, "OPTIONS", "/own/x?y", "", slices.Concat(asks, proofs)...)
		if got := w.Header(); got.Get("Access-Control-Allow-Origin") != "https://other.example" ||
			!slices.Equal(got["Vary"], []string{"Accept"}) {
			t.Errorf("the application's fields are changed: %v", got)
		}
		q := r.upstream.Last()
		if q.Method != "OPTIONS" || q.URL.RequestURI() != "/x?y" {
			t.Errorf("the application gets %s %s", q.Method, q.URL.RequestURI())
		}
		for name, values := range q.Header {
			switch name {
			case "Access-Control-Request-Method", "Access-Control-Request-Headers", "Origin", "Sec-Fetch-Mode",
				"User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto",
				"X-Request-Id", "X-Set":
			default:
				t.Errorf("the application gets %s: %q", name, values)
			}
		}
	}
	r.want(429, "OPTIONS", "/own/", "", asks...)
	r.want(204, "OPTIONS", "/write/", "", asks...) // by the route of PUT, which is not that of OPTIONS
	r.want(404, "OPTIONS", "/write/", "", other, "Access-Control-Request-Method: POST")
	w := r.want(204, "OPTIONS", "/listed/", "", asks...)
	if w.Header().Get("Access-Control-Allow-Origin") != "https://other.example" {
		t.Errorf("with origins, the application answers preflights all the same: %v", w.Header())
	}
	w = r.want(204, "GET", "/listed/", "", other, alice.cookie)
	if w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("with origins, other answers are the gateway's: %v", w.Header())
	}
	w = r.want(204, "PUT", "/write/", "", "Origin: https://gw.example", alice.cookie)
	if w.Header().Get("Access-Control-Allow-Origin") != "https://gw.example" {
		t.Errorf("without origins, all answers are the application's: %v", w.Header())
	}
	r.want(401, "OPTIONS", "/listed/", "x", asks...) // a preflight has no body
	r.want(401, "OPTIONS", "/listed/", "", other)
	r.want(401, "PUT", "/write/", "", other)
	r.want(403, "PUT", "/write/", "", other, alice.cookie, "Sec-Fetch-Site: cross-site") // no origin is trusted
	r.want(404, "OPTIONS", "/asked/", "", asks...)
}

// A proxy that asks about a preflight for the application gets the same answer, if there is
// nothing in the request that the gateway would have removed. So does explain.
func TestPreflightByApplicationForProxies(t *testing.T) {
	t.Parallel()
	const route = "auth: [session], cors: {preflight: application}}\n"
	r := newRig(t, edit(t, namedUpstream(t, verifyConfig), "listen:",
		"  - {match: /own/, upstream: app, "+route+"  - {match: /asked2/, "+route+"token: {header: X-Token}\nlisten:"))
	alice := r.login(aliceIn)
	preflight := []string{"Origin: https://spa.example", "Access-Control-Request-Method: PUT"}
	for _, target := range []string{"/own/", "/asked2/"} {
		w := r.asks(200, asTraefik("OPTIONS", "gw.example", target), preflight...)
		if user, ok := w.Header()["X-Auth-User"]; !ok || user[0] != "" {
			t.Errorf("%s: the identity in the answer is %q", target, user)
		}
		for _, line := range []string{
			"Cookie: theirs=1", "Authorization: Token x", "Proxy-Authorization: Basic x", "X-Token: theirs",
			"X-HTTP-Method-Override: PUT", "X-Method-Override: PUT", "X-HTTP-Method: PUT",
			"X_HTTP_Method_Override: PUT",
			"X-Middleware-Subrequest: middleware",
		} {
			r.asks(401, asTraefik("OPTIONS", "gw.example", target), append(preflight, line)...)
		}
		r.asks(401, asTraefik("OPTIONS", "gw.example", target), preflight[0])
		r.asks(401, asTraefik("PUT", "gw.example", target), preflight...)
		r.asks(400, asTraefik("OPTIONS", "gw.example", target), append(preflight, "X_Auth_User: mallory")...)
		r.asks(200, asTraefik("PUT", "gw.example", target), alice.cookie, "Origin: https://gw.example")
	}
	e := newExplainer(t, r.state.Load().config)
	h := http.Header{"Origin": {"https://spa.example"}, "Access-Control-Request-Method": {"PUT"}, "X-Custom": {"1"}}
	x, err := e.Explain(&explain.Request{Method: "OPTIONS", URL: "/own/x", Header: h,
		Caller: &explain.Caller{User: "alice"}})
	if err != nil || x.Outcome != explain.OutcomeAllow || x.Route != "/own/" || x.Path != "/own/x" ||
		x.Header.Get("Origin") == "" || x.Header.Get("X-Custom")+x.Header.Get("X-Auth-User") != "" {
		t.Errorf("explain: %+v, %v", x, err)
	}
	x, err = e.Explain(&explain.Request{Method: "OPTIONS", URL: "/asked2/", Header: h, Verify: true})
	if err != nil || x.Outcome != explain.OutcomeAllow || x.Header.Get("X-Auth-User") != "" {
		t.Errorf("explain for a proxy: %+v, %v", x, err)
	}
}
