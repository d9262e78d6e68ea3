package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hostsConfig has every way to name a host.
var hostsConfig = baseConfig + `
  - {match: Wiki.Example.org./, name: wiki, upstream: app, auth: [none]}
  - {match: "GET [2001:db8::1]/", name: six, upstream: app, auth: [none]}
tls: {domains: [files.example, "*.apps.example", 192.0.2.50]}
`

// foreignHosts are hosts that are not the gateway's.
var foreignHosts = []string{
	"evil.example", "gw.example.evil.example", "sub.gw.example", "example", "apps.example", "a.b.apps.example", "localhost", "192.0.2.51", "127.0.0.1", "[::1]",
}

// A request for a host that is not the gateway's reaches no route and no own endpoint,
// and its credentials are not checked.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, hostsConfig)
	alice := r.login(aliceIn)
	for _, host := range []string{
		"gw.example", "GW.Example.:8443", "wiki.example.org", "wiki.example.org:1", "[2001:DB8::0:1]:443", "files.example", "x.apps.example", "192.0.2.50",
	} {
		q := request("GET", "/public/", "")
		q.Host = host
		r.wantOf(200, q)
	}
	asked, failures := r.upstream.count(), r.sample("authgate_logins_total")
	for _, host := range foreignHosts {
		for _, c := range []struct{ method, target, body, header string }{
			{"GET", "/public/", "", ""}, {"GET", "/session/", "", alice.cookie}, {"GET", "/session/", "", "Cookie: session_id=a; session_id=b"},
			{"GET", "/basic/", "", basicHeader("service", "wrong")}, {"POST", "/login", aliceIn, jsonType}, {"GET", "/signin", "", ""}, {"GET", "/nowhere", "", ""},
		} {
			q := request(c.method, c.target, c.body, c.header)
			q.Host = host
			w := r.serve(q)
			if w.Code != http.StatusMisdirectedRequest || w.Header()["Set-Cookie"] != nil || !strings.Contains(problemOf(t, w).Detail, "add a route for the host") {
				t.Errorf("%s %s at %s: %d %s", c.method, c.target, host, w.Code, w.Body)
			}
		}
	}
	if r.upstream.count() != asked || r.sample("authgate_logins_total") != failures {
		t.Error("a request for another host was served")
	}
}

// Load balancers ask for the address that they connect to.
func TestLocalAddressIsAHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, hostsConfig)
	for _, c := range []struct {
		host, local string
		want        int
	}{
		{"192.0.2.99", "192.0.2.99", 200},
		{"192.0.2.99:8443", "192.0.2.99", 200},
		{"192.0.2.99", "::ffff:192.0.2.99", 200},
		{"[2001:db8::99]", "2001:db8::99", 200},
		{"192.0.2.98", "192.0.2.99", 421},
		{"192.0.2.99.evil.example", "192.0.2.99", 421},
	} {
		q := request("GET", "/public/", "")
		q.Host = c.host
		local := &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8443}
		r.wantOf(c.want, q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local)))
	}
}

// With listen.any_host, routes without a host serve every host. Users cannot
// sign in at a host that is not the gateway's.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, hostsConfig+"listen: {any_host: true}\n")
	ask := func(host, method, target string, header ...string) *httptest.ResponseRecorder {
		q := request(method, target, "", header...)
		q.Host = host
		return r.serve(q)
	}
	for _, host := range foreignHosts {
		if w := ask(host, "GET", "/public/"); w.Code != 200 || r.upstream.last().Host != host {
			t.Errorf("%s: %d, the upstream is asked for %s", host, w.Code, r.upstream.last().Host)
		}
		if w := ask(host, "GET", "/page"); w.Code != 404 { // which wiki.example.org has
			t.Errorf("%s: %d on a page of another host", host, w.Code)
		}
		if w := ask(host, "GET", "/session/"); w.Code != 401 {
			t.Errorf("%s: %d without a session", host, w.Code)
		}
		for target, want := range map[string]string{
			"/session/x?y":              "https://gw.example/signin?return_to=%2Fsession%2Fx%3Fy",
			"/signin?return_to=/public": "https://gw.example/signin?return_to=/public",
			"/login":                    "https://gw.example/login",
		} {
			if w := ask(host, "GET", target, browser); w.Code != 302 || w.Header().Get("Location") != want {
				t.Errorf("%s%s: %d to %q, want %q", host, target, w.Code, w.Header().Get("Location"), want)
			}
		}
	}
	if w := ask("wiki.example.org", "GET", "/page"); w.Code != 200 {
		t.Errorf("a host of the gateway: %d", w.Code)
	}
	if w := ask("files.example", "GET", "/session/", browser); w.Header().Get("Location") != "/signin?return_to=%2Fsession%2F" {
		t.Errorf("a host of the gateway: sign-in at %q", w.Header().Get("Location"))
	}
}

// The redirect from plain HTTP keeps a host of the gateway, at the port of
// public_url.
func TestPlainKeepsHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, hostsConfig, "https://gw.example", "https://gw.example:8443"))
	for host, want := range map[string]string{
		"gw.example":            "https://gw.example:8443/a?b",
		"Wiki.Example.org:80":   "https://wiki.example.org:8443/a?b",
		"x.apps.example":        "https://x.apps.example:8443/a?b",
		"[2001:db8:0::1]":       "https://gw.example:8443/a?b",
		"evil.example":          "https://gw.example:8443/a?b",
		"":                      "https://gw.example:8443/a?b",
		"evil@wiki.example.org": "https://gw.example:8443/a?b",
	} {
		q := request("GET", "/a?b", "")
		q.Host = host
		w := httptest.NewRecorder()
		r.HTTPRedirect(w, q)
		if got := w.Header().Get("Location"); w.Code != 308 || got != want {
			t.Errorf("%q: %d to %q, want %q", host, w.Code, got, want)
		}
	}
}

// The upstream gets the host that the decision was made for, even if a trusted proxy
// tells the host. Many proxies pass on X-Forwarded-Host or Forwarded of a client,
// which must not choose the route of one host and the page of another.
func TestDecidedHostIsForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.0/24]}\nstore:")+
		"  - {match: public.example/, upstream: app, auth: [none]}\n  - {match: private.example/, upstream: app, auth: [session]}\n")
	for _, says := range []string{
		"X-Forwarded-Host: public.example", "X-Forwarded-Host: private.example, public.example", "Forwarded: host=public.example",
		"Forwarded: for=198.51.100.7;host=\"public.example\"",
	} {
		before := r.upstream.count()
		q := request("GET", "/page", "", says)
		q.Host = "private.example"
		w := r.serve(q)
		if r.upstream.count() == before {
			continue // refused
		}
		if got := r.upstream.last(); got.Host == "private.example" {
			t.Errorf("%q: %d, decided on for public.example, and the upstream is asked for a page of %s", says, w.Code, got.Host)
		}
	}
}

// Plain HTTP is redirected to https at public_url, whatever host the request names.
// A credential is refused as exposed.
func TestHTTPRedirect(t *testing.T) {
	t.Parallel()
	r := newRig(t, cookieDelivery)
	for _, c := range []struct {
		method, target, header string
		status                 int
		location               string
	}{
		{"GET", "/", "", 308, "https://gw.example/"},
		{"GET", "/a/b%20c?d=%2F&e", "", 308, "https://gw.example/a/b%20c?d=%2F&e"},
		{"GET", "/a?", "", 308, "https://gw.example/a?"},
		{"POST", "/login", "", 308, "https://gw.example/login"},
		{"GET", "/nowhere", "", 308, "https://gw.example/nowhere"},
		{"GET", "/", "Cookie: theme=dark; session=x", 308, "https://gw.example/"},
		{"GET", "/", basicHeader("a", "b"), 403, ""},
		{"GET", "/", "Authorization: Bearer x", 403, ""},
		{"GET", "/", "Authorization: x", 403, ""},
		{"GET", "/", "Cookie: theme=dark; session_id=x", 403, ""},
		{"GET", "/", "Cookie: session_id=", 403, ""},
		{"GET", "/", "Cookie: access_token=x", 403, ""},
		{"GET", "/", "Cookie: refresh_token=x", 403, ""},
		{"GET", "/", "Cookie: session_id=x; session_id=y", 403, ""},
		{"GET", "//evil.example", "", 400, ""},
		{"GET", "/a/../b", "", 400, ""},
		{"GET", "http://gw.example/", "", 400, ""},
		{"OPTIONS", "*", "", 400, ""},
	} {
		q := request(c.method, c.target, "", c.header)
		q.Host = "evil.example"
		w := httptest.NewRecorder()
		r.HTTPRedirect(w, q)
		if w.Code != c.status || w.Header().Get("Location") != c.location {
			t.Errorf("%s %s with %q: %d to %q, want %d to %q", c.method, c.target, c.header, w.Code, w.Header().Get("Location"), c.status, c.location)
		}
		hardened(t, "cleartext", w)
		if c.status == 403 && !strings.Contains(problemOf(t, w).Detail, "exposed") {
			t.Errorf("%q: detail %q", c.header, problemOf(t, w).Detail)
		}
		if w.Header()["Set-Cookie"] != nil {
			t.Errorf("%q: a cookie over cleartext", c.header)
		}
	}
	if r.upstream.count() != 0 {
		t.Error("the upstream was asked")
	}
	if n := r.sample("authgate_requests_total", "route=authgate/plain"); n != 18 {
		t.Errorf("%v requests were counted", n)
	}
}

// With tls.mode off, requests must come over https from a trusted proxy.
func TestTLSOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"tls: {mode: off}\nlisten: {http: \":8080\", trusted_proxies: [192.0.2.0/24]}\n")
	s := readLogin(t, r.do("POST", "/login", aliceIn, jsonType, "X-Forwarded-Proto: https")).cookie
	for _, c := range []struct {
		remote string
		header []string
		want   int
	}{
		{"192.0.2.7:1", []string{"X-Forwarded-Proto: https"}, 200},
		{"192.0.2.7:1", []string{"Forwarded: for=1.2.3.4;proto=https"}, 200},
		{"192.0.2.7:1", []string{"X-Forwarded-Proto: http"}, 403},
		{"192.0.2.7:1", []string{"X-Forwarded-Proto: https, http"}, 403},
		{"192.0.2.7:1", []string{"Forwarded: proto=https, for=1.2.3.4"}, 403},
		{"192.0.2.7:1", nil, 403},
		{"198.51.100.1:1", []string{"X-Forwarded-Proto: https"}, 403},
		{"@", []string{"X-Forwarded-Proto: https"}, 403},
	} {
		for _, target := range []string{"/public/", "/session/", "/me"} {
			q := request("GET", target, "", append([]string{s}, c.header...)...)
			q.RemoteAddr = c.remote
			r.wantOf(c.want, q)
		}
	}
}
