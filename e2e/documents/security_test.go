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

// TestDocsSecurity checks that each test that a document names exists, and that
// security/sign-in.md lists each fuzz target.
func TestDocsSecurity(t *testing.T) {
	t.Parallel()
	tests := map[string][]*testPackage{} // by the names of the tests
	for _, p := range testPackages(t) {
		for name := range p.functions {
			tests[name] = append(tests[name], p)
		}
	}
	for name, doc := range world.Documents(t) {
		for _, found := range testName.FindAllStringSubmatch(doc.Text, -1) {
			shows := func(p *testPackage) bool { return found[2] == "" || strings.Contains(p.tests, strconv.Quote(found[2])) }
			if !slices.ContainsFunc(tests[found[1]], shows) {
				t.Errorf("%s names %s, which does not exist", name, found[0])
			}
		}
	}
	_, targets, _ := strings.Cut(world.ReadFile(t, world.Path("docs/security/sign-in.md")), "\n## Fuzz targets\n")
	for name := range tests {
		if strings.HasPrefix(name, "Fuzz") && !strings.Contains(targets, "`"+name+"`") {
			t.Errorf("docs/security/sign-in.md does not list the fuzz target %s", name)
		}
	}
}

// attackCell is the first cell of a row in the table of attacks: the target of links, and
// the id of the row, a letter for the table and a number.
var attackCell = regexp.MustCompile(`^<a id="([a-z]\d+)"></a>([A-Z])(\d+)$`)

// attackPages are the pages below docs with the tables of attacks.
var attackPages = []string{"security.md", "security/requests.md", "security/sign-in.md"}

// attack is a row in the tables of attacks.
type attack struct {
	page  string // one of attackPages
	tests []string
}

// maxAttackWords is how long a row can be, without its tests.
const maxAttackWords = 36

// attackRows returns the rows in the tables of attacks, by their ids.
func attackRows(t *testing.T) map[string]attack {
	t.Helper()
	rows, tableOf, table := map[string]attack{}, map[string]int{}, 0
	for _, page := range attackPages {
		inTable := false
		for line := range strings.Lines(world.ReadFile(t, world.Path("docs/"+page))) {
			cells := tableCells(line)
			if strings.HasPrefix(line, "| Row ") {
				inTable = true
				table++
			} else if inTable = inTable && strings.HasPrefix(line, "|"); inTable && cells != nil {
				id, tests := attackOf(t, page, cells)
				if letter := id[:1]; tableOf[letter] == 0 {
					tableOf[letter] = table
				}
				if rows[id].tests != nil || tableOf[id[:1]] != table {
					t.Errorf("docs/%s: %s is there twice, or in the table of another letter", page, id)
				}
				rows[id] = attack{page, tests}
			}
		}
	}
	return rows
}

// attackOf returns the id and the tests of a row.
func attackOf(t *testing.T, page string, cells []string) (id string, tests []string) {
	t.Helper()
	found := attackCell.FindStringSubmatch(cells[0])
	if found == nil || found[1] != strings.ToLower(found[2]+found[3]) || len(cells) != 4 {
		t.Fatalf("docs/%s: %q is not the id of a row with four cells", page, cells[0])
	}
	if words := len(strings.Fields(cells[1] + " " + cells[2])); words > maxAttackWords {
		t.Errorf("docs/%s: %s has %d words, want at most %d", page, cells[0], words, maxAttackWords)
	}
	for _, test := range testName.FindAllStringSubmatch(cells[3], -1) {
		tests = append(tests, test[1])
	}
	if len(tests) == 0 {
		t.Errorf("docs/%s: %s has no test", page, cells[0])
	}
	return found[2] + found[3], tests
}

// tableCells returns the cells of a row in a table, or nil for another line.
func tableCells(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "| ") {
		return nil
	}
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
}

// TestDocsAttacks checks that each row in the tables of attacks has an id of its own and a
// test that proves the defence, and that rows are short.
func TestDocsAttacks(t *testing.T) {
	t.Parallel()
	if len(attackRows(t)) == 0 {
		t.Error("there is no table of attacks")
	}
}

var attackLink = regexp.MustCompile(`\[([A-Z]\d+)\]\(([a-z/-]+\.md)#([a-z]\d+)\)`)

// testsBehind returns the tests of the rows in the tables of attacks to which text refers.
// It reports a reference that leads to no row, or to another row than it says.
func testsBehind(t *testing.T, rows map[string]attack, text string) (tests []string) {
	t.Helper()
	for _, found := range attackLink.FindAllStringSubmatch(text, -1) {
		if row := rows[found[1]]; row.page != found[2] || strings.ToLower(found[1]) != found[3] {
			t.Errorf("%s leads to no row in the tables of attacks", found[0])
		}
		tests = append(tests, rows[found[1]].tests...)
	}
	return tests
}

// TestDocsThreatModel checks that threat-model.md asks all six questions of STRIDE at each
// flow of data, and that each threat leads to a row in the tables of attacks, or is accepted.
func TestDocsThreatModel(t *testing.T) {
	t.Parallel()
	attacks := attackRows(t)
	flows := strings.Split(world.ReadFile(t, world.Path("docs/threat-model.md")), "\n## ")[1:]
	flows = slices.DeleteFunc(flows, func(section string) bool {
		return !regexp.MustCompile(`^\d+\. `).MatchString(section)
	})
	if len(flows) != 10 {
		t.Errorf("docs/threat-model.md has %d flows of data, want 10", len(flows))
	}
	for _, flow := range flows {
		title, table, _ := strings.Cut(flow, "\n")
		asked := ""
		for _, row := range regexp.MustCompile(`(?m)^\| ([STRIDE]) \| (.+) \| (.+) \|$`).FindAllStringSubmatch(table, -1) {
			accepted := regexp.MustCompile(`(?:^|\. )[Aa]ccepted`).MatchString(row[3])
			if asked += row[1]; len(testsBehind(t, attacks, row[3])) == 0 && !accepted {
				t.Errorf("docs/threat-model.md, %s: neither proved nor accepted: %s", title, row[2])
			}
		}
		if rows := strings.Count(table, "\n| ") - 1; rows != len(asked) || strings.Trim("STRIDE", asked) != "" {
			t.Errorf("docs/threat-model.md, %s: %d rows, of which %s ask a question of STRIDE; want all, and each question",
				title, rows, asked)
		}
	}
}
