package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codeMap has the table of the module's packages, from the ground up.
const codeMap = "code-map.md"

// TestImportOrder checks that a package imports only packages on rows above its own.
func TestImportOrder(t *testing.T) {
	t.Parallel()
	row := packageRows(t)
	files := goFiles(t)
	for _, file := range files {
		from := path.Dir(file)
		if row[from] == 0 {
			t.Errorf("%s does not list %s", codeMap, from)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "authgate/"); ours && row[to] >= row[from] {
				t.Errorf("%s: %s imports %s, which %s does not have on a row above it", file, from, to, codeMap)
			}
		}
	}
	if len(files) == 0 {
		t.Error("no files were read")
	}
}

// TestFoldersAreFloors checks that the packages of each folder of gateway lie on rows that follow each
// other, so that with TestImportOrder imports run one way between folders, too.
func TestFoldersAreFloors(t *testing.T) {
	t.Parallel()
	row := packageRows(t)
	names := slices.SortedFunc(maps.Keys(row), func(a, b string) int { return row[a] - row[b] })
	var floors []string
	for _, name := range names {
		parts := strings.SplitN(name, "/", 3)
		floor := strings.Join(parts[:min(2, len(parts))], "/")
		if len(floors) > 0 && floors[len(floors)-1] == floor {
			continue
		}
		if slices.Contains(floors, floor) && strings.HasPrefix(floor, "gateway/") {
			t.Errorf("%s lists %s apart from the rest of %s", codeMap, name, floor)
		}
		floors = append(floors, floor)
	}
}

// packageRows returns the row of each package in the table of codeMap, counted from 1.
// The names of packages are in the first cell of a row.
func packageRows(t *testing.T) map[string]int {
	t.Helper()
	page, err := os.ReadFile(codeMap)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]int{}
	for number, line := range strings.Split(table, "\n") {
		first, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			if name := found[1]; isRow && rows[name] > 0 {
				t.Errorf("%s lists %s twice", codeMap, name)
			} else if isRow {
				rows[name] = number + 1
			}
		}
	}
	return rows
}

// goFiles returns the Go files of this module for all operating systems, without tests.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != ".":
			if _, err := fs.Stat(root, path.Join(file, "go.mod")); err == nil ||
				entry.Name()[0] == '.' || entry.Name() == "testdata" {
				return fs.SkipDir // another module, or no package
			}
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestMechanismsListedOnce checks where mechanisms are enumerated: the table of policy has what all
// others ask, so that a new mechanism is a row there, what verifies it, and a check that it has users.
func TestMechanismsListedOnce(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`\bpolicy\.(Basic|Session|Bearer|OIDC|Certificate)\b`)
	var lists []string
	for _, file := range goFiles(t) {
		content, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, name := range names.FindAllString(string(content), -1) {
			found[name] = true
		}
		if len(found) >= 4 && !strings.Contains(file, "/rig/") {
			lists = append(lists, file)
		}
	}
	want := []string{"gateway/config/mechanisms.go", "gateway/login/mechanism/federation.go"}
	if !slices.Equal(lists, want) {
		t.Errorf("mechanisms are listed in %q, want %q beside policy/mechanism.go", lists, want)
	}
}
