package e2e

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// Tests with a CVE or GHSA id in their names send the attacks of published
// advisories for other gateways, proxies and libraries.
// docs/security-advisories.md says what went wrong there. A comment says which
// rule of the gateway prevents it, where the name of the test does not.

// advisory is a published fault, and what an attacker sends.
type advisory struct {
	name    string // the id, the program with the fault, and the subject
	attacks []string
}

// guarded has an application that is public, except for /admin/.
func guarded(up string) string {
	return people + app(up) + `
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: /public/, upstream: app, auth: [none]}
  - {match: /files/, upstream: app, auth: [none], strip_prefix: /files}
  - {match: /admin/, upstream: app, auth: [session], policy: {roles: [admin]}}
`
}

// pathAdvisories are targets that one program reads as public, and another
// program as a path under /admin/.
var pathAdvisories = []advisory{
	// A dot segment is 400 before the gateway looks for a route.
	{"CVE-2026-33494 Oathkeeper, rules on a path that is not normalised", []string{
		"/public/../admin/secrets", "/public/./../admin/secrets", "/public/x/../../admin/secrets", "/public/..//admin/secrets",
	}},
	{"CVE-2025-32431 Traefik, path matchers and dot segments", []string{
		"/service/../admin/secrets", "/service/../admin/", "/../admin/secrets", "/service/..//../admin/secrets", "/service/../admin/x/..",
	}},
	// The gateway decodes a path until nothing changes, and looks for dots then.
	{"CVE-2025-47952 Traefik, encoded dot segments", []string{
		"/service/%2e%2e/admin/secrets", "/service/.%2E/admin/secrets", "/service/%2e./admin/secrets",
		"/service/%252e%252e/admin/secrets", "/service/%25252e%25252e/admin/secrets", "/%2e/admin/secrets",
	}},
	{"CVE-2025-66490 Traefik, encoded delimiters", []string{
		"/admin%2fsecrets", "/admin%2F", "/%2fadmin/secrets", "/public%2f..%2fadmin%2fsecrets", "/admin%5csecrets", "/%5cadmin/secrets",
		"/admin%00/secrets", "/admin/%00", "/public/..%3b/admin/secrets", "/public/%2e%2e%3bx/admin/secrets", "/public/..%23/../admin/secrets",
	}},
	{"CVE-2023-47106 Traefik, fragments", []string{"/#/../admin/secrets", "/public#/../admin/secrets", "/#/admin/secrets", "/admin/#x", "/public/#/../../admin"}},
	// Dots are 400 before the gateway removes a prefix.
	{"CVE-2026-48020 Traefik, StripPrefix", []string{
		"/files/../admin/secrets", "/files/..%2fadmin/secrets", "/files/%2e%2e/admin/secrets", "/files/x/../../admin/secrets", "/files/./../admin/secrets",
	}},
	// The gateway removes the same segments from the decoded and the raw path.
	{"CVE-2026-40912 Traefik, StripPrefixRegex", []string{
		"/f%69les../admin/secrets", "/%66%69%6c%65%73/../admin/secrets", "/f%69les%2e%2e/admin/secrets", "/%66iles/%2e/admin/secrets", "/files%2f./admin/secrets",
	}},
	// A prefix ends where a segment ends.
	{"GHSA-cxjq-mrr5-89rv Traefik, ReplacePathRegex", []string{
		"/files../admin/secrets", "/files..", "/files.%2e/admin/secrets", "/files../../admin/secrets", "/files..;/admin/secrets",
	}},
	// A path begins with a slash.
	{"CVE-2026-88009 Traefik, rootless targets", []string{
		"http:admin/secrets", "http:/admin/secrets", "http:http://localhost/admin/secrets", "admin/secrets", "x:/admin/secrets", "http://localhost/admin/secrets",
	}},
	{"CVE-2026-33186 gRPC-Go, GHSA-46wh-3698-f2cx Traefik, a path without a slash", []string{"admin/secrets", "admin/", "admin", ".admin/secrets", "?/admin/secrets"}},
	// A path that cannot be parsed is 400.
	{"CVE-2021-32637 Authelia, malformed URIs", []string{
		"/admin/secrets%", "/admin/%zz", "/%2/../admin/secrets", "/admin/\x01secrets", "/admin/%u002e", "/:/../admin/secrets", "//[/admin/secrets", "/admin/secrets\x7f",
	}},
	// No decision reads the query.
	{"CVE-2025-54576 oauth2-proxy, a query that looks public", []string{
		"/admin/secrets?/public/", "/admin/?x=/public/y", "/admin/secrets?x=y&/public/", "/admin/secrets?#/public/", "/admin/secrets?redirect=/public/../",
	}},
	{"CVE-2026-41059 oauth2-proxy, a fragment that looks public", []string{
		"/admin/secrets#/public/", "/admin/%23/../secrets#/public", "/public/../admin/secrets#/public/bar", "/admin#/public/",
	}},
	{"CVE-2019-9901 Envoy, no normalisation", []string{"/something/../admin/secrets", "/something/../admin", "/./admin/secrets", "/something//../admin/secrets"}},
	{"CVE-2021-29492 Envoy, encoded slashes", []string{"/something%2F..%2Fadmin/secrets", "/something%5c..%5cadmin/secrets", "/admin%2Fsecrets", "/%2E%2E%5Cadmin"}},
	{"CVE-2021-32779 Envoy, CVE-2021-39206 Pomerium, fragments", []string{"/admin#", "/admin/secrets#", "/admin/secrets#foo", "/public/#/../admin/"}},
	{"CVE-2026-73551 Envoy, dot segments with parameters", []string{
		"/public/..;/admin/secrets", "/public/..;x=y/admin/secrets", "/public/.;/../admin/secrets", "/public/..%3bx/admin/secrets", "/.;x/admin/secrets", "/public/%2e%2e;/admin/secrets",
	}},
	{"CVE-2021-43557 Apache APISIX, uri-blocker", []string{"//admin/secrets", "/./admin/secrets", "///admin/secrets", "/public//../admin/secrets", "//admin"}},
	{"CVE-2023-45539 HAProxy, # in the path", []string{"/admin/secrets#.png", "/admin/index.html#/public/a.css", "/admin/#"}},
	{"CVE-2013-4547 nginx, spaces and NUL", []string{"/public /../admin/secrets", "/admin/secrets \x00.png", "/public/x /../../admin/secrets", "/admin \x00/public/"}},
	{"CVE-2021-41773 and CVE-2021-42013 Apache httpd, traversal", []string{
		"/public/.%2e/admin/secrets", "/public/%2e%2e/admin/secrets", "/public/.%%32%65/admin/secrets", "/public/%%32%65%%32%65/admin/secrets", "/public/%%32e%%32e/admin/secrets",
	}},
	{"CVE-2020-5902 F5 BIG-IP, CVE-2020-1957 Apache Shiro, ..;", []string{"/public/..;/admin/secrets", "/..;/admin/secrets", "/public/;/..;/admin/secrets", "/x/..;y=z/admin/"}},
	{"CVE-2021-34429 Jetty, %u002e and a NUL", []string{"/%u002e/admin/secrets", "/public/%u002e%u002e/admin/secrets", "/public/..%00/admin/secrets", "/.%00/admin/secrets"}},
}

// TestAdvisoriesPath: no target leads to /admin/ without a session, in any way that
// an application could read it.
func TestAdvisoriesPath(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, guarded(up.url))
	wantGuarded(t, g, up)
	for _, a := range pathAdvisories {
		t.Run(a.name, func(t *testing.T) {
			for _, target := range a.attacks {
				g.raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n")
				wantHarmless(t, up, target)
				_, _ = g.get2(t, target) // or the gateway resets the stream
				wantHarmless(t, up, target)
			}
		})
	}
	t.Run("CVE-2026-73511 Envoy, path parameters", func(t *testing.T) { matrixParameters(t, g, up) })
	wantGuarded(t, g, up)
}

// wantGuarded checks that honest requests reach the upstream. Otherwise attacks
// that do not reach it would prove nothing.
func wantGuarded(t *testing.T, g *instance, up *recorder) {
	t.Helper()
	c := g.stranger()
	alice := g.signIn(c, "alice").session
	for target, want := range map[string]string{"/public/x": "/public/x", "/files/x": "/x", "/f%69les/%78": "/%78", "/anything": "/anything"} {
		g.raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n")
		if got := up.one(t).target(); got != want {
			t.Errorf("%s reaches the upstream as %s", target, got)
		}
	}
	g.do(c, "GET", "/admin/secrets", "", "Cookie", alice)
	if got := up.one(t).target(); !leadsToAdmin(got) {
		t.Errorf("leadsToAdmin does not find %s, so it would find no attack", got)
	}
	g.do(c, "GET", "/admin/secrets", "")
	g.do(c, "GET", "/%61dmin/secrets", "")
	up.none(t)
}

// wantHarmless fails the test if a request for /admin/ reached the upstream.
func wantHarmless(t *testing.T, up *recorder, attack string) {
	t.Helper()
	for _, m := range up.all() {
		if got := m.target(); leadsToAdmin(got) {
			t.Errorf("%q reached the upstream as %q", attack, got)
		}
		if identity := m.values("X-Auth-User"); len(identity) > 0 {
			t.Errorf("%q reached the upstream for %q", attack, identity)
		}
	}
}

var (
	encoded       = regexp.MustCompile(`%([0-9A-Fa-f]{2})`)
	dotParameters = regexp.MustCompile(`(/\.\.?);[^/]*`)
)

// leadsToAdmin reports whether an application could read the target as /admin or
// a path under it. The application may decode more than once, read backslashes as
// slashes, drop the parameters of dot segments, cut the path at a NUL, a space or
// a fragment, and resolve dots and double slashes.
func leadsToAdmin(target string) bool {
	reading, _, _ := strings.Cut(target, "?")
	reading, _, _ = strings.Cut(reading, "#")
	for range 5 {
		for _, end := range []string{"", "\x00", " "} {
			p := reading
			if end != "" {
				p, _, _ = strings.Cut(p, end)
			}
			p = dotParameters.ReplaceAllString(strings.ReplaceAll("/"+p, `\`, "/"), "$1")
			if p = path.Clean(p); p == "/admin" || strings.HasPrefix(p, "/admin/") {
				return true
			}
		}
		reading = encoded.ReplaceAllStringFunc(reading, func(hex string) string {
			return string([]byte{unhex(hex[1])<<4 | unhex(hex[2])})
		})
	}
	return false
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// matrixParameters: servlets drop the parameters of each segment, so a target that
// leads to /admin/ without its parameters must not reach the upstream.
func matrixParameters(t *testing.T, g *instance, up *recorder) {
	parameters := regexp.MustCompile(`;[^/]*`)
	for _, target := range []string{"/admin;x=y/secrets", "/admin;/secrets", "/;x/admin/secrets", "/admin;jsessionid=1/", "/public;/../admin;/secrets"} {
		g.raw(t, "GET "+target+" HTTP/1.1\nHost: localhost\n\n")
		for _, m := range up.all() {
			if leadsToAdmin(parameters.ReplaceAllString(m.target(), "")) {
				t.Errorf("%q reached the upstream as %q", target, m.target())
			}
		}
	}
}
