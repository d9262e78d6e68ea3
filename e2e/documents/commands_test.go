package documents

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestDocsCommands checks the commands for developers, which take too long to run:
// targets and variables of the Makefile, packages, tests, subtests, scripts and fuzz
// targets exist. CONTRIBUTING.md names each target that make lists. README.md installs the newest
// release.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	docs, packages, makefile := world.Documents(t), testPackages(t), world.ReadFile(t, world.Path("Makefile"))
	for name, doc := range docs {
		for _, found := range regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)(?: ([A-Z]+)=)?").
			FindAllStringSubmatch(doc.Text, -1) {
			if target, variable := found[1], found[2]; !strings.Contains(makefile, "\n"+target+":") ||
				variable != "" && !strings.Contains(makefile, "\n"+variable+" ?=") {
				t.Errorf("%s: the Makefile does not have what %s names", name, found[0])
			}
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z]+):.*## `).FindAllStringSubmatch(makefile, -1) {
		if command := "make " + found[1]; command != "make help" && !strings.Contains(docs["CONTRIBUTING.md"].Text, command) {
			t.Errorf("CONTRIBUTING.md does not name %s", command)
		}
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/security.md", "docs/security-advisories.md"} {
		for _, b := range docs[name].Blocks {
			for _, line := range b.Lines {
				if b.Info != "sh" || line == "" || strings.HasPrefix(line, "make ") {
					continue
				}
				if installs(t, docs, line) {
					continue
				}
				if problem := goTestProblem(line, packages); problem != "" {
					t.Errorf("%s: %s: %s", name, line, problem)
				}
			}
		}
	}
}

// inImage matches what a command of docker binds to the image: ports and folders.
var inImage = regexp.MustCompile(` -[pv] [^ :]+:([^ :]+)`)

// installs reports whether a line installs the package of the newest release, runs a command
// that is there, or the image with ports and folders that its Dockerfile names.
func installs(t *testing.T, docs map[string]*world.Document, line string) bool {
	t.Helper()
	if strings.HasPrefix(line, "docker run ") {
		dockerfile := world.ReadFile(t, world.Path("Dockerfile"))
		bound := inImage.FindAllStringSubmatch(line, -1)
		return len(bound) > 0 && !slices.ContainsFunc(bound, func(found []string) bool {
			return !strings.Contains(dockerfile, found[1])
		})
	}
	newest := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) - `).FindStringSubmatch(docs["CHANGELOG.md"].Prose)
	if newest != nil && line == "apt-get install ./authgate_"+newest[1]+"_amd64.deb" {
		return true
	}
	return regexp.MustCompile(`^authgate [a-z]+$`).MatchString(line) &&
		strings.Contains(docs["docs/command-line.md"].Prose, "\n## "+line+"\n")
}

// goTest has the parts of a command that runs tests: a variable, which one of the tests
// must read, the folder of the module, and the package.
var (
	goTest   = regexp.MustCompile(`^(?:([A-Z_]+)=\S+ )?go test (?:.*-C (\S+) )?(?:.* )?(\.[a-z0-9/.]*)(?: |$)`)
	selected = regexp.MustCompile(`'([^']*)'`)
)

// goTestProblem returns what is wrong with a command, or "".
func goTestProblem(line string, packages map[string]*testPackage) string {
	found := goTest.FindStringSubmatch(line)
	if found == nil {
		return "this test does not know how to check it"
	}
	root, below := strings.CutSuffix(path.Join("/", found[2], found[3]), "/...")
	tests, reads := false, found[1] == ""
	missing := selected.FindAllStringSubmatch(line, -1) // patterns that select no test so far
	for dir, p := range packages {
		if at := "/" + dir; at == root || below && strings.HasPrefix(at, root+"/") {
			tests = tests || len(p.functions) > 0
			reads = reads || strings.Contains(p.tests, strconv.Quote(found[1]))
			missing = slices.DeleteFunc(missing, func(pattern []string) bool {
				return pattern[1] == "^$" || p.selects(dir, pattern[1])
			})
		}
	}
	if !tests || !reads || len(missing) > 0 {
		return "there are no such tests, or they do not read the variable"
	}
	return ""
}

// selects reports whether -run or -fuzz with pattern selects a test. The part after
// the slash selects a script of TestScripts, or a subtest, whose name is in the source.
func (p *testPackage) selects(dir, pattern string) bool {
	name, subtest, divided := strings.Cut(pattern, "/")
	subtest = strings.Trim(subtest, "^$")
	if divided && strings.Contains(name, "TestScripts") {
		_, err := os.Stat(world.Path(dir + "/testdata/" + subtest + ".txtar"))
		return err == nil
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(p.functions)), regexp.MustCompile(name).MatchString) &&
		strings.Contains(p.tests, subtest)
}

// TestDocsCodeMap checks that code-map.md names each package of the product, and that
// what it and the decisions name exists: functions, other names of the code, files.
func TestDocsCodeMap(t *testing.T) {
	t.Parallel()
	const codeMap = "docs/code-map.md"
	docs, names := world.Documents(t), map[string]bool{}
	for dir, p := range testPackages(t) {
		if strings.HasPrefix(dir, "e2e") || p.product == "" {
			continue
		}
		addNames(names, path.Base(dir), p.product)
		if !strings.Contains(docs[codeMap].Text, "`"+dir+"`") {
			t.Errorf("%s does not name the package %s", codeMap, dir)
		}
	}
	for name, doc := range docs {
		if name != codeMap && path.Dir(name) != "docs/decisions" {
			continue
		}
		for _, found := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(doc.Prose, -1) {
			if !codeExists(names, found[1]) {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
	}
}

// The forms in which a document names code: name(), a name with a capital letter within,
// package.Name, and a path from the top of the repository.
var (
	namedAlone     = regexp.MustCompile(`^(?:\w+\(\)|[a-z]+[A-Z]\w*)$`)
	namedInPackage = regexp.MustCompile(`^(\w+\.)([A-Z]\w*)(?:\.\w+)?$`)
	namedPath      = regexp.MustCompile(`^(?:cmd|docs|e2e|gateway|packaging|policy|upstream)(?:/[^ ]+|$)`)
)

// addNames adds what documents may name of a package: the package itself as "name.", and
// what it declares in each of the forms.
func addNames(names map[string]bool, name, source string) {
	names[name+"."] = true
	for _, found := range regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)[([]`).FindAllStringSubmatch(source, -1) {
		names[found[1]+"()"] = true
	}
	declared := regexp.MustCompile(`(?m)^(?:func |func \([^)]*\) |type |var |const |\t)([A-Z]\w*)`)
	for _, found := range declared.FindAllStringSubmatch(source, -1) {
		names[name+"."+found[1]] = true
	}
	for _, word := range regexp.MustCompile(`\b[a-z]+[A-Z]\w*`).FindAllString(source, -1) {
		names[word] = true
	}
}

// codeExists reports whether the product has what name names. It is true for a name that
// is of none of the forms, and for one in a package of others, such as http.Transport.
func codeExists(names map[string]bool, name string) bool {
	if namedPath.MatchString(name) {
		files, err := filepath.Glob(world.Path(name))
		return err == nil && len(files) > 0
	}
	if found := namedInPackage.FindStringSubmatch(name); found != nil {
		return !names[found[1]] || names[found[1]+found[2]]
	}
	return !namedAlone.MatchString(name) || names[name]
}

// TestDocsDependencies checks that dependencies.md names each direct dependency
// of the product, and how many there are.
func TestDocsDependencies(t *testing.T) {
	t.Parallel()
	text := world.ReadFile(t, world.Path("docs/dependencies.md"))
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(world.ReadFile(t, world.Path("go.mod")), -1)
	if count := strconv.Itoa(len(required)) + " direct dependencies"; !strings.Contains(text, count) {
		t.Errorf("docs/dependencies.md does not say that there are %s", count)
	}
	for _, found := range required {
		if !regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(found[1]) + "` \\| \\S").MatchString(text) {
			t.Errorf("docs/dependencies.md does not say what %s is for", found[1])
		}
	}
}
