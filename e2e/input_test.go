package e2e

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
	right    = `{"username":"alice","password":"wonderland"}`
)

func basicOf(credential string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
}

// inputs has a route for each mechanism, and room for many failed logins.
const inputs = people + `
limits: {login_failures: 100000}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure/, upstream: app, auth: [session, bearer]}
`

// TestHugeHeaders: 431, over HTTP/1.1 and HTTP/2. Logins go on.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, inputs+app(up.url))
	before := g.signIn(g.stranger(), "alice")
	huge := strings.Repeat("x", 1<<20)
	for name, head := range map[string]string{
		"one value":  "/basic HTTP/1.1\nHost: localhost\nX-Large: " + huge + "\n",
		"many lines": "/basic HTTP/1.1\nHost: localhost\n" + strings.Repeat("X-Large: "+huge[:1000]+"\n", 1000),
		"a cookie":   "/basic HTTP/1.1\nHost: localhost\nCookie: session_id=" + huge + "\n",
		"the target": "/" + huge + " HTTP/1.1\nHost: localhost\n",
	} {
		if a := g.raw(t, "GET "+head+"\n"); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	status, err := g.get2(t, "/basic", slices.Repeat([]field{{"x-large", huge[:100]}}, 500)...)
	if err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP/2: %d, %v", status, err)
	}
	up.none(t)
	wantStatus(t, "the session from before", g.do(g.stranger(), "GET", "/secure", "", "Cookie", before.session), http.StatusOK)
}
