package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// never is what must not be asked to generate.
func never(t *testing.T) func() ([]byte, error) {
	return func() ([]byte, error) {
		t.Error("a key was generated")
		return []byte("another"), nil
	}
}

func generates(content string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(content), nil }
}

// wantFiles fails unless dir holds these files alone.
func wantFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Fatalf("got %v, %v, want %q", entries, err, names)
	}
	for i, entry := range entries {
		if entry.Name() != names[i] {
			t.Errorf("got %v, want %q", entries, names)
		}
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keep func(string, func() ([]byte, error)) ([]byte, error)
		mode fs.FileMode
	}{"Keep": {Keep, 0o600}, "KeepPublic": {KeepPublic, 0o644}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "key.pem")
			got, err := test.keep(path, generates("secret"))
			if err != nil || string(got) != "secret" {
				t.Fatalf("got %q, %v", got, err)
			}
			if got, err := test.keep(path, never(t)); err != nil || string(got) != "secret" {
				t.Errorf("again: got %q, %v", got, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != test.mode {
				t.Errorf("got %v, %v, want a file of mode %v", info, err, test.mode)
			}
			wantFiles(t, dir, "key.pem")
		})
	}
}

func TestKeepLeavesAnExistingFileAlone(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"given", ""} {
		path := filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o640); err != nil { // whatever the umask
			t.Fatal(err)
		}
		if got, err := Keep(path, never(t)); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
			t.Errorf("the mode became %v, %v", info.Mode(), err)
		}
	}
}

// Of many that start at once all end up with one key.
func TestConcurrentKeepersAgree(t *testing.T) {
	t.Parallel()
	for range 20 {
		dir := t.TempDir()
		path := filepath.Join(dir, "key.pem")
		got := make([]string, 20)
		var generated atomic.Int64
		all := make(chan struct{}) // closed when all generate, so that all race
		var keepers sync.WaitGroup
		for i := range got {
			keepers.Go(func() {
				content, err := Keep(path, func() ([]byte, error) {
					if generated.Add(1) == int64(len(got)) {
						close(all)
					}
					<-all
					return fmt.Appendf(nil, "secret %d", i), nil
				})
				if err != nil {
					t.Error(err)
				}
				got[i] = string(content)
			})
		}
		keepers.Wait()
		for _, content := range got {
			if content != got[0] || content == "" {
				t.Fatalf("they have %q", got)
			}
		}
		wantFiles(t, dir, "key.pem")
	}
}

func TestKeepFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no randomness")
	for name, test := range map[string]struct {
		path     string
		generate func() ([]byte, error)
		want     string
	}{
		"generating fails":    {"key.pem", func() ([]byte, error) { return []byte("half"), broken }, "no randomness"},
		"no directory":        {filepath.Join("missing", "key.pem"), generates("secret"), "no such file"},
		"it is a directory":   {"directory", never(t), "is a directory"},
		"a file on the way":   {filepath.Join("file", "key.pem"), never(t), "not a directory"},
		"a name with a NUL":   {"key\x00.pem", never(t), "invalid argument"},
		"a link to a nowhere": {"link", generates("secret"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := errors.Join(
				os.Mkdir(filepath.Join(dir, "directory"), 0o700),
				os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600),
				os.Symlink("nowhere", filepath.Join(dir, "link")),
			); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, test.path)
			got, err := Keep(path, test.generate)
			if len(got) > 0 || err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), filepath.Base(dir)) {
				t.Errorf("got %q, %v, want an error alone that names the file and says %q", got, err, test.want)
			}
			if name == "generating fails" && !errors.Is(err, broken) {
				t.Errorf("the error hides its cause: %v", err)
			}
			wantFiles(t, dir, "directory", "file", "link")
		})
	}
}
