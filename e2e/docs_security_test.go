package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// testPackage is the tests of one folder.
type testPackage struct {
	functions map[string]bool
	source    strings.Builder
}

// testPackages reads all files of tests of the module, by their folders.
func testPackages(t *testing.T) map[string]*testPackage {
	t.Helper()
	all := map[string]*testPackage{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && name != ".."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if all[dir] == nil {
			all[dir] = &testPackage{functions: map[string]bool{}}
		}
		all[dir].source.Write(source)
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString("`"+f.Name.Name+"`") {
				all[dir].functions[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// testName is a test, or a subtest of it, as documents name them.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)(?:/([^`]+))?`")

// TestDocsSecurity checks that each test that a document names exists, that
// each attack in security.md names one, and that security.md lists each fuzz
// target.
func TestDocsSecurity(t *testing.T) {
	t.Parallel()
	packages := testPackages(t)
	for _, name := range []string{"../docs/security.md", "../docs/scaling.md", "../SECURITY.md", "../CONTRIBUTING.md"} {
		for _, found := range testName.FindAllStringSubmatch(readFile(t, name), -1) {
			exists, within := false, found[2] == ""
			for _, p := range packages {
				if p.functions[found[1]] {
					exists = true
					within = within || strings.Contains(p.source.String(), strconv.Quote(found[2]))
				}
			}
			if !exists || !within {
				t.Errorf("%s names %s, which does not exist", name, found[0])
			}
		}
	}
	text := readFile(t, "../docs/security.md")
	classes, _, _ := strings.Cut(text, "\n## What is bounded\n")
	wantProofs(t, classes)
	_, targets, _ := strings.Cut(text, "\n## Fuzz targets\n")
	listed := map[string]bool{}
	for _, found := range testName.FindAllStringSubmatch(targets, -1) {
		listed[found[1]] = true
	}
	for dir, p := range packages {
		for name := range p.functions {
			if strings.HasPrefix(name, "Fuzz") && !listed[name] {
				t.Errorf("docs/security.md does not list the fuzz target %s of %s", name, dir)
			}
		}
	}
}

// wantProofs checks that there are eleven classes of attacks, and a test for
// each attack.
func wantProofs(t *testing.T, classes string) {
	t.Helper()
	heading := regexp.MustCompile(`^## (\d+)\. `)
	class, attacks := 0, 0
	for line := range strings.Lines(classes) {
		if found := heading.FindStringSubmatch(line); found != nil {
			if class > 0 && attacks == 0 {
				t.Errorf("docs/security.md: class %d has no attacks", class)
			}
			class, attacks = class+1, 0
			if found[1] != strconv.Itoa(class) {
				t.Errorf("docs/security.md: class %s is in the place of %d", found[1], class)
			}
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if class == 0 || !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Attack ") {
			continue
		}
		attacks++
		if len(cells) != 3 || !testName.MatchString(cells[2]) {
			t.Errorf("docs/security.md: no test proves %s", strings.TrimSpace(line))
		}
	}
	if class != 11 {
		t.Errorf("docs/security.md has %d classes of attacks, expected 11", class)
	}
}
