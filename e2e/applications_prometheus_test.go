package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startPrometheus starts Prometheus for a URL at the gateway, and returns its address.
// It watches itself.
func startPrometheus(t *testing.T, external, prefix string) string {
	t.Helper()
	dir, address := t.TempDir(), freeAddress(t)
	writeAll(t, dir, map[string]string{
		"prometheus.yml": "scrape_configs: [{job_name: itself, scrape_interval: 1s, metrics_path: '" + prefix + "metrics', static_configs: [{targets: ['" + address + "']}]}]\n",
	})
	launch(t, "http://"+address+prefix+"-/ready", exec.Command(program(t, "prometheus"),
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--web.external-url="+external))
	return address
}

// TestPrometheus: a user reads the pages and the API of Prometheus, below a path and at a
// host of its own, and Prometheus gets the user's name.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct{ upstream, host, prefix string }{
		"below a path": {"prometheus", "localhost", "/prometheus/"},
		"at its host":  {"prometheus-host", "prometheus.example.org", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := prepared(t)
			base := strings.Replace(g.base, "localhost", at.host, 1) + at.prefix
			up := tapped(t, startPrometheus(t, base, at.prefix))
			g.configure(people + documentedApp(t, at.upstream, up.url))
			g.run()
			v := newSurfer(t, "127.0.0.1", authority(g.base), g.tls().RootCAs)
			a, place := v.signIn(base, "alice")
			if a.status != http.StatusOK || !strings.HasPrefix(place.String(), base) || !strings.HasSuffix(place.Path, "/graph") || !strings.Contains(a.body, "<title>Prometheus") {
				t.Fatalf("the page of Prometheus: %d at %s\n%.500s", a.status, place, a.body)
			}
			const query = "query=vector(6)*7"
			for what, get := range map[string]func() (answer, string){
				"GET": func() (answer, string) { a, _ := v.visit("GET", base+"api/v1/query?"+query, ""); return a, "" },
				"POST": func() (answer, string) {
					a, _ := v.visit("POST", base+"api/v1/query", query, "Content-Type", "application/x-www-form-urlencoded",
						"Origin", strings.TrimSuffix(strings.TrimSuffix(base, at.prefix), "/"), "Sec-Fetch-Site", "same-origin")
					return a, ""
				},
			} {
				if a, _ := get(); a.status != http.StatusOK || !strings.Contains(a.body, `"42"`) {
					t.Errorf("%s: a query: %d %s", what, a.status, a.body)
				}
			}
			until(t, "what Prometheus measures of itself", func() bool {
				a, _ := v.visit("GET", base+"api/v1/query?query=up", "")
				return a.status == http.StatusOK && strings.Contains(a.body, `"1"`)
			})
			up.wantUser(t, "alice", "session_id=")
			stranger, _ := newSurfer(t, "127.0.0.1", authority(g.base), g.tls().RootCAs).visit("GET", base+"api/v1/query?query=stranger", "")
			wantStatus(t, "without a login", stranger, http.StatusUnauthorized)
			if up.has("query=stranger") {
				t.Error("a request without a login reached Prometheus")
			}
		})
	}
}
