package apps

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// startPrometheus starts Prometheus for a URL at the gateway, and returns its address.
// It watches itself.
func startPrometheus(t *testing.T, external, prefix string) string {
	t.Helper()
	dir, address := t.TempDir(), world.FreeAddress(t)
	world.WriteAll(t, dir, map[string]string{
		"prometheus.yml": "scrape_configs: [{job_name: itself, scrape_interval: 1s, metrics_path: " +
			"'" + prefix + "metrics', static_configs: [{targets: ['" + address + "']}]}]\n",
	})
	world.Launch(t, "http://"+address+prefix+"-/ready", exec.Command(world.FindProgram(t, "prometheus"),
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--web.external-url="+external))
	return address
}

// TestPrometheus: a user reads the pages and the API of Prometheus, below a path and at a
// host of its own, and Prometheus gets the user's name.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct{ upstream, host, prefix string }{
		"below a path": {"prometheus", "tools.example.org", "/prometheus/"},
		"at its host":  {"prometheus-host", "prometheus.example.org", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := world.Prepare(t)
			base := strings.Replace(g.Base, "localhost", at.host, 1) + at.prefix
			up := world.StartTap(t, startPrometheus(t, base, at.prefix))
			g.Configure(world.People + world.DocumentedApp(t, "prometheus.md", at.upstream, up.URL))
			g.Run()
			v := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
			a, place := v.SignIn(base, "alice")
			if a.Status != http.StatusOK || !strings.HasPrefix(place.String(), base) ||
				!strings.HasSuffix(place.Path, "/graph") || !strings.Contains(a.Body, "<title>Prometheus") {
				t.Fatalf("the page of Prometheus: %d at %s\n%.500s", a.Status, place, a.Body)
			}
			const query = "query=vector(6)*7"
			for what, get := range map[string]func() (world.Answer, string){
				"GET": func() (world.Answer, string) { a, _ := v.Visit("GET", base+"api/v1/query?"+query, ""); return a, "" },
				"POST": func() (world.Answer, string) {
					a, _ := v.Visit("POST", base+"api/v1/query", query, "Content-Type", "application/x-www-form-urlencoded",
						"Origin", strings.TrimSuffix(strings.TrimSuffix(base, at.prefix), "/"), "Sec-Fetch-Site", "same-origin")
					return a, ""
				},
			} {
				if a, _ := get(); a.Status != http.StatusOK || !strings.Contains(a.Body, `"42"`) {
					t.Errorf("%s: a query: %d %s", what, a.Status, a.Body)
				}
			}
			world.Until(t, "what Prometheus measures of itself", func() bool {
				a, _ := v.Visit("GET", base+"api/v1/query?query=up", "")
				return a.Status == http.StatusOK && strings.Contains(a.Body, `"1"`)
			})
			up.WantUser(t, "alice", "session_id=")
			stranger, _ := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs).Visit("GET",
				base+"api/v1/query?query=stranger", "")
			world.WantStatus(t, "without a login", stranger, http.StatusUnauthorized)
			if up.Has("query=stranger") {
				t.Error("a request without a login reached Prometheus")
			}
		})
	}
}
