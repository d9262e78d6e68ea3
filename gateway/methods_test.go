package gateway

import (
	"slices"
	"strings"
	"testing"

	"authgate/gateway/headername/headernametest"
)

// overrides are headers by which frameworks take a request for one of another
// method than its own.
var overrides = []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

// The method that was decided on is the one that the upstream sees: no header
// makes another one of it.
func TestMethodOverride(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "routes:", "  readers: {methods: [GET, HEAD, POST]}\nroutes:\n  - {match: /read/, upstream: app, auth: [session], policy: readers}"))
	s := r.login(aliceIn)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, name := range overrides {
			for _, spelling := range headernametest.Spellings(name) {
				before := r.upstream.count()
				w := r.do(method, "/read/", "", s.cookie, spelling+": DELETE")
				if r.upstream.count() == before {
					continue // refused
				}
				for got, values := range r.upstream.last().Header {
					if slices.Contains(values, "DELETE") {
						t.Errorf("%s with %s: %d, and the upstream gets %s: %q", method, spelling, w.Code, got, values)
					}
				}
			}
		}
	}
}

// Methods are case-sensitive (RFC 9110, section 9.1), but not to every
// application. What differs from a method in its case alone is refused, so that
// nobody gets past a route or a policy that names the method.
func TestMethodsInAnotherCase(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: GET /both/, upstream: app, auth: [session]}\n  - {match: /both/, upstream: app, auth: [none]}\n")
	for _, method := range []string{"get", "Get", "gET"} {
		before := r.upstream.count()
		w := r.do(method, "/both/", "")
		if r.upstream.count() != before && strings.EqualFold(r.upstream.last().Method, "GET") {
			t.Errorf("%s /both/ without a session: %d, and the upstream is asked to %s", method, w.Code, r.upstream.last().Method)
		}
	}
}

// A CGI application would send its own requests through the proxy of HTTP_PROXY.
func TestProxyHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, name := range []string{"Proxy", "proxy", "PROXY"} {
		r.do("GET", "/public/", "", name+": http://evil.example")
		if got := r.upstream.last().Header["Proxy"]; got != nil {
			t.Errorf("%s reaches the upstream: %q", name, got)
		}
	}
}
