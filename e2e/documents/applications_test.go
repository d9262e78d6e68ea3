package documents

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// The pages of applications have one form, and each says whether the application was run.
const (
	applicationsFolder = "docs/applications"
	fewestApplications = 30
	notRun             = "Not run."
)

// applicationForm is the headings of each page, in their order.
var applicationForm = []string{"Configuration", "Apps and programs", "Who the user is", "Known not to work", "Run"}

// ranWith matches what a page says of an application that was run: the test, and a row of
// docs/interop.md with its version.
var ranWith = regexp.MustCompile("^`(Test\\w+)(?:/(\\w+))?`: (.+?) ([\\w.+-]*\\d[\\w.+-]*?)[.,:]?\\s")

func TestDocsApplications(t *testing.T) {
	t.Parallel()
	docs, packages, pages := world.Documents(t), testPackages(t), 0
	for name, doc := range docs {
		if path.Dir(name) != applicationsFolder || path.Base(name) == "README.md" {
			continue
		}
		pages++
		for _, problem := range applicationProblems(t, doc) {
			t.Errorf("%s: %s", name, problem)
		}
		_, run, _ := strings.Cut(doc.Prose, "\n## Run\n\n")
		if problem := runProblem(run, packages, docs["docs/interop.md"].Text); problem != "" {
			t.Errorf("%s, Run: %s", name, problem)
		}
	}
	if pages < fewestApplications {
		t.Errorf("%s has %d applications, fewer than %d", applicationsFolder, pages, fewestApplications)
	}
}

// applicationProblems returns what is wrong with the form of an application's page.
func applicationProblems(t *testing.T, doc *world.Document) (all []string) {
	t.Helper()
	var headings []string
	for _, found := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(doc.Prose, -1) {
		headings = append(headings, found[1])
	}
	if !slices.Equal(headings, applicationForm) {
		all = append(all, "the headings are "+strings.Join(headings, ", "))
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

// runProblem returns the mistake in the line of a page about how its application was run, or "".
func runProblem(run string, packages map[string]*testPackage, interop string) string {
	if strings.HasPrefix(run, notRun) {
		return ""
	}
	found := ranWith.FindStringSubmatch(run)
	if found == nil {
		return "it begins neither with a test, a program and its version, nor with " + notRun
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

// TestDocsApplicationProblems checks that a page cannot leave out a part, nor claim a run
// that there was not.
func TestDocsApplicationProblems(t *testing.T) {
	t.Parallel()
	const page = "# Wiki\n\n## Configuration\n\n```yaml fragment\nendpoints: {prefix: /.authgate/}\n" +
		"routes: [{match: GET wiki.example.org/}]\n```\n\n## Apps and programs\n\n## Who the user is\n\n" +
		"## Known not to work\n\n## Run\n\nNot run.\n"
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"## Who the user is\n\n", "", "the headings are Configuration, Apps and programs, Known not to work, Run"},
		{"wiki.example.org/", "/wiki/", "the route GET /wiki/ has no host"},
		{"/.authgate/", "/", "a configuration without endpoints.prefix: /.authgate/"},
		{"yaml fragment", "yaml tests", "there is no configuration"},
	} {
		doc := world.ParseDocument(t, "wiki.md", strings.Replace(page, c.from, c.to, 1))
		if got := strings.Join(applicationProblems(t, doc), "; "); got != c.want {
			t.Errorf("%q for %q: %q, want %q", c.to, c.from, got, c.want)
		}
	}
	packages := map[string]*testPackage{"e2e/apps": {functions: map[string]bool{"TestWiki": true}, tests: `"page"`}}
	const interop = "| Wiki | 1.0 | its page | passed | 2026-11-26 |\n" +
		"| Blog | 2.0 | its page | **failed**: it | 2026-11-26 |\n"
	for run, ok := range map[string]bool{
		"Not run.\n": true, "`TestWiki`: Wiki 1.0.\n": true, "`TestWiki/page`: Wiki 1.0, in Chromium.": true,
		"`TestWiki`: Wiki 1.0: its page.": true, "`TestWiki`: Wiki 1.1.\n": false,
		"`TestWiki/login`: Wiki 1.0.\n": false,
		"`TestBlog`: Wiki 1.0.\n":       false, "`TestWiki`: Blog 2.0.\n": false, "run\n": false, "": false,
	} {
		if problem := runProblem(run, packages, interop); (problem == "") != ok {
			t.Errorf("%q: %q", run, problem)
		}
	}
}
