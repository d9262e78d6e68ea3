package gateway

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// importOrder lists the packages of the module from the ground up. A package
// imports only packages on lines above its own.
const importOrder = `
	policy gateway/pages gateway/password gateway/keyfile gateway/seal gateway/store gateway/strictjson gateway/cookiename gateway/headername
	gateway/store/guard gateway/store/redisstore gateway/store/sqlitestore
	gateway/conn
	gateway/peer
	gateway/config/strictyaml
	gateway/config
	gateway/provider
	gateway/acme
	gateway/certs
	gateway/auth
	gateway/login
	gateway/upstream/http1
	gateway/upstream
	gateway/web
	gateway/endpoint
	gateway
	gateway/server
	upstream upstream/provider
	cmd/internal/app
	cmd/authgate cmd/demo cmd/upstream
`

// testingPackages serve tests, in the same order. No other package imports them.
const testingPackages = `
	gateway/porttest gateway/clocktest gateway/logtest gateway/headername/headernametest
	gateway/store/storetest
`

func TestImportOrder(t *testing.T) {
	t.Parallel()
	line := map[string]int{}
	for number, packages := range strings.Split(importOrder+testingPackages, "\n") {
		for _, name := range strings.Fields(packages) {
			line[name] = number
		}
	}
	unlisted := map[string]bool{}
	forEachFile(t, func(file, from string, imports []string) {
		unlisted[from] = line[from] == 0
		for _, to := range imports {
			if line[to] >= line[from] {
				t.Errorf("%s: %s imports %s, which importOrder does not have on a line above it", file, from, to)
			}
		}
	})
	for name, missing := range unlisted {
		if missing {
			t.Errorf("importOrder does not list %s", name)
		}
	}
}

// forEachFile calls visit for each Go file of this module, with its package
// and the packages of this module that it imports. Files for all operating
// systems count; files of tests do not.
func forEachFile(t *testing.T, visit func(file, name string, imports []string)) {
	t.Helper()
	root := os.DirFS("..")
	files := 0
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := fs.Stat(root, path.Join(file, "go.mod"))
			if file != "." && (err == nil || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return fs.SkipDir // another module, or no package
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, spec := range parsed.Imports {
			if name, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "authgate/"); ok {
				imports = append(imports, name)
			}
		}
		visit(file, path.Dir(file), imports)
		files++
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files read: %v", files, err)
	}
}
