package wire

import (
	"testing"

	"authgate/e2e/world"
)

// TestAdvisoriesSession: signing out ends all credentials of a login, which were in
// use until then.
func TestAdvisoriesSession(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"routes: [{match: /secure, upstream: app, auth: "+
		"[session, bearer]}]\n")
	c := g.Stranger()
	t.Run("CVE-2024-21492 caddy-security, CVE-2025-53826 File Browser, alive after signing out", func(t *testing.T) {
		for _, by := range []struct{ method, header string }{{"POST", "Cookie"}, {"POST", "Authorization"},
			{"GET", "Cookie"}} {
			s := g.SignIn(c, "alice")
			credential := map[string]string{"Cookie": s.Session, "Authorization": s.Access}
			for header, value := range credential { // fill the caches
				g.Do(c, "GET", "/secure", "", header, value)
				up.One(t)
			}
			g.Do(c, by.method, "/logout", "", by.header, credential[by.header])
			world.WantDead(t, g, up, s)
		}
	})
}
