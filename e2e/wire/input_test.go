package wire

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// inputs has a route for each mechanism, and room for many failed logins.
const inputs = world.People + `
limits: {login_failures: 100000}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure/, upstream: app, auth: [session, bearer]}
`

// TestHugeHeaders: 431, over HTTP/1.1 and HTTP/2. Logins go on.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, inputs+world.App(up.URL))
	before := g.SignIn(g.Stranger(), "alice")
	huge := strings.Repeat("x", 1<<20)
	for name, head := range map[string]string{
		"one value":  "/basic HTTP/1.1\nHost: localhost\nX-Large: " + huge + "\n",
		"many lines": "/basic HTTP/1.1\nHost: localhost\n" + strings.Repeat("X-Large: "+huge[:1000]+"\n", 1000),
		"a cookie":   "/basic HTTP/1.1\nHost: localhost\nCookie: session_id=" + huge + "\n",
		"the target": "/" + huge + " HTTP/1.1\nHost: localhost\n",
	} {
		if a := g.Raw(t, "GET "+head+"\n"); a.Status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %d", name, a.Status)
		}
	}
	status, err := get2(t, g, "/basic", slices.Repeat([]field{{"x-large", huge[:100]}}, 500)...)
	if err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP/2: %d, %v", status, err)
	}
	up.None(t)
	world.WantStatus(t, "the session from before", g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", before.Session),
		http.StatusOK)
}
