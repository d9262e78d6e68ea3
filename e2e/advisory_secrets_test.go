package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestAdvisoriesSecrets: what is for operators is not on the listener for clients, and
// no page shows a token.
func TestAdvisoriesSecrets(t *testing.T) {
	t.Parallel()
	g := start(t, people+app(record(t).url)+"routes: [{match: /secure/, upstream: app, auth: [session, bearer]}]\n")
	c := g.stranger()
	s := g.signIn(c, "alice")
	t.Run("CVE-2022-24797 Pomerium, metrics and pprof", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/vars", "/healthz", "/readyz", "/config", "/ping"} {
			for _, headers := range [][]string{nil, {"Authorization", s.access}, {"Cookie", s.session}} {
				a := g.do(c, "GET", path, "", headers...)
				if a.status == http.StatusOK || strings.Contains(a.body, "authgate_") || strings.Contains(a.body, "goroutine ") {
					t.Errorf("%s: %d %.200s", path, a.status, a.body)
				}
			}
		}
	})
	t.Run("CVE-2024-39315 Pomerium, tokens on the page of the account", func(t *testing.T) {
		for _, headers := range [][]string{{"Authorization", s.access}, {"Cookie", s.session}} {
			page := g.do(c, "GET", "/me", "", append(headers, "Accept", "text/html")...).body
			for _, secret := range []string{strings.TrimPrefix(s.session, "session_id="), strings.TrimPrefix(s.access, "Bearer "), s.refresh} {
				if !strings.Contains(page, "Alice Example") || strings.Contains(page, secret) {
					t.Errorf("with %s, the page is not about alice, or shows a secret:\n%s", headers[0], page)
				}
			}
		}
	})
}
