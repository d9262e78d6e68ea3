package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

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
		"https://gw.example:8443")+"token: {delivery: cookie, header: X-Authgate-Token}\n")
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
		{"gw.example", "/", "X-Authgate-Token: x", 403, ""},
		{"gw.example", "/", "Proxy-Authorization: Bearer x", 403, ""},
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
			if h := w.Header(); h.Get("Cache-Control") != "no-store" {
				t.Errorf("%q: %v", c.header, h)
			}
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
