package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestAdvisoriesSecrets: what is for operators is not on the listener for clients.
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
}
