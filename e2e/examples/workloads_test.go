package examples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

const workloadsPage = "docs/how-to/workloads.md"

// TestDocsWorkloads runs the step of the job on the page, with its configuration, after the commands by which the job
// trusts the gateway's authority. The job reaches the application
// as its client; a job of another repository, branch or event gets no token.
func TestDocsWorkloads(t *testing.T) {
	t.Parallel()
	const documented = "https://login.example.org"
	platform, up, g := world.StartPlatform(t), world.Record(t), world.Prepare(t)
	g.Configure(jobConfiguration(t, platform.URL, up.URL))
	g.Run()
	workflow := world.DecodeYAML(t, world.DocumentedFile(t, workloadsPage, "deploy.yml"))
	job := workflow["jobs"].(map[string]any)["deploy"].(map[string]any)
	step := trustOfThePage(t) +
		world.Substituted(t, job["steps"].([]any)[0].(map[string]any)["run"].(string), documented, g.Base)
	for _, c := range []struct {
		repository, ref, event string
		in                     bool
	}{
		{"1296269", "refs/heads/main", "push", true},
		{"1296270", "refs/heads/main", "push", false},
		{"1296269", "refs/heads/other", "push", false},
		{"1296269", "refs/heads/main", "pull_request_target", false},
	} {
		before := len(up.All())
		tokens := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer runner" {
				http.Error(w, "who asks?", http.StatusUnauthorized)
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]string{"value": platform.Sign("JWT", map[string]any{
				"aud": r.FormValue("audience"), "sub": "job", "repository_id": c.repository, "ref": c.ref, "event_name": c.event,
			})})
		})
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", step)
		cmd.Dir = t.TempDir()
		world.WriteAll(t, cmd.Dir, map[string]string{"gateway-ca.pem": world.ReadFile(t, filepath.Join(g.Dir, g.CA))})
		cmd.Env = append(os.Environ(), "ACTIONS_ID_TOKEN_REQUEST_TOKEN=runner",
			"ACTIONS_ID_TOKEN_REQUEST_URL="+tokens+"/?api-version=2.0")
		out, err := cmd.CombinedOutput()
		reached := up.All()[before:]
		switch {
		case !c.in && (err == nil || len(reached) > 0 || !strings.Contains(string(out), "400")):
			t.Errorf("%v gets in: %v, %d requests\n%s", c, err, len(reached), out)
		case c.in && (err != nil || len(reached) != 1):
			t.Errorf("%v: %v, %d requests\n%s", c, err, len(reached), out)
		case c.in:
			if user := reached[0].Value(t, "X-Auth-User"); user != "client:deploy" || reached[0].Target() != "/deployments" {
				t.Errorf("%s reaches %s", user, reached[0].Target())
			}
		}
	}
}

// trustOfThePage returns the commands of the page by which a program trusts a private authority.
func trustOfThePage(t *testing.T) string {
	t.Helper()
	for _, b := range world.ReadDocument(t, workloadsPage).Blocks {
		if b.Info == "sh" && strings.Contains(b.Text(), "CURL_CA_BUNDLE") {
			return b.Text()
		}
	}
	t.Fatalf("%s does not show how a program trusts the gateway", workloadsPage)
	return ""
}

// jobConfiguration is the page's configuration for a job, with an issuer and an upstream of the test.
func jobConfiguration(t *testing.T, issuer, upstream string) string {
	t.Helper()
	for _, b := range world.ReadDocument(t, workloadsPage).Blocks {
		if b.Info == "yaml fragment" {
			return world.Substituted(t, b.Text(), "https://token.actions.githubusercontent.com", issuer) +
				fmt.Sprintf("upstreams: {app: {url: %q}}\npolicies: {staff: {roles: [staff]}}\n", upstream)
		}
	}
	t.Fatalf("%s shows no configuration", workloadsPage)
	return ""
}
