package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestAdvisoriesSession: signing out ends all credentials of a login, which were in
// use until then.
func TestAdvisoriesSession(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n")
	c := g.stranger()
	t.Run("CVE-2024-21492 caddy-security, CVE-2025-53826 File Browser, alive after signing out", func(t *testing.T) {
		for _, by := range []struct{ method, header string }{{"POST", "Cookie"}, {"POST", "Authorization"}, {"GET", "Cookie"}} {
			s := g.signIn(c, "alice")
			credential := map[string]string{"Cookie": s.session, "Authorization": s.access}
			for header, value := range credential { // fill the caches
				g.do(c, "GET", "/secure", "", header, value)
				up.one(t)
			}
			g.do(c, by.method, "/logout", "", by.header, credential[by.header])
			wantDead(t, g, up, s)
		}
	})
}

// wantDead fails the test if a credential of the login is valid.
func wantDead(t *testing.T, g *instance, up *recorder, s signIn) {
	t.Helper()
	up.all()
	c := g.stranger()
	for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
		g.do(c, "GET", "/secure", "", credential...)
		up.none(t)
		if a := g.do(c, "GET", "/me", "", credential...); strings.Contains(a.body, "alice") {
			t.Errorf("with %s the session is valid: %s", credential[0], a.body)
		}
	}
	if next, status, err := g.tryRefresh(c, s.refresh); err != nil || status == http.StatusOK {
		t.Errorf("the refresh token gives %d, %v, %t", status, err, next.access != "")
	}
}
