package documents

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestLockFiles checks that what the tests install from npm and PyPI is fixed by its
// contents, not by its name alone. Go checks go.sum itself.
func TestLockFiles(t *testing.T) {
	t.Parallel()
	deps := world.ReadFile(t, world.Path(".ci/deps"))
	for _, command := range []string{"npm ci ", "--require-hashes "} {
		if !strings.Contains(deps, command) {
			t.Errorf(".ci/deps does not use %s", command)
		}
	}
	locks := world.Must(filepath.Glob(world.Path("e2e/*/package-lock.json")))(t)
	if len(locks) == 0 {
		t.Error("there are no lock files of npm")
	}
	for _, file := range locks {
		var lock struct {
			Packages map[string]struct{ Integrity string }
		}
		world.NoError(t, json.Unmarshal([]byte(world.ReadFile(t, file)), &lock))
		for name, p := range lock.Packages {
			if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
				t.Errorf("%s: %s has the integrity %q, want a SHA-512", file, name, p.Integrity)
			}
		}
	}
	lists := world.Must(filepath.Glob(world.Path("e2e/*/requirements.txt")))(t)
	if len(lists) == 0 {
		t.Error("there are no lists of packages from PyPI")
	}
	for _, file := range lists {
		for line := range strings.Lines(strings.ReplaceAll(world.ReadFile(t, file), "\\\n", "")) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.Contains(line, "--hash=sha256:") {
				t.Errorf("%s: %s has no hash", file, line)
			}
		}
	}
}
