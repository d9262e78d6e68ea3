package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
)

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
	if n := sample(t, r.registry, "authgate_requests_total", "route=authgate/plain"); n != 18 {
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
			if w := r.serve(q); w.Code != c.want {
				t.Errorf("GET %s from %s with %q: %d, want %d", target, c.remote, c.header, w.Code, c.want)
			}
		}
	}
}
