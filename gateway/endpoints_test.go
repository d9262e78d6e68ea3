package gateway

import (
	"fmt"
	"strings"
	"testing"
)

// A page load without credentials is redirected to the sign-in page if the route says
// so, with the path to return to. TestDeadCookies has credentials that are not valid.
func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	const script, navigation = "Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: navigate"
	for _, c := range []struct {
		says, auth, method string
		header             []string
		status             int
	}{
		{"auto", "session", "GET", []string{browser}, 302},
		{"auto", "session", "GET", []string{browser, navigation}, 302},
		{"auto", "session", "GET", []string{browser, script}, 401},
		{"auto", "session", "GET", nil, 401},
		{"auto", "session", "HEAD", []string{browser}, 302},
		{"auto", "session", "POST", []string{browser}, 401},
		{"auto", "session, bearer, basic", "GET", []string{browser}, 302},
		{"auto", "bearer", "GET", []string{browser}, 401},
		{"auto", "basic", "GET", []string{browser}, 401},
		{"auto", "session, bearer", "GET", []string{browser, "Authorization: Bearer x"}, 401},
		{"challenge", "session", "GET", []string{browser}, 401},
		{"redirect", "session", "GET", []string{"Accept: application/json", script}, 302},
		{"redirect", "session", "HEAD", nil, 302},
		{"redirect", "session", "POST", nil, 401},
		{"redirect", "session", "OPTIONS", []string{browser}, 401},
	} {
		r := newRig(t, baseConfig+
			fmt.Sprintf("  - {match: /r/, upstream: app, auth: [%s], unauthenticated: %s}\n", c.auth, c.says))
		want := map[int]string{302: "/signin?return_to=%2Fr%2Fa%2520b%3Fc%3D%252F%26d"}[c.status]
		w := r.want(c.status, c.method, "/r/a%20b?c=%2F&d", "", c.header...)
		const link = `href="/signin?return_to=%2Fr%2Fa%2520b%3Fc%3D%252F%26d"`
		if c.says == "challenge" && !strings.Contains(w.Body.String(), link) {
			t.Errorf("the page of the 401 does not lead to the sign-in: %s", w.Body)
		}
		if got := w.Header().Get("Location"); got != want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s, [%s], %s %q: to %q, want %q", c.says, c.auth, c.method, c.header, got, want)
		}
	}
}
