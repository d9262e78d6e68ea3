package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
)

// nobodyConfig has routes that let in requests without credentials, beside users.
const nobodyConfig = baseConfig + `
  - {match: /open/, name: open, upstream: app, auth: [session, bearer, basic, none]}
  - match: /office/
    name: office
    upstream: app
    auth: [session, bearer, none]
    policy: {any: [{networks: [192.0.2.0/24]}, {roles: [admin]}]}
  - match: /reads/
    name: reads
    upstream: app
    auth: [session, none]
    policy: {any: [{methods: [GET, HEAD]}, {roles: [admin]}]}
  - {match: /far/, name: far, upstream: app, auth: [session, none], policy: {networks: [198.51.100.0/24]}}
  - {match: /guests/, name: guests, upstream: app, auth: [session, none], policy: {none: [{roles: [admin]}]}}
  - {match: /counted/, name: counted, upstream: app, auth: [session, none], rate: {requests: 2, per: 1m, by: user}}
listen: {trusted_proxies: [10.0.0.0/8]}
`

// outside is the address of a client outside of the office.
const outside = "203.0.113.9:4711"

// wantUser fails the test unless the upstream saw the newest request as that user's, "" for no user.
func (r *rig) wantUser(user string) {
	r.t.Helper()
	h := r.upstream.Last().Header
	for _, name := range []string{
		"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email",
		"X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider", "X-Auth-Actor",
	} {
		if user == "" && h[name] != nil {
			r.t.Errorf("the upstream sees %s: %q without an identity", name, h[name])
		}
	}
	if h.Get("X-Auth-User") != user {
		r.t.Errorf("the upstream sees %q, want %q", h["X-Auth-User"], user)
	}
}

// A request without credentials passes without an identity, whatever it says of one. Users keep
// theirs.
func TestNobodyPasses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	alice := r.login(aliceIn)
	r.want(200, "GET", "/open/", "", browser)
	r.wantUser("")
	r.want(200, "POST", "/open/", "", "X-Auth-User: alice", "x_auth_roles: admin", "Remote-User: alice")
	if h := r.upstream.Last().Header; h["X-Auth-User"] != nil || h["X_auth_roles"] != nil || h["Remote-User"] != nil {
		t.Errorf("the upstream sees %v", h)
	}
	r.want(200, "GET", "/open/", "", "Cookie: theme=dark", "Authorization: Token of-the-application")
	r.wantUser("")
	if h := r.upstream.Last().Header; h.Get("Cookie") != "theme=dark" || h.Get("Authorization") == "" {
		t.Errorf("what is the application's did not reach it: %v", h)
	}
	r.want(200, "POST", "/open/", "", "Sec-Fetch-Site: cross-site") // there is no login to abuse
	for _, line := range []string{alice.cookie, alice.bearer} {
		r.want(200, "GET", "/open/", "", line)
		r.wantUser("alice")
	}
	r.want(403, "POST", "/open/", "", alice.cookie, "Sec-Fetch-Site: cross-site")
	r.want(200, "GET", "/open/", "", basicHeader("service", "s3rvice"))
	r.wantUser("service")
}

// A request with a wrong credential never passes as one without credentials.
func TestWrongIsNotNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	alice := r.login(aliceIn)
	wrong := []string{
		"Authorization: Bearer x", "Authorization: Bearer", basicHeader("service", "wrong"),
		basicHeader("alice", "agt_x"), "Authorization: Basic !", "Cookie: session_id=unknown", alice.bearer + "x",
	}
	for _, line := range wrong {
		for _, mode := range []string{"", "Sec-Fetch-Mode: cors"} {
			r.want(401, "GET", "/open/", "", line, mode)
			r.want(401, "POST", "/open/", "", line, mode)
		}
	}
	r.want(401, "GET", "/open/", "", "Authorization: Bearer x", alice.cookie, browser)
	r.want(400, "GET", "/open/", "", "Authorization: Bearer x", "Authorization: Bearer y", browser)
	for range 10 {
		r.do("GET", "/open/", "", basicHeader("service", "wrong"))
	}
	r.want(429, "GET", "/open/", "", basicHeader("service", "wrong"), browser)
	r.want(429, "GET", "/open/", "", basicHeader("service", "s3rvice"), browser)
	r.want(200, "GET", "/open/", "", browser)
	r.store.breakIf(func(string, int64, string) bool { return true })
	for _, line := range []string{alice.cookie, alice.bearer, "Cookie: session_id=" + strings.Repeat("A", 43)} {
		r.want(503, "GET", "/open/", "", line, browser)
	}
	r.want(200, "GET", "/open/", "", browser)
}

// A page load with a dead cookie passes as one without credentials, and the cookie is cleared.
// Anything else with it is 401.
func TestDeadCookieOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	alice := r.login(aliceIn)
	r.want(200, "POST", "/logout", "", alice.cookie)
	w := r.want(200, "GET", "/open/", "", alice.cookie, "Cookie: theme=dark", browser)
	r.wantUser("")
	if h := r.upstream.Last().Header; h.Get("Cookie") != "theme=dark" {
		t.Errorf("the upstream sees the cookies %q", h["Cookie"])
	}
	if got := w.Header().Get("Cache-Control"); got != "private" {
		t.Errorf("caches may keep the answer to it: %q", got)
	}
	if set := w.Result().Header.Get("Set-Cookie"); !strings.HasPrefix(set, "session_id=;") ||
		!strings.Contains(set, "Max-Age=0") {
		t.Errorf("the dead cookie is not cleared: %q", set)
	}
	w = r.want(401, "GET", "/open/", "", alice.cookie, "Sec-Fetch-Mode: cors")
	if w.Result().Header["Set-Cookie"] != nil {
		t.Error("the answer to a script clears a cookie")
	}
	r.want(401, "POST", "/open/", "", alice.cookie)
	w = r.want(302, "GET", "/guests/", "", alice.cookie, browser)
	if location := w.Header().Get("Location"); location != "/signin?return_to=%2Fguests%2F" {
		t.Errorf("a user who has signed out is led to %q", location)
	}
}

// A request without credentials that the policy refuses is answered as on a route that admits none:
// a page load goes to sign in where that can help, and anything else is 401.
func TestRefusedNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	is := func(status int, address, method, target string, header ...string) {
		t.Helper()
		r.wantOf(status, from(address, request(method, target, "", header...)))
	}
	const inside = "192.0.2.7:1"
	is(200, inside, "POST", "/office/")
	r.wantUser("")
	is(200, inside, "GET", "/office/", bob.cookie)
	r.wantUser("bob")
	is(302, outside, "GET", "/office/", browser)
	is(401, outside, "GET", "/office/")
	is(401, outside, "POST", "/office/", browser)
	is(401, outside, "GET", "/office/", browser, "Sec-Fetch-Mode: cors")
	is(200, outside, "GET", "/office/", alice.cookie)
	is(403, outside, "GET", "/office/", bob.cookie)
	is(200, outside, "HEAD", "/reads/")
	is(401, outside, "POST", "/reads/")
	is(200, outside, "POST", "/reads/", alice.cookie)
	is(401, outside, "GET", "/far/", browser) // signing in does not change the address
	is(302, outside, "GET", "/guests/", browser)
	is(403, outside, "GET", "/guests/", alice.cookie) // and signing out opens nothing
	is(200, outside, "GET", "/guests/", bob.cookie)
}

// A 401 says where users sign in. A page offers to do so only if that can help.
func TestPagesForNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	for _, target := range []string{"/office/", "/far/"} {
		w := r.wantOf(401, from(outside, request("GET", target, "")))
		if got := w.Header().Get("Authgate-Sign-In"); got != "https://gw.example/signin" {
			t.Errorf("%s: the header is %q", target, got)
		}
	}
	if page := r.wantOf(401, from(outside, request("GET", "/far/", "", browser))).Body.String(); strings.Contains(
		page, `href="/signin`) {
		t.Errorf("/far/: the page offers to sign in:\n%s", page)
	}
	if page := r.wantOf(401, from(outside, request("POST", "/office/", "", browser))).Body.String(); !strings.Contains(
		page, `href="/signin`) {
		t.Errorf("/office/: the page does not offer to sign in:\n%s", page)
	}
}

// A rate by user counts requests without credentials by address.
func TestRateOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	alice := r.login(aliceIn)
	for _, want := range []int{200, 200, 429} {
		r.want(want, "GET", "/counted/", "")
		r.want(want, "GET", "/counted/", "", alice.cookie)
		r.wantOf(want, from(outside, request("GET", "/counted/", "")))
	}
}

// A proxy that asks is told the same, with all identity headers empty.
func TestVerifyNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nobodyConfig)
	dead := "Cookie: session_id=" + strings.Repeat("A", 43)
	w := r.asks(200, asTraefik("GET", "gw.example", "/open/"), browser)
	empty := map[string]string{"X-Auth-User": "", "X-Auth-Subject": "", "X-Auth-Roles": "", "X-Auth-Mechanism": ""}
	wantIdentity(t, w, empty)
	w = r.asks(200, asTraefik("GET", "gw.example", "/open/"), browser, dead)
	wantIdentity(t, w, empty)
	if !strings.HasPrefix(w.Header().Get("Set-Cookie"), "session_id=;") {
		t.Errorf("the dead cookie is not cleared: %q", w.Header()["Set-Cookie"])
	}
	r.asks(401, asTraefik("GET", "gw.example", "/open/"), "Authorization: Bearer x")
	r.asks(401, asTraefik("POST", "gw.example", "/reads/"))
	r.asks(302, asTraefik("GET", "gw.example", "/guests/"), browser)
	r.asks(401, asNginx("GET", "gw.example", "/far/"), browser)
	r.asks(200, asNginx("GET", "gw.example", "/office/"))
}

// explain says what a request without credentials may do, and why. A user whom the route does not
// accept has no identity there.
func TestExplainNobody(t *testing.T) {
	t.Parallel()
	e := newExplainer(t, parseConfig(t, t.TempDir(), nobodyConfig))
	for _, c := range []struct {
		method, path, from string
		caller             *explain.Caller
		outcome            string
		status             int
		fails              []string // rules
	}{
		{"GET", "/open/", "203.0.113.9", nil, "allow", 200, nil},
		{"GET", "/office/", "192.0.2.1", nil, "allow", 200, nil},
		{"GET", "/office/", "203.0.113.9", nil, "challenge", 401, []string{"policy: any"}},
		{"GET", "/guests/", "203.0.113.9", nil, "challenge", 401, []string{"policy: none[0]"}},
		{"POST", "/reads/", "203.0.113.9", nil, "challenge", 401, []string{"policy: any"}},
		{"GET", "/office/", "192.0.2.1", &explain.Caller{User: "service"}, "allow", 200, nil},
		{"GET", "/office/", "203.0.113.9", &explain.Caller{User: "service"}, "challenge", 401, []string{"policy: any"}},
		{"GET", "/guests/", "203.0.113.9", &explain.Caller{User: "alice"}, "forbid", 403, []string{"policy: none[0]"}},
	} {
		d := &explain.Request{Method: c.method, URL: c.path, From: netip.MustParseAddr(c.from), Caller: c.caller}
		x, err := e.Explain(d)
		if err != nil {
			t.Fatal(err)
		}
		var fails []string
		for _, condition := range x.Conditions {
			if condition.Depth == 0 && !condition.Holds {
				fails = append(fails, condition.Rule)
			}
		}
		if x.Outcome != c.outcome || x.Status != c.status || !slices.Equal(fails, c.fails) {
			t.Errorf("%+v: %s %d, %q do not hold: %s", c, x.Outcome, x.Status, fails, x.Reason)
		}
		if x.Header.Get("X-Auth-User") != "" {
			t.Errorf("%+v: the upstream sees %v", c, x.Header)
		}
	}
}

// A stream without an identity goes on while a request without credentials may open it. A stream of
// a user ends with the login, and does not go on without an identity.
func TestStreamsOfNobody(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		streamsWith(t, nobodyConfig, func(s *streaming) {
			body := s.open(protocol, "/open/", browser)
			time.Sleep(time.Minute)
			s.alive(1)
			s.mustReload(nobodyConfig)
			s.mustReload(edit(t, nobodyConfig, "{roles: [admin]}]}\n  - {match: /far/",
				"{roles: [user]}]}\n  - {match: /far/"))
			time.Sleep(time.Minute)
			s.alive(1)
			since := time.Now()
			s.mustReload(edit(t, nobodyConfig, "auth: [session, bearer, basic, none]",
				"auth: [session, bearer, basic]"))
			s.ends(body, since)
		})
		for name, end := range map[string]func(*streaming, signedIn){
			"logout": byCookie,
			"route": func(s *streaming, _ signedIn) {
				s.mustReload(edit(t, nobodyConfig, "auth: [session, bearer, basic, none]",
					"auth: [bearer, basic, none]"))
			},
		} {
			t.Log(protocol, name)
			streamsWith(t, nobodyConfig, func(s *streaming) {
				in := s.login(aliceIn)
				body := s.open(protocol, "/open/", in.cookie)
				since := time.Now()
				end(s, in)
				s.ends(body, since)
			})
		}
	}
}

// A WebSocket opens without credentials where the route admits such requests, also from another
// site, and is closed when a changed configuration does not admit them any more.
func TestSocketOfNobody(t *testing.T) {
	t.Parallel()
	listeningWith(t, nobodyConfig, func(t *testing.T, r *rig, dial func() net.Conn) {
		here, there := net.Pipe()
		defer here.Close()
		r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
			upgraded := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
			answer := response(q, http.StatusSwitchingProtocols, upgraded, "")
			answer.Body = there
			return answer, nil
		}
		ask := func(path string, lines ...string) (*http.Response, *bufio.Reader) {
			client := dial()
			t.Cleanup(func() { client.Close() })
			lines = append(append(lines, ownrig.Handshake...), "Connection: Upgrade", "Upgrade: websocket",
				"Origin: https://other.example")
			fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: gw.example\r\n%s\r\n\r\n", path, strings.Join(lines, "\r\n"))
			from := bufio.NewReader(client)
			answer, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer, from
		}
		for path, line := range map[string]string{"/guests/": "Accept: */*", "/open/": "Authorization: Bearer x"} {
			if answer, _ := ask(path, line); answer.StatusCode != 401 || r.upstream.Reached() != 0 {
				t.Errorf("%s with %q: %s", path, line, answer.Status)
			}
		}
		answer, from := ask("/open/")
		if answer.StatusCode != 101 || answer.Header["Vary"] != nil {
			t.Fatalf("%s %v", answer.Status, answer.Header)
		}
		r.wantUser("")
		time.Sleep(time.Minute)
		since := time.Now()
		r.mustReload(edit(t, nobodyConfig, "auth: [session, bearer, basic, none]", "auth: [session, bearer, basic]"))
		if got, _ := io.ReadAll(from); string(got) != "\x88\x0c\x03\xf0signed out" || time.Since(since) > within {
			t.Errorf("after %v the client gets %x", time.Since(since), got)
		}
	})
}
