package endpoint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// The page of an error of an own endpoint offers to sign in if that helps: for a 401, and for each
// error of a sign-in at a provider.
func TestErrorPageOffersSignIn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	bearerOnly := rig.New(t, rig.Edit(t, rig.Edit(t, rig.Base, "[session", "[bearer"), "[bearer, bearer", "[bearer"))
	delegated, _ := rig.Delegated(t, "")
	for _, c := range []struct {
		rig            *rig.Rig
		method, target string
		status         int
		want           string // empty: no link
	}{
		{r, "GET", "/me", 401, `href="/signin"`},
		{r, "GET", "/callback?code=x&state=y", 404, `href="/signin"`}, // there is no provider
		{r, "GET", "/auth/callback", 404, `href="/signin"`},
		{delegated, "GET", "/auth/callback?state=x&code=y", 400, `href="/signin"`},
		{r, "GET", "/nowhere", 404, ""},
		{bearerOnly, "GET", "/me", 401, ""},
	} {
		body := c.rig.Want(c.status, c.method, c.target, "", rig.Browser).Body.String()
		if offers := strings.Contains(body, `href="/signin`); offers != (c.want != "") || !strings.Contains(body,
			c.want) {
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
		r := rig.New(t, rig.Base+
			"  - {match: /, name: rest, upstream: app, auth: [none]}\nendpoints: {prefix: "+prefix+"}\n")
		for path, methods := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"} {
				before := r.Reached()
				w := r.Do(method, prefix+path, "")
				if r.Reached() != before {
					t.Errorf("%s %s%s reaches the application", method, prefix, path)
				}
				if allowed := slices.Contains(methods, method); (w.Code == 405) == allowed ||
					!allowed && w.Header().Get("Allow") != strings.Join(methods, ", ") {
					t.Errorf("%s %s%s: %d, Allow: %q, want %q", method, prefix, path, w.Code, w.Header().Get("Allow"),
						methods)
				}
			}
			r.Want(405, "PUT", prefix+"%"+fmt.Sprintf("%x", path[0])+path[1:], "")
			r.Want(200, "PUT", prefix+path+"/x", "")
		}
		others := []string{"/"}
		if prefix != "/" {
			others = append(others, "/login")
		}
		for _, path := range others {
			if w := r.Want(200, "GET", path, ""); w.Body.String() != "hello" {
				t.Errorf("the application's own %s: %s", path, w.Body)
			}
		}
		w := r.Want(200, "GET", prefix+".well-known/jwks.json", "", rig.Browser)
		if strings.TrimSpace(w.Body.String()) != `{"keys":[]}` || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("no public keys: %s %s", w.Header().Get("Content-Type"), w.Body)
		}
	}
}
