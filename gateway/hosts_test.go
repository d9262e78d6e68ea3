package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// foreignHosts are hosts that are not the gateway's.
var foreignHosts = []string{
	"evil.example", "gw.example.evil.example", "sub.gw.example", "example", "apps.example", "a.b.apps.example",
	"wild.example", "a.b.wild.example", "awild.example", "localhost", "192.0.2.51", "127.0.0.1", "[::1]",
}

// A request for a host that is not the gateway's reaches no route and no own endpoint,
// and its credentials are not checked.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.HostsConfig)
	alice := r.login(aliceIn)
	for _, host := range []string{
		"gw.example", "GW.Example.:8443", "wiki.example.org", "wiki.example.org:1", "[2001:DB8::0:1]:443", "files.example",
		"x.apps.example", "192.0.2.50",
	} {
		r.client.WantAt(host, 200, "GET", "/public/", "")
	}
	r.client.WantAt("a.wild.example", 401, "GET", "/public/", "") // which the route for the host has
	logins := r.sample("authgate_logins_total")
	for _, host := range foreignHosts {
		for _, w := range []*httptest.ResponseRecorder{
			r.client.WantAt(host, 421, "GET", "/public/", ""),
			r.client.WantAt(host, 421, "GET", "/session/", "", alice.cookie),
			r.client.WantAt(host, 421, "GET", "/session/", "", "Cookie: session_id=a; session_id=b"),
			r.client.WantAt(host, 421, "GET", "/basic/", "", basicHeader("service", "wrong")),
			r.client.WantAt(host, 421, "POST", "/login", aliceIn, jsonType),
			r.client.WantAt(host, 421, "GET", "/signin", ""),
			r.client.WantAt(host, 421, "GET", "/nowhere", ""),
		} {
			if w.Header()["Set-Cookie"] != nil || !strings.Contains(detailOf(t, w), "add a route for the host") {
				t.Errorf("%s: %v %s", host, w.Header(), w.Body)
			}
		}
	}
	if r.sample("authgate_logins_total") != logins {
		t.Error("credentials for another host were checked")
	}
}

// Load balancers ask for the address that they connect to.
func TestLocalAddressIsAHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.HostsConfig)
	ask := func(host, local string, want int) {
		t.Helper()
		q := request("GET", "/public/", "")
		q.Host = host
		address := &net.TCPAddr{IP: net.ParseIP(local), Port: 8443}
		r.wantOf(want, q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, address)))
	}
	ask("192.0.2.99", "192.0.2.99", 200)
	ask("192.0.2.99:8443", "::ffff:192.0.2.99", 200)
	ask("[2001:db8::99]", "2001:db8::99", 200)
	ask("192.0.2.98", "192.0.2.99", 421)
	ask("192.0.2.99.evil.example", "192.0.2.99", 421)
	r.refusesOwn("192.0.2.99", func(q *http.Request) *http.Request {
		address := &net.TCPAddr{IP: net.ParseIP("192.0.2.99"), Port: 8443}
		return q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, address))
	})
}

// ownEndpoints are requests for own endpoints, each of which would succeed at the gateway's
// own hosts, for a user with a session there and for one without.
var ownEndpoints = []struct{ method, target, body, header string }{
	{"POST", "/login", aliceIn, jsonType}, {"POST", "/login", ownrig.AliceForm, formType},
	{"POST", "/login", "", basicHeader("alice", "wonderland")},
	{"GET", "/me", "", ""}, {"GET", "/me", "", browser}, {"GET", "/logout", "", ""}, {"POST", "/logout", "", ""},
	{"GET", "/account", "", ""}, {"GET", "/account/sessions", "", ""},
	{"POST", "/account/sessions/end", `{"others": true}`, jsonType},
	{"POST", "/account/tokens", `{"name": "a", "expires_in": 60}`, jsonType}, {"GET", "/account/tokens", "", ""},
	{"POST", "/account/password", `{"current": "wonderland", "new": "a-new-password"}`, jsonType},
	{"POST", "/refresh", "{}", jsonType},
	{"GET", "/signin/complete?ticket=" + strings.Repeat("A", 43), "", browser},
	{"GET", "/callback?code=a&state=b", "", browser},
	{"GET", "/.well-known/jwks.json", "", ""}, {"DELETE", "/signin", "", ""}, {"POST", "/signin", "", ""},
}

// refusesOwn fails the test unless own endpoints are 421 for requests that to prepares, except
// those that redirect to public_url.
func (r *rig) refusesOwn(host string, to func(*http.Request) *http.Request) {
	r.t.Helper()
	alice := r.login(aliceIn)
	logins := r.sample("authgate_logins_total")
	for _, e := range ownEndpoints {
		for _, credential := range []string{"", alice.cookie, alice.bearer} {
			if credential == alice.bearer && strings.HasPrefix(e.header, "Authorization") {
				continue
			}
			q := request(e.method, e.target, e.body, e.header, credential, "Origin: https://"+host)
			q.Host = host
			w := r.wantOf(421, to(q))
			if w.Header()["Set-Cookie"] != nil {
				r.t.Errorf("%s %s%s sets %q", e.method, host, e.target, w.Header()["Set-Cookie"])
			}
		}
	}
	for target, want := range map[string]string{
		"/signin?return_to=/public": "https://gw.example/signin?return_to=%2Fpublic", "/login": "https://gw.example/login",
		"/signin?reason=signed_out": "https://gw.example/signin?reason=signed_out",
	} {
		q := request("GET", target, "", browser)
		q.Host = host
		if w := r.wantOf(302, to(q)); w.Header().Get("Location") != want || w.Header()["Set-Cookie"] != nil {
			r.t.Errorf("%s%s: to %q with %q, want %q", host, target, w.Header().Get("Location"), w.Header()["Set-Cookie"], want)
		}
	}
	if r.sample("authgate_logins_total") != logins {
		r.t.Error("credentials for another host were checked")
	}
	r.want(200, "GET", "/me", "", alice.cookie) // nothing has ended
}

// With listen.any_host, routes without a host serve every host. Users cannot
// sign in at a host that is not the gateway's, and do nothing else of their own there.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.HostsConfig+"listen: {any_host: true}\n")
	for _, host := range foreignHosts {
		if r.client.WantAt(host, 200, "GET", "/public/", ""); r.upstream.Last().Host != host {
			t.Errorf("%s: the upstream is asked for %s", host, r.upstream.Last().Host)
		}
		r.client.WantAt(host, 404, "GET", "/page", "") // which wiki.example.org has
		r.client.WantAt(host, 401, "GET", "/session/", "")
		for target, want := range map[string]string{
			"/session/x?y":              "https://gw.example/signin?return_to=%2Fsession%2Fx%3Fy",
			"/signin?return_to=/public": "https://gw.example/signin?return_to=%2Fpublic",
			"/login":                    "https://gw.example/login",
		} {
			if got := r.client.WantAt(host, 302, "GET", target, "", browser).Header().Get("Location"); got != want {
				t.Errorf("%s%s: to %q, want %q", host, target, got, want)
			}
		}
	}
	r.refusesOwn("evil.example", func(q *http.Request) *http.Request { return q })
	r.client.WantAt("wiki.example.org", 200, "GET", "/page", "")
	const waiting = "https://gw.example/signin?return_to=https%3A%2F%2Ffiles.example%2Fsession%2F&binding="
	if got := r.client.WantAt("files.example", 302, "GET", "/session/", "",
		browser).Header().Get("Location"); !strings.HasPrefix(got, waiting) {
		t.Errorf("a host of the gateway: sign-in at %q", got)
	}
}

// The upstream gets the host that the decision was made for, even if a trusted proxy
// tells the host. Many proxies pass on X-Forwarded-Host or Forwarded of a client,
// which must not choose the route of one host and the page of another.
func TestDecidedHostIsForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.0/24]}\nstore:")+
		"  - {match: public.example/, upstream: app, auth: [none]}\n  - {match: private.example/, upstream: app, auth: "+
		"[session]}\n")
	for says, want := range map[string]int{
		"X-Forwarded-Host: public.example": 200, "Forwarded: host=public.example": 200,
		"Forwarded: for=198.51.100.7;host=\"public.example\"": 200,
		"X-Forwarded-Host: private.example, public.example":   200, "X-Forwarded-Host: private.example": 401,
	} {
		if r.client.WantAt("private.example", want, "GET", "/page", "", says); want == 200 &&
			r.upstream.Last().Host != "public.example" {
			t.Errorf("%q: decided on for public.example, and the upstream is asked for a page of %s", says,
				r.upstream.Last().Host)
		}
	}
}

// Plain HTTP is redirected to https at public_url, or at the host of the request if that
// is the gateway's. A credential is refused as exposed.
func TestHTTPRedirect(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, ownrig.HostsConfig, "https://gw.example",
		"https://gw.example:8443")+"token: {delivery: cookie}\n")
	requests := 0
	for _, c := range []struct {
		host, target, header string
		status               int
		location             string
	}{
		{"evil.example", "/", "", 308, "https://gw.example:8443/"},
		{"", "/a/b%20c?d=%2F&e", "", 308, "https://gw.example:8443/a/b%20c?d=%2F&e"},
		{"Wiki.Example.org:80", "/a?b", "", 308, "https://wiki.example.org:8443/a?b"},
		{"x.apps.example", "/a?b", "", 308, "https://x.apps.example:8443/a?b"},
		{"[2001:db8:0::1]", "/a?b", "", 308, "https://gw.example:8443/a?b"},
		{"evil@wiki.example.org", "/a?b", "", 308, "https://gw.example:8443/a?b"},
		{"gw.example", "/nowhere", "Cookie: theme=dark; session=x", 308, "https://gw.example:8443/nowhere"},
		{"gw.example", "/", basicHeader("a", "b"), 403, ""},
		{"gw.example", "/", "Authorization: Bearer x", 403, ""},
		{"gw.example", "/", "Cookie: theme=dark; session_id=x", 403, ""},
		{"gw.example", "/", "Cookie: access_token=x", 403, ""},
		{"gw.example", "/", "Cookie: refresh_token=x", 403, ""},
		{"gw.example", "/", "Cookie: session_id=x; session_id=y", 403, ""},
		{"gw.example", "//evil.example", "", 400, ""},
		{"gw.example", "http://gw.example/", "", 400, ""},
	} {
		for _, method := range []string{"GET", "POST"} {
			q, w := request(method, c.target, "", c.header), httptest.NewRecorder()
			q.Host = c.host
			r.HTTPRedirect(w, q)
			requests++
			if w.Code != c.status || w.Header().Get("Location") != c.location || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s %s%s with %q: %d %v, want %d to %q", method, c.host, c.target, c.header, w.Code, w.Header(), c.status,
					c.location)
			}
			r.hardened(t, "cleartext", w)
			if c.status == 403 && !strings.Contains(detailOf(t, w), "exposed") {
				t.Errorf("%q: detail %q", c.header, detailOf(t, w))
			}
		}
	}
	if n := r.sample("authgate_requests_total", "route=authgate/plain"); n != float64(requests) ||
		r.upstream.Reached() != 0 {
		t.Errorf("%v requests of %d were counted, %d reached the upstream", n, requests, r.upstream.Reached())
	}
}

// With tls.mode off, requests must come over https from a trusted proxy.
func TestTLSOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"tls: {mode: off}\nlisten: {http: \":8080\", trusted_proxies: [192.0.2.0/24]}\n")
	s := readLogin(t, r.want(200, "POST", "/login", aliceIn, jsonType, "X-Forwarded-Proto: https")).cookie
	ask := func(remote, header string, want int) {
		t.Helper()
		for _, target := range []string{"/public/", "/session/", "/me"} {
			q := request("GET", target, "", s, header)
			q.RemoteAddr = remote
			r.wantOf(want, q)
		}
	}
	ask("192.0.2.7:1", "X-Forwarded-Proto: https", 200)
	ask("192.0.2.7:1", "Forwarded: for=1.2.3.4;proto=https", 200)
	ask("192.0.2.7:1", "X-Forwarded-Proto: http", 403)
	ask("192.0.2.7:1", "X-Forwarded-Proto: https, http", 403)
	ask("192.0.2.7:1", "Forwarded: proto=https, for=1.2.3.4", 403)
	ask("192.0.2.7:1", "", 403)
	ask("198.51.100.1:1", "X-Forwarded-Proto: https", 403)
	ask("@", "X-Forwarded-Proto: https", 403)
}
