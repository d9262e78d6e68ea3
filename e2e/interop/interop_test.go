package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRowsNameTests: each test that a row names exists in one of the packages, and each subtest
// as a text there. The tests behind the build tag count too.
func TestRowsNameTests(t *testing.T) {
	t.Parallel()
	tests, texts := testsOf(t)
	names := map[string]bool{}
	for _, r := range rows() {
		if names[r.name] || (len(r.tries) == 0) == (r.never == "") {
			t.Errorf("the row %s is there twice, or has neither tests nor a reason", r.name)
		}
		names[r.name] = true
		for _, try := range r.tries {
			name, sub, below := strings.Cut(try.test, "/")
			if !tests[name] || below && !texts[sub] && !texts[strings.ReplaceAll(sub, "_", " ")] {
				t.Errorf("the row %s names the test %s, which does not exist", r.name, try.test)
			}
		}
	}
}

// testsOf returns the names of the test functions in the packages, and all texts in them.
func testsOf(t *testing.T) (tests, texts map[string]bool) {
	t.Helper()
	var files []string
	for _, dir := range packages() {
		found, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("there are no tests in %s: %v", dir, err)
		}
		files = append(files, found...)
	}
	tests, texts = map[string]bool{}, map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				tests[n.Name.Name] = tests[n.Name.Name] || n.Recv == nil
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					texts[text] = true
				}
			}
			return true
		})
	}
	return tests, texts
}

// TestDocument: docs/interop.md has the rows of the list and no other, as make interop
// writes them.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", document))
	if err != nil {
		t.Fatal(err)
	}
	results := parse(string(text))
	if diff := cmp.Diff(string(text), render(results)); diff != "" {
		t.Errorf("docs/interop.md is not what `make interop` writes; run it for the rows that changed (-is +written):\n%s",
			diff)
	}
	for name, got := range results {
		if got.outcome != passed && !strings.HasPrefix(got.outcome, failure) && !strings.HasPrefix(got.outcome, notTried) {
			t.Errorf("the row %s has the result %q", name, got.outcome)
		}
		if got.outcome == passed && (got.version == "" || got.date == "") {
			t.Errorf("the row %s passed without a version or a date", name)
		}
	}
	if got := len(slices.Collect(maps.Keys(results))); got != len(rows()) {
		t.Errorf("docs/interop.md has %d rows, expected %d", got, len(rows()))
	}
}

// TestNoRow: a name that no row has runs nothing, and must not look as if all had passed.
func TestNoRow(t *testing.T) {
	t.Parallel()
	if _, err := run("keycloak in lower case"); err == nil || !strings.Contains(err.Error(), "matches no row") {
		t.Errorf("a run without rows: %v", err)
	}
}

// TestJudge: a row passes only if all its tests passed.
func TestJudge(t *testing.T) {
	t.Parallel()
	const says = `{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA/x y"}
not JSON
{"Action":"pass","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"because\n"}
{"Action":"fail","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
`
	all := readOutcomes(strings.NewReader(says))
	for want, tries := range map[string][]try{
		passed:                        {{"a", "TestA"}, {"x", "TestA/x y"}},
		failure + "b":                 {{"a", "TestA"}, {"b", "TestB"}},
		failure + "d (did not run)":   {{"d", "TestA/d"}, {"c", "TestC"}},
		notTried + "the tests skip c": {{"c", "TestC"}, {"a", "TestA"}},
	} {
		r := row{name: "r", version: version{command: "echo program v1.2, of today"}, tries: tries}
		if got := r.judge(all); got.outcome != want || got.version != "1.2" {
			t.Errorf("%v: %q in the version %q, expected %q", tries, got.outcome, got.version, want)
		}
	}
	silent := row{version: version{command: "exit 1"}, tries: []try{{"a", "TestA"}}}
	if got := silent.judge(all); !strings.HasPrefix(got.outcome, failure) {
		t.Errorf("a counterpart without a version: %q", got.outcome)
	}
	absent := row{needs: []string{"sh", "./no/such/file"}}
	if got := absent.missing(); got != "no/such/file is missing" {
		t.Errorf("missing: %q", got)
	}
}
