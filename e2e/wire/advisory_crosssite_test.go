package wire

import (
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestAdvisoriesCrossSite: the gateway's host over http is another site. The tests
// of package gateway have all other sites.
func TestAdvisoriesCrossSite(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"routes: [{match: /, upstream: app, auth: [session]}]\n")
	c := g.Stranger()
	session := g.SignIn(c, "alice").Session
	t.Run("CVE-2025-47909 gorilla/csrf, the same host by http", func(t *testing.T) {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			for _, site := range [][]string{nil, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}} {
				origin := strings.Replace(g.Public, "https:", "http:", 1)
				g.Do(c, method, "/profile", "x=y", append(site, "Origin", origin, "Cookie", session, "Content-Type", world.TypeForm, "Referer", g.Public+"/")...)
				up.None(t)
			}
		}
	})
	g.Do(c, "POST", "/profile", "x=y", "Cookie", session, "Origin", g.Public)
	if got := up.One(t).Body; got != "x=y" {
		t.Errorf("from the same origin the upstream gets %q", got)
	}
}
