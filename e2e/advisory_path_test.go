package e2e

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// The tests whose names have a CVE or GHSA id replay published faults of other
// gateways, proxies and libraries here. Their comments say what went wrong
// there, and why it cannot here; docs/security-advisories.md lists them all.

// advisory is a published fault, and what an attacker sends to make use of it.
type advisory struct {
	name    string // the id, who had the fault, what it was about
	attacks []string
}

// guarded is the configuration that all faults of paths are tried on: an
// application that anybody may use, but for what is under /admin/.
func guarded(up string) string {
	return people + app(up) + `
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: /public/, upstream: app, auth: [none]}
  - {match: /files/, upstream: app, auth: [none], strip_prefix: /files}
  - {match: /admin/, upstream: app, auth: [session], policy: {roles: [admin]}}
`
}

// pathAdvisories are request targets that one program takes for something
// public, and the next for something under /admin/.
var pathAdvisories = []advisory{
	// Rules were matched against the path as it was sent, and the application
	// resolved its dots. Here a dot segment is 400 before any rule is looked at.
	{"CVE-2026-33494 Oathkeeper, rules on a path that is not normalised", []string{
		"/public/../admin/secrets", "/public/./../admin/secrets", "/public/x/../../admin/secrets", "/public/..//admin/secrets",
	}},
	// The same for routers by prefix, and for a path that ends in the dots.
	{"CVE-2025-32431 Traefik, path matchers and dot segments", []string{
		"/service/../admin/secrets", "/service/../admin/", "/../admin/secrets", "/service/..//../admin/secrets", "/service/../admin/x/..",
	}},
	// Dots that were percent-encoded got past the fix of the former. Here they
	// are looked for after decoding, as often as it can be done.
	{"CVE-2025-47952 Traefik, encoded dot segments", []string{
		"/service/%2e%2e/admin/secrets", "/service/.%2E/admin/secrets", "/service/%2e./admin/secrets",
		"/service/%252e%252e/admin/secrets", "/service/%25252e%25252e/admin/secrets", "/%2e/admin/secrets",
	}},
	// Encoded delimiters kept the router from seeing the prefix that the
	// application saw. An encoded slash, backslash or NUL is 400 here; other
	// characters stay encoded, byte for byte, and so are no delimiters behind.
	{"CVE-2025-66490 Traefik, encoded delimiters", []string{
		"/admin%2fsecrets", "/admin%2F", "/%2fadmin/secrets", "/public%2f..%2fadmin%2fsecrets", "/admin%5csecrets", "/%5cadmin/secrets",
		"/admin%00/secrets", "/admin/%00", "/public/..%3b/admin/secrets", "/public/%2e%2e%3bx/admin/secrets", "/public/..%23/../admin/secrets",
	}},
	// A fragment was encoded and forwarded as a part of the path, so that who
	// looked at the path before saw another one. It has no place in a request.
	{"CVE-2023-47106 Traefik, fragments", []string{"/#/../admin/secrets", "/public#/../admin/secrets", "/#/admin/secrets", "/admin/#x", "/public/#/../../admin"}},
	// The public route of a prefix was chosen first, then the prefix was
	// removed, and only then were the dots resolved. Here they never get that far.
	{"CVE-2026-48020 Traefik, StripPrefix", []string{
		"/files/../admin/secrets", "/files/..%2fadmin/secrets", "/files/%2e%2e/admin/secrets", "/files/x/../../admin/secrets", "/files/./../admin/secrets",
	}},
	// The length of the decoded prefix was cut off the encoded path, which left
	// dots behind. Here what is cut off is the same segments in both.
	{"CVE-2026-40912 Traefik, StripPrefixRegex", []string{
		"/f%69les../admin/secrets", "/%66%69%6c%65%73/../admin/secrets", "/f%69les%2e%2e/admin/secrets", "/%66iles/%2e/admin/secrets", "/files%2f./admin/secrets",
	}},
	// A prefix that ends within a segment left a dot segment: /api../x became
	// ../x. Here a prefix ends where a segment ends.
	{"GHSA-cxjq-mrr5-89rv Traefik, ReplacePathRegex", []string{
		"/files../admin/secrets", "/files..", "/files.%2e/admin/secrets", "/files../../admin/secrets", "/files..;/admin/secrets",
	}},
	// A target without a slash was routed as "/" and forwarded as it stood. Here
	// it is no path at all.
	{"CVE-2026-88009 Traefik, rootless targets", []string{
		"http:admin/secrets", "http:/admin/secrets", "http:http://localhost/admin/secrets", "admin/secrets", "x:/admin/secrets", "http://localhost/admin/secrets",
	}},
	// The same by :path of HTTP/2, where rules that deny compared the path with
	// its slash, and the router did not need one.
	{"CVE-2026-33186 gRPC-Go, GHSA-46wh-3698-f2cx Traefik, a path without a slash", []string{"admin/secrets", "admin/", "admin", ".admin/secrets", "?/admin/secrets"}},
	// A URI that could not be parsed was answered as if there was no rule about
	// it. Here what cannot be parsed is 400.
	{"CVE-2021-32637 Authelia, malformed URIs", []string{
		"/admin/secrets%", "/admin/%zz", "/%2/../admin/secrets", "/admin/\x01secrets", "/admin/%u002e", "/:/../admin/secrets", "//[/admin/secrets", "/admin/secrets\x7f",
	}},
	// What may skip authentication was matched against path and query. Here no
	// decision reads the query.
	{"CVE-2025-54576 oauth2-proxy, a query that looks public", []string{
		"/admin/secrets?/public/", "/admin/?x=/public/y", "/admin/secrets?x=y&/public/", "/admin/secrets?#/public/", "/admin/secrets?redirect=/public/../",
	}},
	// So was a fragment, which widened a pattern to the path before it.
	{"CVE-2026-41059 oauth2-proxy, a fragment that looks public", []string{
		"/admin/secrets#/public/", "/admin/%23/../secrets#/public", "/public/../admin/secrets#/public/bar", "/admin#/public/",
	}},
	// Paths were not normalised at all before access rules looked at them.
	{"CVE-2019-9901 Envoy, no normalisation", []string{"/something/../admin/secrets", "/something/../admin", "/./admin/secrets", "/something//../admin/secrets"}},
	// Encoded slashes hid segments from the rules that the application saw.
	{"CVE-2021-29492 Envoy, encoded slashes", []string{"/something%2F..%2Fadmin/secrets", "/something%5c..%5cadmin/secrets", "/admin%2Fsecrets", "/%2E%2E%5Cadmin"}},
	// Prefixes were compared with a path that had its fragment still. Pomerium
	// stands on Envoy and passed the fault on.
	{"CVE-2021-32779 Envoy, CVE-2021-39206 Pomerium, fragments", []string{"/admin#", "/admin/secrets#", "/admin/secrets#foo", "/public/#/../admin/"}},
	// Dot segments with parameters were none to the proxy, and were to servlets.
	{"CVE-2026-73551 Envoy, dot segments with parameters", []string{
		"/public/..;/admin/secrets", "/public/..;x=y/admin/secrets", "/public/.;/../admin/secrets", "/public/..%3bx/admin/secrets", "/.;x/admin/secrets", "/public/%2e%2e;/admin/secrets",
	}},
	// The list of blocked paths was compared with the target as it was sent.
	{"CVE-2021-43557 Apache APISIX, uri-blocker", []string{"//admin/secrets", "/./admin/secrets", "///admin/secrets", "/public//../admin/secrets", "//admin"}},
	// A rule on how a path ends was met by a fragment.
	{"CVE-2023-45539 HAProxy, # in the path", []string{"/admin/secrets#.png", "/admin/index.html#/public/a.css", "/admin/#"}},
	// A space and a NUL let a location be chosen by what comes first, and a file
	// be opened by what is before the NUL.
	{"CVE-2013-4547 nginx, spaces and NUL", []string{"/public /../admin/secrets", "/admin/secrets \x00.png", "/public/x /../../admin/secrets", "/admin \x00/public/"}},
	// One round of decoding left dots to the next.
	{"CVE-2021-41773 and CVE-2021-42013 Apache httpd, traversal", []string{
		"/public/.%2e/admin/secrets", "/public/%2e%2e/admin/secrets", "/public/.%%32%65/admin/secrets", "/public/%%32%65%%32%65/admin/secrets", "/public/%%32e%%32e/admin/secrets",
	}},
	// The filter in front knew nothing of path parameters, the servlets behind did.
	{"CVE-2020-5902 F5 BIG-IP, CVE-2020-1957 Apache Shiro, ..;", []string{"/public/..;/admin/secrets", "/..;/admin/secrets", "/public/;/..;/admin/secrets", "/x/..;y=z/admin/"}},
	// Dots in other disguises: by a code unit, and before a NUL.
	{"CVE-2021-34429 Jetty, %u002e and a NUL", []string{"/%u002e/admin/secrets", "/public/%u002e%u002e/admin/secrets", "/public/..%00/admin/secrets", "/.%00/admin/secrets"}},
}

// TestAdvisoriesPath: whatever an application makes of the targets that get to
// it, none of them leads to what only administrators may see.
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
				_, _ = g.get2(t, target) // a reset stream is as good an answer
				wantHarmless(t, up, target)
			}
		})
	}
	t.Run("CVE-2026-73511 Envoy, path parameters", func(t *testing.T) { matrixParameters(t, g, up) })
	wantGuarded(t, g, up)
}

// wantGuarded fails unless the paths lead to the upstream for whom they should:
// what never gets there proves nothing.
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
		t.Errorf("%s is not seen as something under /admin/, so no attack would be", got)
	}
	g.do(c, "GET", "/admin/secrets", "")
	g.do(c, "GET", "/%61dmin/secrets", "")
	up.none(t)
}

// wantHarmless judges by what reached the upstream.
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

// leadsToAdmin reports whether any application could take the target for
// /admin or something under it: one that decodes more than once, that takes
// backslashes for slashes, drops the parameters of dot segments, what follows
// a NUL, a space or a fragment, or resolves dots and doubled slashes.
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

// matrixParameters: servlets drop the parameters of every segment before they
// look for what to run, so that a rule about /admin/ is not asked about
// /admin;x/. Nothing that leads there without parameters may get there with.
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
