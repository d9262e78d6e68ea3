package wire

import (
	"net/http"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestAdvisoriesSecrets: what is for operators is not on the listener for clients, and
// no page shows a token.
func TestAdvisoriesSecrets(t *testing.T) {
	t.Parallel()
	g := world.Start(t, world.People+world.App(world.Record(t).URL)+"routes: [{match: /secure/, upstream: app, auth: "+
		"[session, bearer]}]\n")
	c := g.Stranger()
	s := g.SignIn(c, "alice")
	t.Run("CVE-2022-24797 Pomerium, metrics and pprof", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/vars",
			"/healthz", "/readyz", "/config", "/ping"} {
			for _, headers := range [][]string{nil, {"Authorization", s.Access}, {"Cookie", s.Session}} {
				a := g.Do(c, "GET", path, "", headers...)
				if a.Status == http.StatusOK || strings.Contains(a.Body, "authgate_") || strings.Contains(a.Body, "goroutine ") {
					t.Errorf("%s: %d %.200s", path, a.Status, a.Body)
				}
			}
		}
	})
	t.Run("CVE-2024-39315 Pomerium, tokens on the page of the account", func(t *testing.T) {
		for _, headers := range [][]string{{"Authorization", s.Access}, {"Cookie", s.Session}} {
			page := g.Do(c, "GET", "/me", "", append(headers, "Accept", "text/html")...).Body
			for _, secret := range []string{strings.TrimPrefix(s.Session, "session_id="),
				strings.TrimPrefix(s.Access, "Bearer "), s.Refresh} {
				if !strings.Contains(page, "Alice Example") || strings.Contains(page, secret) {
					t.Errorf("with %s, the page is not about alice, or shows a secret:\n%s", headers[0], page)
				}
			}
		}
	})
}
