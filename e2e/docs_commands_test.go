package e2e

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// These tests check the commands that take too long to run: what they name
// exists.

// shellWord is a word of a command, or a word in single quotes.
var shellWord = regexp.MustCompile(`'[^']*'|[^\s']+`)

// shellWords are the words of a command line, without its comment.
func shellWords(line string) []string {
	var words []string
	for _, word := range shellWord.FindAllString(line, -1) {
		if strings.HasPrefix(word, "#") {
			break
		}
		words = append(words, strings.Trim(word, "'"))
	}
	return words
}

// developerCommands are the lines of the sh blocks of a document, and the code
// spans that call go.
func (d *document) developerCommands() [][]string {
	var all [][]string
	for _, b := range d.blocks {
		if b.info != "sh" {
			continue
		}
		for _, line := range b.lines {
			if words := shellWords(line); len(words) > 0 {
				all = append(all, words)
			}
		}
	}
	for span := range spans(d.prose) {
		if words := shellWords(span); len(words) > 1 && words[0] == "go" {
			all = append(all, words)
		}
	}
	return all
}

// TestDocsCommands checks the commands for developers: variables, targets of
// the Makefile, packages, tests, subtests, scripts and fuzz targets exist.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	docs, packages, makefile := documents(t), testPackages(t), readFile(t, "../Makefile")
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/security.md", "docs/security-advisories.md"} {
		commands := docs[name].developerCommands()
		if len(commands) == 0 {
			t.Errorf("%s has no command", name)
		}
		for _, words := range commands {
			if problem := problemOf(words, makefile, packages); problem != "" {
				t.Errorf("%s: %s: %s", name, strings.Join(words, " "), problem)
			}
		}
	}
}

// problemOf is what is wrong with a command, or "".
func problemOf(words []string, makefile string, packages map[string]*testPackage) string {
	variable, _, assigned := strings.Cut(words[0], "=")
	if assigned {
		words = words[1:]
	}
	switch {
	case words[0] == "make" && !assigned:
		return makeProblem(words[1:], makefile)
	case words[0] == "go" && words[1] == "build" && !assigned:
		return folderProblem(words[len(words)-1])
	case words[0] == "go" && words[1] == "test":
		return goTestProblem(words[2:], variable, assigned, packages)
	}
	return "this test does not know how to check it"
}

func makeProblem(words []string, makefile string) string {
	for _, word := range words {
		pattern := `(?m)^` + word + `:`
		if variable, _, assigned := strings.Cut(word, "="); assigned {
			pattern = `(?m)^` + variable + ` \?=`
		}
		if !regexp.MustCompile(pattern).MatchString(makefile) {
			return "the Makefile does not have " + word
		}
	}
	return ""
}

func folderProblem(folder string) string {
	if info, err := os.Stat(path.Join("..", folder)); err != nil || !info.IsDir() {
		return "there is no folder " + folder
	}
	return ""
}

// goTestProblem checks the arguments of go test. If a variable is assigned, a
// test of the package must read it.
func goTestProblem(words []string, variable string, assigned bool, packages map[string]*testPackage) string {
	folder, pattern, run, fuzz := "", ".", "", ""
	for i := 0; i < len(words); i++ {
		value := ""
		switch words[i] {
		case "-C", "-run", "-fuzz", "-fuzztime":
			if i+1 == len(words) {
				return words[i] + " has no value"
			}
			value = words[i+1]
		}
		switch words[i] {
		case "-C":
			folder, i = value, i+1
		case "-run":
			run, i = value, i+1
		case "-fuzz":
			fuzz, i = value, i+1
		case "-fuzztime":
			i++
		case "-race":
		default:
			pattern = words[i]
		}
	}
	tested := matching(packages, path.Join("..", folder), pattern)
	switch {
	case len(tested) == 0:
		return "there are no tests in " + pattern
	case fuzz != "" && !anyTest(tested, fuzz):
		return "there is no " + fuzz
	case run != "" && run != "^$" && !anyTest(tested, run):
		return "there is no " + run
	case assigned && !anyReads(tested, variable):
		return "no test reads " + variable
	}
	return ""
}

// matching are the packages that a pattern means to a go command in folder.
func matching(all map[string]*testPackage, folder, pattern string) map[string]*testPackage {
	found := map[string]*testPackage{}
	root, below := strings.CutSuffix(pattern, "...")
	root = path.Join(folder, root)
	for dir, p := range all {
		dir = filepath.ToSlash(dir)
		if dir == root || below && strings.HasPrefix(dir, root+"/") {
			found[dir] = p
		}
	}
	return found
}

func anyReads(packages map[string]*testPackage, variable string) bool {
	for _, p := range packages {
		if strings.Contains(p.source.String(), strconv.Quote(variable)) {
			return true
		}
	}
	return false
}

// anyTest reports whether -run or -fuzz with pattern selects a test of one of the
// packages. The second part selects a script of TestScripts, or a subtest, whose
// name is a text in the package.
func anyTest(packages map[string]*testPackage, pattern string) bool {
	name, subtest, divided := strings.Cut(pattern, "/")
	for dir, p := range packages {
		for function := range p.functions {
			if matchesName(name, function) && (!divided || anyName(subtest, p.subtests(dir, function))) {
				return true
			}
		}
	}
	return false
}

func anyName(pattern string, names []string) bool {
	for _, name := range names {
		if matchesName(pattern, strings.ReplaceAll(name, " ", "_")) {
			return true
		}
	}
	return false
}

func matchesName(pattern, name string) bool { return regexp.MustCompile(pattern).MatchString(name) }

var stringLiteral = regexp.MustCompile(`"((?:[^"\\\n]|\\.)*)"`)

// subtests are names that subtests of a function may have.
func (p *testPackage) subtests(dir, function string) []string {
	var names []string
	if function == "TestScripts" {
		scripts, _ := filepath.Glob(filepath.Join(dir, "testdata", "*.txtar")) // the pattern is valid
		for _, script := range scripts {
			names = append(names, strings.TrimSuffix(filepath.Base(script), ".txtar"))
		}
		return names
	}
	for _, found := range stringLiteral.FindAllStringSubmatch(p.source.String(), -1) {
		names = append(names, found[1])
	}
	return names
}

func TestDocsCommandsProblems(t *testing.T) {
	t.Parallel()
	packages := testPackages(t)
	const makefile = "TIME ?= 1s\nrun: deps ## run\n"
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
		if problem := problemOf(shellWords(command), makefile, packages); (problem == "") != ok {
			t.Errorf("%s: %q", command, problem)
		}
	}
}

var listedTarget = regexp.MustCompile(`(?m)^([a-z]+):.*## `)

// TestDocsContributing checks that CONTRIBUTING.md has each target that make
// lists.
func TestDocsContributing(t *testing.T) {
	t.Parallel()
	text := readFile(t, "../CONTRIBUTING.md")
	for _, found := range listedTarget.FindAllStringSubmatch(readFile(t, "../Makefile"), -1) {
		if found[1] != "help" && !regexp.MustCompile("(?m)(^|`)make "+found[1]+`\b`).MatchString(text) {
			t.Errorf("CONTRIBUTING.md does not name make %s", found[1])
		}
	}
}

var (
	functionSpan = regexp.MustCompile("`([A-Za-z]+)\\(\\)`")
	folderSpan   = regexp.MustCompile("`((?:cmd|e2e|gateway|policy|upstream)(?:/[a-z0-9]+)*)`")
)

// TestDocsCodeMap checks that code-map.md names each package of the product,
// and that the functions and folders it names exist.
func TestDocsCodeMap(t *testing.T) {
	t.Parallel()
	text, sources := readFile(t, "../docs/code-map.md"), productSources(t)
	var all strings.Builder
	for dir, source := range sources {
		all.WriteString(source)
		if !strings.Contains(text, "`"+dir+"`") {
			t.Errorf("docs/code-map.md does not name the package %s", dir)
		}
	}
	for _, found := range functionSpan.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + found[1] + `\(`).MatchString(all.String()) {
			t.Errorf("docs/code-map.md names the function %s, which does not exist", found[1])
		}
	}
	for _, found := range folderSpan.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", found[1])); err != nil {
			t.Errorf("docs/code-map.md names the folder %s, which does not exist", found[1])
		}
	}
}

// productSources are the sources of the packages of the root module, without
// their tests, by folder.
func productSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, root := range []string{"cmd", "gateway", "policy", "upstream"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(file string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
			sources[dir] += readFile(t, file) + "\n"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sources
}
