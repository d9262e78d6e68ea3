package gateway

import (
	"strings"
	"testing"
)

// The page of an error offers to sign in if that helps: for a 401, with the way
// back where there is one, and for each error of a sign-in at a provider.
func TestErrorPageOffersSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /page/, upstream: app, auth: [session], unauthenticated: challenge}\n")
	bearerOnly := newRig(t, edit(t, edit(t, baseConfig, "[session", "[bearer"), "[bearer, bearer", "[bearer"))
	delegated, _ := delegatedRig(t, "")
	for _, c := range []struct {
		rig            *rig
		method, target string
		status         int
		want           string // empty: no link
	}{
		{r, "GET", "/page/a?b", 401, `href="/signin?return_to=%2Fpage%2Fa%3Fb"`},
		{r, "POST", "/page/a", 401, `href="/signin"`},
		{r, "GET", "/me", 401, `href="/signin"`},
		{r, "GET", "/callback", 404, `href="/signin"`},
		{delegated, "GET", "/auth/callback?state=x&code=y", 400, `href="/signin"`},
		{r, "GET", "/nowhere", 404, ""},
		{r, "GET", "/basic/", 401, ""},
		{bearerOnly, "GET", "/me", 401, ""},
	} {
		w := c.rig.do(c.method, c.target, "", browser)
		body := w.Body.String()
		if offers := strings.Contains(body, `href="/signin`); w.Code != c.status || offers != (c.want != "") || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d, want %d with %q:\n%s", c.method, c.target, w.Code, c.status, c.want, body)
		}
	}
}
