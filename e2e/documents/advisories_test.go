package documents

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// advisoryID is the id of an advisory.
var advisoryID = regexp.MustCompile(`CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}`)

// TestAdvisoriesListed: each row of docs/security-advisories.md names tests that
// exist. A row that names only replays has its ids in their names, and each
// replay is listed.
func TestAdvisoriesListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(world.Path("e2e/*/advisory_*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests of advisories (%v)", err)
	}
	replayed := map[string]bool{}
	for _, file := range files {
		for line := range strings.Lines(world.ReadFile(t, file)) {
			if code, _, _ := strings.Cut(strings.TrimSpace(line), "//"); code != "" {
				for _, id := range advisoryID.FindAllString(line, -1) {
					replayed[id] = true
				}
			}
		}
	}
	exists := map[string]bool{}
	for _, p := range testPackages(t) {
		for name := range p.functions {
			exists[name] = true
		}
	}
	listed := map[string]bool{}
	list, _, _ := strings.Cut(world.ReadFile(t, world.Path("docs/security-advisories.md")), "## Not replayed")
	for line := range strings.Lines(list) {
		ids := advisoryID.FindAllString(line, -1)
		if !strings.HasPrefix(line, "|") || len(ids) == 0 {
			continue
		}
		proofs, below := testName.FindAllStringSubmatch(line, -1), false
		for _, proof := range proofs {
			if !exists[proof[1]] {
				t.Errorf("%s names %s, which does not exist", ids[0], proof[1])
			}
			below = below || !strings.HasPrefix(proof[1], "TestAdvisories")
		}
		for _, id := range ids {
			if listed[id] = true; len(proofs) == 0 || !below && !replayed[id] {
				t.Errorf("%s is listed and has no test", id)
			}
		}
	}
	for id := range replayed {
		if !listed[id] {
			t.Errorf("%s has a test and is not listed", id)
		}
	}
}
