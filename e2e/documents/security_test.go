package documents

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// testPackage is the Go files of one folder.
type testPackage struct {
	product, tests string
	functions      map[string]bool // the tests and fuzz targets
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)

// testPackages reads all Go files of both modules, by their folders from the top of
// the repository.
func testPackages(t *testing.T) map[string]*testPackage {
	t.Helper()
	all := map[string]*testPackage{}
	top := world.Path("")
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && path != top):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		source := world.ReadFile(t, path) + "\n"
		dir = filepath.ToSlash(dir)
		if all[dir] == nil {
			all[dir] = &testPackage{functions: map[string]bool{}}
		}
		if !strings.HasSuffix(path, "_test.go") {
			all[dir].product += source
			return nil
		}
		all[dir].tests += source
		for _, found := range testFunction.FindAllStringSubmatch(source, -1) {
			all[dir].functions[found[1]] = true
		}
		return nil
	})
	world.NoError(t, err)
	return all
}

// testName is a test, or a subtest of it, as documents name them.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)(?:/([^`]+))?`")

// TestDocsSecurity checks that each test that a document names exists, that
// security.md has eleven classes of attacks and a test for each attack, and that it
// lists each fuzz target.
func TestDocsSecurity(t *testing.T) {
	t.Parallel()
	tests := map[string][]*testPackage{} // by the names of the tests
	for _, p := range testPackages(t) {
		for name := range p.functions {
			tests[name] = append(tests[name], p)
		}
	}
	for name, doc := range documents(t) {
		for _, found := range testName.FindAllStringSubmatch(doc.Text, -1) {
			shows := func(p *testPackage) bool { return found[2] == "" || strings.Contains(p.tests, strconv.Quote(found[2])) }
			if !slices.ContainsFunc(tests[found[1]], shows) {
				t.Errorf("%s names %s, which does not exist", name, found[0])
			}
		}
	}
	text := world.ReadFile(t, world.Path("docs/security.md"))
	classes, _, _ := strings.Cut(text, "\n## What is bounded\n")
	if numbers := regexp.MustCompile(`(?m)^## \d+\. `).FindAllString(classes, -1); len(numbers) != 11 || numbers[10] != "## 11. " {
		t.Errorf("docs/security.md has the classes of attacks %q, want 11", numbers)
	}
	for line := range strings.Lines(classes) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| Attack ") && (len(cells) != 3 || !testName.MatchString(cells[2])) {
			t.Errorf("docs/security.md: no test proves %s", strings.TrimSpace(line))
		}
	}
	_, targets, _ := strings.Cut(text, "\n## Fuzz targets\n")
	for name := range tests {
		if strings.HasPrefix(name, "Fuzz") && !strings.Contains(targets, "`"+name+"`") {
			t.Errorf("docs/security.md does not list the fuzz target %s", name)
		}
	}
}

// TestDocsThreatModel checks that threat-model.md asks all six questions of STRIDE at each
// flow of data, and that a test proves each defence, or the threat is accepted.
func TestDocsThreatModel(t *testing.T) {
	t.Parallel()
	flows := strings.Split(world.ReadFile(t, world.Path("docs/threat-model.md")), "\n## ")[1:]
	flows = slices.DeleteFunc(flows, func(section string) bool { return !regexp.MustCompile(`^\d+\. `).MatchString(section) })
	if len(flows) != 10 {
		t.Errorf("docs/threat-model.md has %d flows of data, want 10", len(flows))
	}
	for _, flow := range flows {
		title, table, _ := strings.Cut(flow, "\n")
		asked := ""
		for _, row := range regexp.MustCompile(`(?m)^\| ([STRIDE]) \| (.+) \| (.+) \| (.*) ?\|$`).FindAllStringSubmatch(table, -1) {
			if asked += row[1]; !testName.MatchString(row[4]) && !strings.Contains(strings.ToLower(row[3]), "accepted") {
				t.Errorf("docs/threat-model.md, %s: neither proved nor accepted: %s", title, row[2])
			}
		}
		if rows := strings.Count(table, "\n| ") - 1; rows != len(asked) || strings.Trim("STRIDE", asked) != "" {
			t.Errorf("docs/threat-model.md, %s: %d rows, of which %s ask a question of STRIDE; want all, and each question", title, rows, asked)
		}
	}
}
