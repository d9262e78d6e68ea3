package documents

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// The pages of applications have one form, and applicationsTable has a row for each of
// them, which says whether the application was run.
const (
	applicationsTable  = "docs/applications/README.md"
	fewestApplications = 30
	notRun             = "not run"
)

// applicationForm is the headings of each page, in their order.
var applicationForm = []string{"Configuration", "Apps and programs", "Who the user is", "Known not to work", "Run"}

// ranWith matches what a row says of an application that was run: the test, and a row of
// docs/interop.md with its version.
var ranWith = regexp.MustCompile("^`(Test\\w+)(?:/(\\w+))?`: (.+) (\\S+)$")

func TestDocsApplications(t *testing.T) {
	t.Parallel()
	docs, rows := world.Documents(t), map[string]string{}
	for line := range strings.Lines(docs[applicationsTable].Prose) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if page := link.FindStringSubmatch(cells[0]); page != nil && len(cells) == 4 {
			rows["docs/applications/"+page[1]] = cells[3]
		}
	}
	if len(rows) < fewestApplications {
		t.Errorf("%s has %d applications, fewer than %d", applicationsTable, len(rows), fewestApplications)
	}
	packages := testPackages(t)
	for name, doc := range docs {
		if path.Dir(name) != "docs/applications" || name == applicationsTable {
			continue
		}
		for _, problem := range applicationProblems(t, doc, rows[name]) {
			t.Errorf("%s: %s", name, problem)
		}
		if problem := runProblem(rows[name], packages, docs["docs/interop.md"].Text); problem != "" {
			t.Errorf("%s: the row of %s: %s", applicationsTable, name, problem)
		}
	}
}

// applicationProblems returns what is wrong with the page of an application, whose row
// says how it was run.
func applicationProblems(t *testing.T, doc *world.Document, row string) (all []string) {
	t.Helper()
	var headings []string
	for _, found := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(doc.Prose, -1) {
		headings = append(headings, found[1])
	}
	if !slices.Equal(headings, applicationForm) {
		all = append(all, "the headings are "+strings.Join(headings, ", "))
	}
	_, run, _ := strings.Cut(doc.Prose, "\n## Run\n\n")
	if row == notRun && !strings.HasPrefix(run, "Not run.") ||
		row != notRun && (row == "" || !strings.HasPrefix(run, row)) {
		all = append(all, "the table says "+row+", and the page "+strings.TrimSpace(run))
	}
	fragments := 0
	for _, b := range doc.Blocks {
		if b.Info != "yaml fragment" {
			continue
		}
		fragments++
		config := world.DecodeYAML(t, b.Text())
		endpoints, _ := config["endpoints"].(map[string]any)
		if endpoints["prefix"] != "/.authgate/" {
			all = append(all, "a configuration without endpoints.prefix: /.authgate/")
		}
		routes, _ := config["routes"].([]any)
		for _, route := range routes {
			match, _ := route.(map[string]any)["match"].(string)
			if place := match[strings.LastIndex(match, " ")+1:]; strings.HasPrefix(place, "/") {
				all = append(all, "the route "+match+" has no host")
			}
		}
	}
	if fragments == 0 {
		all = append(all, "there is no configuration")
	}
	return all
}

// runProblem returns what is wrong with what a row says of how its application was run, or "".
func runProblem(row string, packages map[string]*testPackage, interop string) string {
	if row == notRun {
		return ""
	}
	found := ranWith.FindStringSubmatch(row)
	if found == nil {
		return "it is neither a test with a program and its version, nor " + notRun
	}
	test, subtest, program, version := found[1], found[2], found[3], found[4]
	exists := false
	for _, p := range packages {
		exists = exists || p.functions[test] && strings.Contains(p.tests, subtest)
	}
	if !exists {
		return "there is no test " + test
	}
	passed := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(program+" | "+version) + ` \|.*\| passed \|`)
	if !passed.MatchString(interop) {
		return "docs/interop.md has no " + program + " of the version " + version + " that passed"
	}
	return ""
}

// TestDocsApplicationProblems checks that a page cannot leave out a part, nor a row claim
// a run that there was not.
func TestDocsApplicationProblems(t *testing.T) {
	t.Parallel()
	const page = "# Wiki\n\n## Configuration\n\n```yaml fragment\nendpoints: {prefix: /.authgate/}\n" +
		"routes: [{match: GET wiki.example.org/}]\n```\n\n## Apps and programs\n\n## Who the user is\n\n" +
		"## Known not to work\n\n## Run\n\nNot run.\n"
	for _, c := range []struct{ from, to, row, want string }{
		{"", "", notRun, ""},
		{"Not run.", "`TestWiki`: Wiki 1.0, in a browser.", "`TestWiki`: Wiki 1.0", ""},
		{"", "", "`TestWiki`: Wiki 1.0", "the table says `TestWiki`: Wiki 1.0, and the page Not run."},
		{"", "", "", "the table says , and the page Not run."},
		{"## Who the user is\n\n", "", notRun, "the headings are Configuration, Apps and programs, " +
			"Known not to work, Run"},
		{"wiki.example.org/", "/wiki/", notRun, "the route GET /wiki/ has no host"},
		{"/.authgate/", "/", notRun, "a configuration without endpoints.prefix: /.authgate/"},
		{"yaml fragment", "yaml tests", notRun, "there is no configuration"},
	} {
		doc := world.ParseDocument(t, "wiki.md", strings.Replace(page, c.from, c.to, 1))
		if got := strings.Join(applicationProblems(t, doc, c.row), "; "); got != c.want {
			t.Errorf("%q for %q, row %s: %q, want %q", c.to, c.from, c.row, got, c.want)
		}
	}
	packages := map[string]*testPackage{"e2e/apps": {functions: map[string]bool{"TestWiki": true}, tests: `"page"`}}
	const interop = "| Wiki | 1.0 | its page | passed | 2026-11-26 |\n" +
		"| Blog | 2.0 | its page | **failed**: it | 2026-11-26 |\n"
	for row, ok := range map[string]bool{
		notRun: true, "`TestWiki`: Wiki 1.0": true, "`TestWiki/page`: Wiki 1.0": true,
		"`TestWiki/login`: Wiki 1.0": false, "`TestWiki`: Wiki 1.1": false, "`TestBlog`: Wiki 1.0": false,
		"`TestWiki`: Blog 2.0": false, "run": false, "": false,
	} {
		if problem := runProblem(row, packages, interop); (problem == "") != ok {
			t.Errorf("the row %q: %q", row, problem)
		}
	}
}
