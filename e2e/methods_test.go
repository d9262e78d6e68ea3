package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestMethods: the method that a route and its policy were asked about is the
// one that the application sees, and no way of writing it down makes another
// of it.
func TestMethods(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+`
policies: {reader: {methods: [GET, HEAD, OPTIONS]}}
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: GET /page, upstream: app, auth: [session]}
  - {match: /read/, upstream: app, auth: [session], policy: reader}
`)
	session := g.signIn(g.stranger(), "bob").session
	for _, test := range []struct {
		line    string
		reaches bool
	}{
		{"GET /read/x", true}, {"HEAD /read/x", true}, {"OPTIONS /read/x", true},
		{"POST /read/x", false}, {"DELETE /read/x", false}, {"TRACE /read/x", false}, {"PATCH /read/x", false}, {"PROPFIND /read/x", false}, {"CONNECT /read/x", false},
		{"get /read/x", false}, {"Get /read/x", false}, {"gET /read/x", false}, {"head /read/x", false}, {"delete /read/x", false}, {"GETS /read/x", false}, {"GET\x00 /read/x", false},
	} {
		g.send(t, test.line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: "+session+"\r\n\r\n")
		got := up.all()
		if len(got) > 0 != test.reaches || test.reaches && got[0].line != test.line+" HTTP/1.1" {
			t.Errorf("%q reached the upstream as %q", test.line, got)
		}
	}
	// A method in small letters is the same to many applications, and must not
	// be another one to the routes. HEAD is GET without the body.
	for _, method := range []string{"GET", "get", "Get", "gEt", "HEAD", "head"} {
		g.send(t, method+" /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		for _, m := range up.all() {
			t.Errorf("%s without a session reached the upstream as %q", method, m.line)
		}
		_, _ = g.raw2(t, field{":method", method}, field{":scheme", "https"}, field{":authority", "localhost"}, field{":path", "/page"})
		for _, m := range up.all() {
			t.Errorf("%s by HTTP/2 without a session reached the upstream as %q", method, m.line)
		}
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		for _, s := range spellings(name) {
			for _, method := range []string{"GET", "OPTIONS"} {
				g.raw(t, fmt.Sprintf("%s /read/x HTTP/1.1\nHost: localhost\nCookie: %s\n%s: DELETE\n\n", method, session, s))
				for _, m := range up.all() {
					if slices.Contains(m.values(name), "DELETE") {
						t.Errorf("%s with %s: the application is asked to DELETE: %q", method, s, m.head)
					}
				}
			}
		}
	}
	// The gateway's own endpoints know their methods, and nothing else changes.
	for _, method := range []string{"post", "Post", "PUT", "TRACE", "OPTIONS", "DELETE", "GET"} {
		a := g.raw(t, fmt.Sprintf("%s /login HTTP/1.1\nHost: localhost\nX-HTTP-Method-Override: POST\nAuthorization: %s\nContent-Length: 0\n\n", method, basicOf("bob:builder")))
		if a.status == http.StatusOK || strings.Contains(cookieOf(a), "session_id=") {
			t.Errorf("%s /login signs in: %d", method, a.status)
		}
	}
	up.none(t)
}

// TestHostIsNoURL: a Host that brings along a path, a query, a user or another
// host is refused, or is the one that was decided on.
func TestHostIsNoURL(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, app(up.url)+"accounts: {users: [{username: alice, password_hash: \""+wonderlandHash+"\"}]}\n"+`
routes:
  - {match: /, upstream: app, auth: [session]}
  - {match: /public, upstream: app, auth: [none]}
  - {match: open.example/, upstream: app, auth: [none]}
`)
	for _, host := range []string{
		"localhost/public?x=", "localhost/public", "localhost?/public", "localhost#/public", "localhost/public#", `localhost\public`, "localhost%2fpublic%3f", "open.example@localhost", "open.example:x@localhost",
		"open.example/", "open.example?", "open.example#", "localhost:80/public?", "open.example, localhost", "localhost,open.example", "open.example;localhost", "localhost\topen.example", "http://open.example",
		"open.example:443:80", "open.example%00", "open.example%2e", "[open.example]", "open。example", "xn--open.example", "open.example\u200b", "open.example..", ".open.example",
	} {
		g.send(t, "GET /secret HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		_, _ = g.raw2(t, field{":method", "GET"}, field{":scheme", "https"}, field{":authority", host}, field{":path", "/secret"})
		_, _ = g.raw2(t, field{":method", "GET"}, field{":scheme", "https"}, field{":path", "/secret"}, field{"host", host})
		for _, m := range up.all() {
			t.Errorf("%q reached the upstream: %q for the host %q", host, m.line, m.values("Host"))
		}
	}
	g.raw(t, "GET /secret HTTP/1.1\nHost: OPEN.example.:8443\n\n")
	if got := up.one(t).line; got != "GET /secret HTTP/1.1" {
		t.Errorf("the open host: the upstream got %q", got)
	}
}
