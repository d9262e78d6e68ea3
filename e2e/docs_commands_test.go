package e2e

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
)

// These tests check the commands that take too long to run: what they name
// exists.

// TestDocsCommands checks the commands for developers, which are the lines of sh
// blocks and the code spans that call go: variables, targets of the Makefile, packages,
// tests, subtests, scripts and fuzz targets exist.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	docs, packages, makefile := documents(t), testPackages(t), readFile(t, "../Makefile")
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/security.md", "docs/security-advisories.md"} {
		var lines []string
		for _, b := range docs[name].blocks {
			if b.info == "sh" {
				lines = append(lines, b.lines...)
			}
		}
		for span := range spans(docs[name].prose) {
			if strings.HasPrefix(span, "go ") {
				lines = append(lines, span)
			}
		}
		if len(lines) == 0 {
			t.Errorf("%s has no command", name)
		}
		for _, line := range lines {
			if problem := commandProblem(line, makefile, packages); problem != "" {
				t.Errorf("%s: %s: %s", name, line, problem)
			}
		}
	}
}

// commandProblem returns what is wrong with a command, or "".
func commandProblem(line, makefile string, packages map[string]*testPackage) string {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
	case words[0] == "make":
		for _, word := range words[1:] {
			name, _, variable := strings.Cut(word, "=")
			if !regexp.MustCompile(`(?m)^` + name + map[bool]string{true: ` \?=`, false: `:`}[variable]).MatchString(makefile) {
				return "the Makefile does not have " + name
			}
		}
	case strings.HasPrefix(line, "go build "):
		if info, err := os.Stat(path.Join("..", words[len(words)-1])); err != nil || !info.IsDir() {
			return "there is no such folder"
		}
	default:
		return goTestProblem(line, packages)
	}
	return ""
}

// goTest has the parts of a command that runs tests: a variable, which one of the tests
// must read, the folder of the module, and the package.
var (
	goTest   = regexp.MustCompile(`^(?:([A-Z_]+)=\S+ )?go test (?:.*-C (\S+) )?(?:.* )?(\.[a-z0-9/.]*)(?: |$)`)
	selected = regexp.MustCompile(`'([^']*)'`)
)

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
			missing = slices.DeleteFunc(missing, func(pattern []string) bool { return pattern[1] == "^$" || p.selects(dir, pattern[1]) })
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
		_, err := os.Stat(filepath.Join("..", dir, "testdata", subtest+".txtar"))
		return err == nil
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(p.functions)), regexp.MustCompile(name).MatchString) && strings.Contains(p.tests, subtest)
}

func TestDocsCommandsProblems(t *testing.T) {
	t.Parallel()
	packages := testPackages(t)
	for command, ok := range map[string]bool{
		"make run TIME=2s  # comment":                                          true,
		"make walk":                                                            false,
		"make run SIZE=2":                                                      false,
		"go build ./cmd/nothing":                                               false,
		"go test ./nothing":                                                    false,
		"go test ./... -run '^TestDecide'":                                     true,
		"go test ./policy -run '^TestScripts$'":                                false,
		"go test -C e2e -run '^TestScripts$/^session$' .":                      true,
		"go test -C e2e -run 'TestScripts/login' .":                            false,
		"go test ./policy -run '^$' -fuzz '^FuzzDecide$'":                      true,
		"go test ./policy -run '^$' -fuzz '^FuzzNothing$'":                     false,
		"AUTHGATE_NOTHING=1 go test ./policy":                                  false,
		"AUTHGATE_STRESS=1 go test ./gateway/upstream/http1 -run '^TestNoCro'": true,
		"go test -run":                                                         false,
		"rm -rf bin":                                                           false,
	} {
		if problem := commandProblem(command, "TIME ?= 1s\nrun: deps ## run\n", packages); (problem == "") != ok {
			t.Errorf("%s: %q", command, problem)
		}
	}
}

// TestDocsTargets checks that the Makefile has each target that a document names, and
// that CONTRIBUTING.md names each target that make lists.
func TestDocsTargets(t *testing.T) {
	t.Parallel()
	makefile, named := readFile(t, "../Makefile"), regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)")
	contributing := map[string]bool{"help": true}
	for name, doc := range documents(t) {
		for _, found := range named.FindAllStringSubmatch(doc.text, -1) {
			contributing[found[1]] = contributing[found[1]] || name == "CONTRIBUTING.md"
			if !regexp.MustCompile(`(?m)^` + found[1] + `:`).MatchString(makefile) {
				t.Errorf("%s names the target %s, which the Makefile does not have", name, found[1])
			}
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z]+):.*## `).FindAllStringSubmatch(makefile, -1) {
		if !contributing[found[1]] {
			t.Errorf("CONTRIBUTING.md does not name make %s", found[1])
		}
	}
}

// TestDocsCodeMap checks that code-map.md names each package of the product,
// and that the functions and folders it names exist.
func TestDocsCodeMap(t *testing.T) {
	t.Parallel()
	text := readFile(t, "../docs/code-map.md")
	var product strings.Builder
	for dir, p := range testPackages(t) {
		if !strings.HasPrefix(dir, "e2e") && p.product != "" {
			product.WriteString(p.product)
			if !strings.Contains(text, "`"+dir+"`") {
				t.Errorf("docs/code-map.md does not name the package %s", dir)
			}
		}
	}
	for _, found := range regexp.MustCompile("`([A-Za-z]+)\\(\\)`").FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + found[1] + `\(`).MatchString(product.String()) {
			t.Errorf("docs/code-map.md names the function %s, which does not exist", found[1])
		}
	}
	for _, found := range regexp.MustCompile("`((?:cmd|e2e|gateway|policy|upstream)(?:/[a-z0-9]+)*)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", found[1])); err != nil {
			t.Errorf("docs/code-map.md names the folder %s, which does not exist", found[1])
		}
	}
}

// TestDocsDependencies checks that dependencies.md names each direct dependency
// of the product, and how many there are.
func TestDocsDependencies(t *testing.T) {
	t.Parallel()
	text := readFile(t, "../docs/dependencies.md")
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(readFile(t, "../go.mod"), -1)
	if count := strconv.Itoa(len(required)) + " direct dependencies"; !strings.Contains(text, count) {
		t.Errorf("docs/dependencies.md does not say that there are %s", count)
	}
	for _, found := range required {
		if !regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(found[1]) + "` \\| \\S").MatchString(text) {
			t.Errorf("docs/dependencies.md does not say what %s is for", found[1])
		}
	}
}
