package gateway

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// importOrder lists the packages of the module from the ground up. A package
// imports only packages on lines above its own. The last lines serve tests.
const importOrder = `
	docs
	policy gateway/pages gateway/password gateway/keyfile gateway/seal gateway/store gateway/strictjson gateway/lru gateway/cookiename gateway/headername
	gateway/store/guard gateway/store/redisstore gateway/store/sqlitestore
	gateway/rate gateway/cors
	gateway/conn
	gateway/peer
	gateway/config/strictyaml
	gateway/accounts
	gateway/config
	gateway/tracing gateway/provider
	gateway/acme
	gateway/certs
	gateway/auth
	gateway/login
	gateway/upstream/http1
	gateway/upstream/http2
	gateway/upstream
	gateway/web
	gateway/streams
	gateway/mechanism
	gateway/endpoint
	gateway/signin
	gateway/account
	gateway
	gateway/server
	upstream upstream/provider
	cmd/internal/watch cmd/internal/control
	cmd/internal/app
	cmd/authgate cmd/demo cmd/upstream
	gateway/must gateway/porttest gateway/clocktest gateway/logtest gateway/headername/headernametest
	gateway/scripttest gateway/store/storetest gateway/password/passwordtest
`

func TestImportOrder(t *testing.T) {
	t.Parallel()
	line := map[string]int{}
	for number, packages := range strings.Split(importOrder, "\n") {
		for _, name := range strings.Fields(packages) {
			line[name] = number
		}
	}
	files := goFiles(t)
	for _, file := range files {
		from := path.Dir(file)
		if line[from] == 0 {
			t.Errorf("importOrder does not list %s", from)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "authgate/"); ours && line[to] >= line[from] {
				t.Errorf("%s: %s imports %s, which importOrder does not have on a line above it", file, from, to)
			}
		}
	}
	if len(files) == 0 {
		t.Error("no files were read")
	}
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
			if _, err := fs.Stat(root, path.Join(file, "go.mod")); err == nil || entry.Name()[0] == '.' || entry.Name() == "testdata" {
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
