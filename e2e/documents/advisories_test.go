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

// TestAdvisoriesListed: each row of docs/security-advisories.md leads to a row in the
// table of attacks. It names a replay if, and only if, tests have its ids in their
// names, and each replay is listed.
func TestAdvisoriesListed(t *testing.T) {
	t.Parallel()
	replayed, attacks, listed := replayedAdvisories(t), attackRows(t), map[string]bool{}
	list, _, _ := strings.Cut(world.ReadFile(t, world.Path("docs/security-advisories.md")), "## Not replayed")
	for line := range strings.Lines(list) {
		cells, ids := tableCells(line), advisoryID.FindAllString(line, -1)
		if cells == nil || len(ids) == 0 {
			continue
		}
		proof := cells[len(cells)-1]
		if len(cells) != 4 || len(testsBehind(t, attacks, proof)) == 0 {
			t.Errorf("%s leads to no row in the table of attacks", ids[0])
		}
		replays := testName.FindAllStringSubmatch(proof, -1) // TestDocsSecurity checks that they exist
		for _, replay := range replays {
			if !strings.HasPrefix(replay[1], "TestAdvisories") {
				t.Errorf("%s names %s, which belongs into the table of attacks", ids[0], replay[1])
			}
		}
		for _, id := range ids {
			if listed[id] = true; replayed[id] != (len(replays) > 0) {
				t.Errorf("%s: a test replays it: %t; it is listed with a replay: %t", id, replayed[id], len(replays) > 0)
			}
		}
	}
	for id := range replayed {
		if !listed[id] {
			t.Errorf("%s has a test and is not listed", id)
		}
	}
}

// replayedAdvisories returns the ids in the code of the tests that replay advisories.
func replayedAdvisories(t *testing.T) map[string]bool {
	t.Helper()
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
	return replayed
}
