package deploy

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// TestImageContext checks that the builder of the image gets each file from which the
// program is built. `make image` builds it.
func TestImageContext(t *testing.T) {
	root := must.Get(filepath.Abs("../.."))(t)
	list := exec.CommandContext(t.Context(), "go", "list",
		"-deps", "-json=Dir,Module,GoFiles,EmbedFiles", "./cmd/authgate")
	list.Dir = root
	checked := 0
	for packages := json.NewDecoder(strings.NewReader(string(must.Get(list.Output())(t)))); ; {
		var p struct {
			Dir                 string
			Module              struct{ Main bool }
			GoFiles, EmbedFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(p.GoFiles, p.EmbedFiles...) {
			if !p.Module.Main {
				break
			}
			file := filepath.ToSlash(must.Get(filepath.Rel(root, filepath.Join(p.Dir, name)))(t))
			if checked++; ignored(t, file) {
				t.Errorf(".dockerignore keeps %s from the builder", file)
			}
		}
	}
	if checked < 100 || !ignored(t, "data/ca-key.pem") ||
		!ignored(t, "gateway/gateway_test.go") || !ignored(t, ".git/config") {
		t.Errorf("the builder gets more than it needs, or less than %d files", checked)
	}
}

// ignored reports whether .dockerignore, in which the last match decides, names a file.
func ignored(t *testing.T, file string) (yes bool) {
	t.Helper()
	for line := range strings.Lines(read(t, "../../.dockerignore")) {
		pattern, kept := strings.CutPrefix(strings.TrimSpace(line), "!")
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		anywhere, deep := strings.CutPrefix(strings.TrimSuffix(pattern, "/"), "**/")
		for at := file; at != "."; at = path.Dir(at) { // a folder decides about what is in it
			name := at
			if deep {
				name = path.Base(at)
			}
			if must.Get(path.Match(anywhere, name))(t) {
				yes = !kept
				break
			}
		}
	}
	return yes
}
