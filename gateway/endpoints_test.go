package gateway

import (
	"fmt"
	"slices"
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
		if got := w.Header().Get("Location"); got != want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s, [%s], %s %q: to %q, want %q", c.says, c.auth, c.method, c.header, got, want)
		}
	}
}

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
		{r, "GET", "/callback?code=x&state=y", 404, `href="/signin"`}, // there is no provider
		{r, "GET", "/auth/callback", 404, `href="/signin"`},
		{delegated, "GET", "/auth/callback?state=x&code=y", 400, `href="/signin"`},
		{r, "GET", "/nowhere", 404, ""},
		{r, "GET", "/basic/", 401, ""},
		{bearerOnly, "GET", "/me", 401, ""},
	} {
		body := c.rig.want(c.status, c.method, c.target, "", browser).Body.String()
		if offers := strings.Contains(body, `href="/signin`); offers != (c.want != "") || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: want the page to have %q:\n%s", c.method, c.target, c.want, body)
		}
	}
}

// Own endpoints answer their methods, in any spelling of the path, and hide that path
// from the routes. Paths below belong to the routes.
func TestOwnEndpoints(t *testing.T) {
	t.Parallel()
	paths := map[string][]string{ // with the methods that each answers
		"login": {"GET", "HEAD", "POST"}, "logout": {"GET", "HEAD", "POST"}, "refresh": {"POST"}, "me": {"GET", "HEAD"},
		"signin": {"GET", "HEAD"}, "callback": {"GET", "HEAD"}, "auth/callback": {"GET", "HEAD"},
		".well-known/jwks.json": {"GET", "HEAD", "OPTIONS"},
	}
	for _, prefix := range []string{"/", "/auth/"} {
		r := newRig(t, baseConfig+
			"  - {match: /, name: rest, upstream: app, auth: [none]}\nendpoints: {prefix: "+prefix+"}\n")
		for path, methods := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"} {
				w := r.do(method, prefix+path, "")
				if allowed := slices.Contains(methods, method); (w.Code == 405) == allowed ||
					!allowed && w.Header().Get("Allow") != strings.Join(methods, ", ") {
					t.Errorf("%s %s%s: %d, Allow: %q, want %q", method, prefix, path, w.Code, w.Header().Get("Allow"), methods)
				}
			}
			r.want(405, "PUT", prefix+"%"+fmt.Sprintf("%x", path[0])+path[1:], "")
			if n := r.upstream.Reached(); n != 0 {
				t.Errorf("%s%s: %d requests went to the upstream", prefix, path, n)
			}
			r.want(200, "PUT", prefix+path+"/x", "")
			r.upstream.Forget()
		}
		others := []string{"/"}
		if prefix != "/" {
			others = append(others, "/login")
		}
		for _, path := range others {
			if w := r.want(200, "GET", path, ""); w.Body.String() != "hello" {
				t.Errorf("the application's own %s: %s", path, w.Body)
			}
		}
		w := r.want(200, "GET", prefix+".well-known/jwks.json", "", browser)
		if strings.TrimSpace(w.Body.String()) != `{"keys":[]}` || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("no public keys: %s %s", w.Header().Get("Content-Type"), w.Body)
		}
	}
}
