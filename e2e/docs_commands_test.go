package e2e

import (
	"flag"
	"io"
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

// shellWord is a word of a command, a word in single quotes, or a comment.
var shellWord = regexp.MustCompile(`#.*|'[^']*'|[^\s']+`)

// shellWords are the words of a command line, without its comment.
func shellWords(line string) []string {
	var words []string
	for _, word := range shellWord.FindAllString(line, -1) {
		if !strings.HasPrefix(word, "#") {
			words = append(words, strings.Trim(word, "'"))
		}
	}
	return words
}

// TestDocsCommands checks the commands for developers, which are the lines of sh
// blocks and the code spans that call go: variables, targets of the Makefile, packages,
// tests, subtests, scripts and fuzz targets exist.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	docs, packages, makefile := documents(t), readPackages(t), readFile(t, "../Makefile")
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

// commandProblem returns what is wrong with a command, or "". If it sets a variable,
// a test of the package must read it.
func commandProblem(line, makefile string, packages map[string]*sources) string {
	words := shellWords(line)
	if len(words) == 0 {
		return ""
	}
	variable, _, assigned := strings.Cut(words[0], "=")
	if assigned {
		words = words[1:]
	}
	switch {
	case words[0] == "make" && !assigned:
		for _, word := range words[1:] {
			name, _, variable := strings.Cut(word, "=")
			if !regexp.MustCompile(`(?m)^` + name + map[bool]string{true: ` \?=`, false: `:`}[variable]).MatchString(makefile) {
				return "the Makefile does not have " + name
			}
		}
		return ""
	case words[0] == "go" && words[1] == "build" && !assigned:
		if info, err := os.Stat(path.Join("..", words[len(words)-1])); err != nil || !info.IsDir() {
			return "there is no such folder"
		}
		return ""
	case words[0] == "go" && words[1] == "test":
		return goTestProblem(words[2:], variable, assigned, packages)
	}
	return "this test does not know how to check it"
}

func goTestProblem(words []string, variable string, assigned bool, packages map[string]*sources) string {
	flags := flag.NewFlagSet("go test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder, run, fuzz := flags.String("C", "", ""), flags.String("run", "", ""), flags.String("fuzz", "", "")
	flags.Duration("fuzztime", 0, "")
	flags.Bool("race", false, "")
	var patterns []string
	for len(words) > 0 {
		if err := flags.Parse(words); err != nil {
			return err.Error()
		}
		if words = flags.Args(); len(words) > 0 {
			patterns, words = append(patterns, words[0]), words[1:]
		}
	}
	if len(patterns) != 1 {
		return "it tests no package or several"
	}
	root, below := strings.CutSuffix(path.Join("..", *folder, patterns[0]), "/...")
	tests, reads := false, false
	missing := []string{*run, *fuzz} // patterns that select no test so far
	for dir, p := range packages {
		if dir = path.Join("..", dir); dir != root && (!below || !strings.HasPrefix(dir, root+"/")) {
			continue
		}
		tests = tests || len(p.testNames()) > 0
		reads = reads || strings.Contains(p.tests, strconv.Quote(variable))
		missing = slices.DeleteFunc(missing, func(pattern string) bool { return pattern == "" || pattern == "^$" || p.selects(dir, pattern) })
	}
	if !tests || len(missing) > 0 || assigned && !reads {
		return "there are no such tests, or they do not read the variable"
	}
	return ""
}

// selects reports whether -run or -fuzz with pattern selects a test. The part after
// the slash selects a script of TestScripts, or a subtest, whose name is a text in the
// package.
func (p *sources) selects(dir, pattern string) bool {
	name, subtest, divided := strings.Cut(pattern, "/")
	matches := func(pattern string, names []string) bool {
		return slices.ContainsFunc(names, regexp.MustCompile(pattern).MatchString)
	}
	functions := slices.DeleteFunc(p.testNames(), func(function string) bool { return !matches(name, []string{function}) })
	if !divided || len(functions) == 0 {
		return len(functions) > 0
	}
	var subtests []string
	if slices.Contains(functions, "TestScripts") {
		scripts, _ := filepath.Glob(filepath.Join(dir, "testdata", "*.txtar")) // the pattern is valid
		for _, script := range scripts {
			subtests = append(subtests, strings.TrimSuffix(filepath.Base(script), ".txtar"))
		}
		return matches(subtest, subtests)
	}
	for _, literal := range regexp.MustCompile(`"((?:[^"\\\n]|\\.)*)"`).FindAllStringSubmatch(p.tests, -1) {
		subtests = append(subtests, strings.ReplaceAll(literal[1], " ", "_"))
	}
	return matches(subtest, subtests)
}

func TestDocsCommandsProblems(t *testing.T) {
	t.Parallel()
	packages := readPackages(t)
	for command, ok := range map[string]bool{
		"make run TIME=2s  # comment":                                          true,
		"make walk":                                                            false,
		"make run SIZE=2":                                                      false,
		"go build ./cmd/authgate":                                              true,
		"go build ./cmd/nothing":                                               false,
		"go test -race ./policy":                                               true,
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
	for dir, p := range readPackages(t) {
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
