package e2e

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
)

// refusedTargets have more than one meaning, or none (design B.11, B.13).
var refusedTargets = []string{
	"/a%2fb", "/a%2Fb", "/%2f", `/a\b`, "/a%5cb", "/a%5Cb", // slashes and backslashes
	"/a%00", "/a%0a", "/a%0d%0aX:%20y", "/a%09", "/a%1f", "/a%7f", "/a%c2%85", // control characters
	"/.", "/..", "/a/.", "/a/..", "/a/./b", "/a/../b", "/../../etc/passwd", // dot segments
	"/a/%2e/b", "/a/%2e%2e/b", "/a/.%2e/b", "/a/%2E./b", "/%2e%2e", // once encoded
	"/a/%252e%252e/b", "/a/.%252e/b", "/a/%25252e%25252e/b", "/a/%2%65/b", "/a%252fb", "/a%255cb", "/a%25252fb", // more than once
	"/a/..;/b", "/a/.;x=y/b", "/a/..;x", "/a/%2e%2e;/b", "/a/..%3b/b", "/a/%252e%252e%253bx/b", // once cut at a semicolon
	"//", "//a", "/a//b", "/a//", // empty segments
	"/a#b", "/a?b#c", "/#", // fragments
	"/a%ff", "/a%c0%af", "/a%e0%80%af", "/a%c3", "/a%ed%a0%80", "/a\xff", "/a\xc0\xaf", // not UTF-8
	"/a%", "/a%2", "/a%zz", "/a%u0041", // no encoding
	"a", "login", "https://localhost/a", "http://evil.example/a", "HTTPS://LOCALHOST/a", "*", "localhost:443", // no origin-form
}

// resetTargets are those of refusedTargets that are malformed for HTTP/2
// already: its :path begins with a slash and is a URI's.
var resetTargets = map[string]bool{
	"/a%": true, "/a%2": true, "/a%zz": true, "/a%u0041": true, "/a/%2%65/b": true, "a": true, "login": true,
}

// passedTargets reach the upstream byte for byte.
var passedTargets = []string{
	"/", "/a", "/a/", "/a?", "/?", "/a?b=c", "/a?a=%zz&b;c", "/a?a=%2f..%2f../&b=//x\\y", "/a?b?c", "/a?%00", "/a?u=https://x/../y",
	"/\xc3\xa9", "/%C3%A9", "/%c3%a9", "/\xe2\x82\xac?\xe2\x82\xac", "/a?\xff", // UTF-8, raw and in both cases
	"/a%25", "/100%25", "/a%2525", "/%25zz", "/a%253f", // a percent sign
	"/a;b=c", "/a;", "/a/;/b", "/a%3bb", "/a;/b", // a semicolon
	"/%61", "/%7Euser", "/~user", "/a%20b", "/a+b", "/a:b@c!$&'()*+,=", "/a%3Fb", "/a%3db", // other encodings stay as they are
	"/...", "/.well", "/a/..b", "/a/b..", "/a/...;/b", "/a%2e", // not only dots
}

// targets has one route for everything, and the gateway's own endpoints.
const targets = "routes: [{match: /, upstream: app, auth: [none]}]\n"

func TestTargets(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, targets+app(up.url))
	for _, target := range refusedTargets {
		t.Run(strconv.Quote(target), func(t *testing.T) {
			if a := g.raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n"); a.status != http.StatusBadRequest {
				t.Errorf("HTTP/1.1: %d", a.status)
			}
			status, err := g.get2(t, target)
			if resetTargets[target] && !errors.Is(err, errReset) || !resetTargets[target] && (err != nil || status != http.StatusBadRequest) {
				t.Errorf("HTTP/2: %d, %v", status, err)
			}
			up.none(t)
		})
	}
	for _, target := range passedTargets {
		t.Run(strconv.Quote(target), func(t *testing.T) {
			if a := g.raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n"); a.status != http.StatusOK {
				t.Errorf("HTTP/1.1: %d %s", a.status, a.body)
			}
			if got := up.one(t).line; got != "GET "+target+" HTTP/1.1" {
				t.Errorf("HTTP/1.1: the upstream got %q", got)
			}
			if status, err := g.get2(t, target); err != nil || status != http.StatusOK {
				t.Errorf("HTTP/2: %d, %v", status, err)
			}
			if got := up.one(t).line; got != "GET "+target+" HTTP/1.1" {
				t.Errorf("HTTP/2: the upstream got %q", got)
			}
		})
	}
}

// TestMalformedRequests are those whose target is not all that is wrong.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, targets+app(up.url))
	for name, request := range map[string]string{
		"CONNECT":                       "CONNECT localhost:443 HTTP/1.1\nHost: localhost:443\n\n",
		"OPTIONS of the server":         "OPTIONS * HTTP/1.1\nHost: localhost\n\n",
		"a space in the target":         "GET /a b HTTP/1.1\nHost: localhost\n\n",
		"a control character":           "GET /a\x01b HTTP/1.1\nHost: localhost\n\n",
		"no target":                     "GET  HTTP/1.1\nHost: localhost\n\n",
		"no host":                       "GET /a HTTP/1.1\n\n",
		"two hosts":                     "GET /a HTTP/1.1\nHost: localhost\nHost: evil.example\n\n",
		"a host with a path":            "GET /a HTTP/1.1\nHost: localhost/b\n\n",
		"a host with a user":            "GET /a HTTP/1.1\nHost: alice@localhost\n\n",
		"a host with a bad port":        "GET /a HTTP/1.1\nHost: localhost:http\n\n",
		"a space before a colon":        "GET /a HTTP/1.1\nHost: localhost\nX-Auth-User : alice\n\n",
		"a header without a name":       "GET /a HTTP/1.1\nHost: localhost\n: alice\n\n",
		"a length and chunks":           "POST /a HTTP/1.1\nHost: localhost\nContent-Length: 3\nTransfer-Encoding: x, chunked\n\n0\n\n",
		"two lengths":                   "POST /a HTTP/1.1\nHost: localhost\nContent-Length: 0\nContent-Length: 5\n\nhello",
		"a negative length":             "POST /a HTTP/1.1\nHost: localhost\nContent-Length: -1\n\n",
		"two Authorization headers":     "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Basic eDp5\nAuthorization: Bearer x\n\n",
		"two equal ones":                "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Basic eDp5\nAuthorization: Basic eDp5\n\n",
		"two values of the cookie":      "GET /a HTTP/1.1\nHost: localhost\nCookie: session_id=a; b=c; session_id=d\n\n",
		"two values of it in two lines": "GET /a HTTP/1.1\nHost: localhost\nCookie: session_id=a\nCookie: session_id=d\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			a := g.raw(t, request)
			if a.status != http.StatusBadRequest && (name != "a length and chunks" || a.status != http.StatusNotImplemented) {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			up.none(t)
		})
	}
	if status, err := g.raw2(t, field{":method", "CONNECT"}, field{":authority", "localhost:443"}); err != nil || status != http.StatusBadRequest {
		t.Errorf("CONNECT by HTTP/2: %d, %v", status, err)
	}
	if status, err := g.raw2(t, field{":method", "OPTIONS"}, field{":scheme", "https"}, field{":authority", "localhost"}, field{":path", "*"}); err != nil || status != http.StatusBadRequest {
		t.Errorf("OPTIONS of the server by HTTP/2: %d, %v", status, err)
	}
	up.none(t)
}

// TestHosts: hosts compare without case, port or trailing dot, and no other
// host than the gateway's is served.
func TestHosts(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, app(up.url)+`
routes:
  - {match: app.example.org/, upstream: app, auth: [none]}
  - {match: "[2001:db8::1]/", upstream: app, auth: [none]}
`)
	for host, want := range map[string]int{
		"app.example.org": 200, "APP.example.ORG": 200, "app.example.org.": 200, "app.example.org:8443": 200, "App.Example.Org.:443": 200, "app.example.org:": 200,
		"[2001:db8::1]": 200, "[2001:DB8:0::1]:443": 200,
		"localhost": 404, "127.0.0.1": 404, "127.0.0.2": 421, "app.example.orgx": 421, "xapp.example.org": 421, "app.example.org..": 400, "[2001:db8::1": 400, "app..example.org": 400,
	} {
		t.Run(host, func(t *testing.T) {
			if a := g.raw(t, "GET /a HTTP/1.1\nHost: "+host+"\n\n"); a.status != want {
				t.Errorf("status %d, expected %d", a.status, want)
			}
			if got := len(up.all()); got != 0 && want != 200 {
				t.Errorf("%d requests reached the upstream", got)
			}
		})
	}
}
