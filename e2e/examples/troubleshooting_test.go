package examples

import (
	"crypto/x509"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// symptom is a row of docs/troubleshooting.md.
type symptom struct {
	see    string   // the first column; that of the row before for "the same"
	quoted []string // what it has in double quotes
	logged []string // what the column "What the log says" has in backquotes
}

// symptoms returns the rows of the tables of docs/troubleshooting.md.
func symptoms(t *testing.T) (all []symptom) {
	t.Helper()
	see := ""
	for line := range strings.Lines(world.ReadDocument(t, "docs/troubleshooting.md").Prose) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Command" {
			continue
		}
		if !strings.Contains(cells[1], "the same") {
			see = strings.TrimSpace(cells[1])
		}
		one := symptom{see: see}
		for _, quoted := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(codeSpan.ReplaceAllString(see, ""), -1) {
			one.quoted = append(one.quoted, quoted[1])
		}
		for _, span := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			one.logged = append(one.logged, span[1])
		}
		all = append(all, one)
	}
	return all
}

// TestDocsSymptoms checks that the gateway uses the words by which
// docs/troubleshooting.md describes symptoms. TestSymptoms causes many of them.
func TestDocsSymptoms(t *testing.T) {
	t.Parallel()
	used, all := wordsInUse(t), symptoms(t)
	for _, one := range all {
		for _, words := range append(one.quoted, one.logged...) {
			for _, part := range missingWords(used, words) {
				t.Errorf("docs/troubleshooting.md: nothing in the gateway says %q", part)
			}
		}
	}
	if len(all) < 80 {
		t.Errorf("docs/troubleshooting.md has %d symptoms, fewer than 80: are its tables still read?", len(all))
	}
	if len(missingWords(used, "needs one of …")) != 0 || len(missingWords(used, "needs a cup of …")) != 1 {
		t.Error("the words in use are not those of the gateway")
	}
}

// missingWords returns the parts of words that are not in use. Parts are divided by
// "…", and by the colons with which errors are put together.
func missingWords(used, words string) (missing []string) {
	for _, part := range regexp.MustCompile(`…|: `).Split(words, -1) {
		if part = strings.TrimSpace(part); !strings.Contains(used, part) {
			missing = append(missing, part)
		}
	}
	return missing
}

// wordsInUse returns the texts of the product, each on a line: those in its code, on its
// pages, and of the libraries and the system that the log repeats.
func wordsInUse(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	all.WriteString(world.ReadFile(t, world.Path("gateway/pages/texts/en.yaml")))
	for _, err := range []error{
		syscall.ECONNREFUSED, os.ErrDeadlineExceeded, x509.UnknownAuthorityError{}, &http.MaxBytesError{},
	} {
		all.WriteString(err.Error() + "\n")
	}
	all.WriteString("no such host\n") // of package net, which does not export it
	libraries := []string{"github.com/golang-jwt/jwt/v5"}
	for _, library := range libraries {
		list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", library)
		list.Dir = world.Path("")
		addTexts(t, &all, strings.TrimSpace(string(world.Must(list.Output())(t))))
	}
	// The check of other origins is the standard library's.
	root := world.Must(exec.Command("go", "env", "GOROOT").Output())(t)
	addTextsOf(t, &all, filepath.Join(strings.TrimSpace(string(root)), "src", "net", "http", "csrf.go"))
	for _, dir := range []string{world.Path("gateway"), world.Path("policy"), world.Path("cmd")} {
		addTexts(t, &all, dir)
	}
	for name := range spans(world.ReadFile(t, world.Path("docs/observability/README.md"))) {
		all.WriteString(name + "\n")
	}
	for key := range documentedDefaults(t) {
		all.WriteString(key + "\n") // a test in gateway/config tells that it exists
	}
	return all.String()
}

// addTexts adds the texts in the code below a folder, without tests.
func addTexts(t *testing.T, all *strings.Builder, dir string) {
	t.Helper()
	for _, path := range goFiles(t, dir) {
		addTextsOf(t, all, path)
	}
}

// goFiles returns the Go files below a folder, without tests.
func goFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	world.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

func addTextsOf(t *testing.T, all *strings.Builder, path string) {
	t.Helper()
	file := world.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		if text := textOf(e); text != "" {
			all.WriteString(text + "\n")
		}
		return true
	})
}

// textOf returns a text in quotes, or several that are added.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := textOf(e.X), textOf(e.Y); e.Op == token.ADD && left != "" && right != "" {
			return left + right
		}
	}
	return ""
}
