package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// advisoryID is the id of an advisory.
var advisoryID = regexp.MustCompile(`CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}`)

// TestAdvisoriesListed: docs/security-advisories.md lists exactly the ids that are
// in names of tests.
func TestAdvisoriesListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("advisory_*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests of advisories (%v)", err)
	}
	tested := map[string]bool{}
	for _, file := range files {
		for line := range strings.Lines(readFile(t, file)) {
			if code, _, _ := strings.Cut(strings.TrimSpace(line), "//"); code != "" {
				for _, id := range advisoryID.FindAllString(line, -1) {
					tested[id] = true
				}
			}
		}
	}
	listed := map[string]bool{}
	list, _, _ := strings.Cut(readFile(t, "../docs/security-advisories.md"), "## Not replayed")
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, id := range advisoryID.FindAllString(line, -1) {
			if listed[id] = true; !tested[id] {
				t.Errorf("%s is listed and has no test", id)
			}
		}
	}
	for id := range tested {
		if !listed[id] {
			t.Errorf("%s has a test and is not listed", id)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
