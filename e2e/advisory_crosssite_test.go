package e2e

import (
	"strings"
	"testing"
)

// TestAdvisoriesCrossSite: the gateway's host over http is another site. The tests
// of package gateway have all other sites.
func TestAdvisoriesCrossSite(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /, upstream: app, auth: [session]}]\n")
	c := g.stranger()
	session := g.signIn(c, "alice").session
	t.Run("CVE-2025-47909 gorilla/csrf, the same host by http", func(t *testing.T) {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			for _, site := range [][]string{nil, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}} {
				origin := strings.Replace(g.public, "https:", "http:", 1)
				g.do(c, method, "/profile", "x=y", append(site, "Origin", origin, "Cookie", session, "Content-Type", typeForm, "Referer", g.public+"/")...)
				up.none(t)
			}
		}
	})
	g.do(c, "POST", "/profile", "x=y", "Cookie", session, "Origin", g.public)
	if got := up.one(t).body; got != "x=y" {
		t.Errorf("from the same origin the upstream gets %q", got)
	}
}
