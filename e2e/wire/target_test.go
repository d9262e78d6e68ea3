package wire

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"authgate/e2e/world"
)

// refusedTargets have more than one meaning, or none. There
// is one of each kind; the tests of package policy have all others.
var refusedTargets = []string{
	"/a%2fb", `/a\b`, "/a%5cb", // slashes and backslashes
	"/a%00", "/a%0d%0aX:%20y", // control characters
	"/a/..", "/a/./b", "/a/%2e%2e/b", "/a/%252e%252e/b", "/a%252fb", "/a/..;/b", // dot segments and what becomes one
	"//a", "/a//b", // empty segments
	"/a#b", "/a?b#c", // fragments
	"/a%c0%af", "/a\xff", // not UTF-8
	"/a%zz", "/a/%2%65/b", // no encoding
	"a", "https://localhost/a", "http://evil.example/a", "*", "localhost:443", // not in origin-form
}

// resetTargets are the refused targets that are malformed in HTTP/2 itself,
// where :path begins with a slash and is part of a valid URI.
var resetTargets = map[string]bool{"/a%zz": true, "/a/%2%65/b": true, "a": true}

// passedTargets reach the upstream byte for byte.
var passedTargets = []string{
	"/", "/a/", "/a?", "/a?a=%zz&b;c", "/a?a=%2f..%2f../&b=//x\\y", "/a?%00", "/\xc3\xa9", "/%c3%a9", "/a?\xff", "/100%25",
	"/a%253f", "/a/;/b", "/a%3bb", "/%7Euser", "/a+b", "/a:b@c!$&'()*+,=", "/...", "/a%2e",
}

// targets has one route for everything.
const targets = "routes: [{match: /, upstream: app, auth: [none]}]\n"

func TestTargets(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, targets+world.App(up.URL))
	for _, target := range refusedTargets {
		if a := g.Raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n"); a.Status != http.StatusBadRequest {
			t.Errorf("%q over HTTP/1.1: %d", target, a.Status)
		}
		status, err := get2(t, g, target)
		if resetTargets[target] && !errors.Is(err, errReset) || !resetTargets[target] &&
			(err != nil || status != http.StatusBadRequest) {
			t.Errorf("%q over HTTP/2: %d, %v", target, status, err)
		}
		up.None(t)
	}
	for _, target := range passedTargets {
		if a := g.Raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n"); a.Status != http.StatusOK {
			t.Errorf("%q over HTTP/1.1: %d %s", target, a.Status, a.Body)
		}
		if status, err := get2(t, g, target); err != nil || status != http.StatusOK {
			t.Errorf("%q over HTTP/2: %d, %v", target, status, err)
		}
		got := up.All()
		if wrong := func(m world.Message) bool { return m.Line != "GET "+target+" HTTP/1.1" }; len(got) != 2 ||
			slices.ContainsFunc(got, wrong) {
			t.Errorf("%q: the upstream got %q", target, got)
		}
	}
}

// TestMalformedRequests sends requests with other faults than the target's.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, targets+world.App(up.URL))
	for name, request := range map[string]string{
		"CONNECT":                "CONNECT localhost:443 HTTP/1.1\nHost: localhost:443\n\n",
		"OPTIONS of the server":  "OPTIONS * HTTP/1.1\nHost: localhost\n\n",
		"a space in the target":  "GET /a b HTTP/1.1\nHost: localhost\n\n",
		"a control character":    "GET /a\x01b HTTP/1.1\nHost: localhost\n\n",
		"no target":              "GET  HTTP/1.1\nHost: localhost\n\n",
		"no host":                "GET /a HTTP/1.1\n\n",
		"two hosts":              "GET /a HTTP/1.1\nHost: localhost\nHost: evil.example\n\n",
		"a host with a bad port": "GET /a HTTP/1.1\nHost: localhost:http\n\n",
		"a space before a colon": "GET /a HTTP/1.1\nHost: localhost\nX-Auth-User : alice\n\n",
		"a length and chunks": "POST /a HTTP/1.1\nHost: localhost\nContent-Length: 3\nTransfer-Encoding: " +
			"chunked\n\n0\n\n",
		"a coding in HTTP/1.0": "POST /a HTTP/1.0\nHost: localhost\nTransfer-Encoding: chunked\n\n0\n\n",
		"an unknown coding": "POST /a HTTP/1.1\nHost: localhost\nContent-Length: 3\nTransfer-Encoding: " +
			"x, chunked\n\n0\n\n",
		"two lengths":       "POST /a HTTP/1.1\nHost: localhost\nContent-Length: 0\nContent-Length: 5\n\nhello",
		"a negative length": "POST /a HTTP/1.1\nHost: localhost\nContent-Length: -1\n\n",
		"two Authorization headers": "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Basic eDp5\nAuthorization: " +
			"Bearer x\n\n",
		"two values of the cookie":      "GET /a HTTP/1.1\nHost: localhost\nCookie: session_id=a; b=c; session_id=d\n\n",
		"two values of it in two lines": "GET /a HTTP/1.1\nHost: localhost\nCookie: session_id=a\nCookie: session_id=d\n\n",
	} {
		if a := g.Raw(t, request); a.Status != http.StatusBadRequest &&
			(name != "an unknown coding" || a.Status != http.StatusNotImplemented) {
			t.Errorf("%s: %d: %s", name, a.Status, a.Body)
		}
		up.None(t)
	}
	for _, fields := range [][]field{
		{{":method", "CONNECT"}, {":authority", "localhost:443"}},
		{{":method", "OPTIONS"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "*"}},
	} {
		if status, err := raw2(t, g, fields...); err != nil || status != http.StatusBadRequest {
			t.Errorf("%v: %d, %v", fields, status, err)
		}
		up.None(t)
	}
}

// TestHosts: a host that is ambiguous or not the gateway's reaches no route, over
// HTTP/1.1 and HTTP/2. The tests of packages policy and gateway have the rules.
func TestHosts(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+`
routes:
  - {match: /, upstream: app, auth: [session]}
  - {match: /public, upstream: app, auth: [none]}
  - {match: open.example/, upstream: app, auth: [none]}
`)
	for _, host := range []string{
		"localhost/public?x=", "localhost?/public", "localhost#/public", `localhost\public`, "localhost%2fpublic%3f",
		"open.example@localhost",
		"open.example/", "open.example?", "localhost:80/public?", "open.example, localhost", "localhost\topen.example",
		"http://open.example",
		"open.example:443:80", "open.example%00", "open.example%2e", "[open.example]", "open。example", "open.example\u200b",
		"open.example..", ".open.example",
	} {
		sendAll(t, g, "GET /secret HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		_, _ = raw2(t, g, field{":method", "GET"}, field{":scheme", "https"}, field{":authority", host},
			field{":path", "/secret"})
		_, _ = raw2(t, g, field{":method", "GET"}, field{":scheme", "https"}, field{":path", "/secret"}, field{"host", host})
		for _, m := range up.All() {
			t.Errorf("%q reached the upstream: %q for the host %q", host, m.Line, m.Values("Host"))
		}
	}
	if a := g.Raw(t, "GET /secret HTTP/1.1\nHost: other.example\n\n"); a.Status != http.StatusMisdirectedRequest {
		t.Errorf("a host that is not the gateway's: %d", a.Status)
	}
	g.Raw(t, "GET /secret HTTP/1.1\nHost: OPEN.example.:8443\n\n")
	if got := up.One(t).Line; got != "GET /secret HTTP/1.1" {
		t.Errorf("the open host: the upstream got %q", got)
	}
}
