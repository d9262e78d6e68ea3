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
func wantFiles(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != want {
		t.Errorf("the files are %q, %v, want %q", got, err, want)
	}
}

// A new file has a mode of its own, and a file that exists is left alone.
func TestKeep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keep    func(string, func() ([]byte, error)) ([]byte, error)
		exists  bool
		content string
		mode    fs.FileMode
	}{
		"Keep": {Keep, false, "secret", 0o600}, "KeepPublic": {KeepPublic, false, "secret", 0o644},
		"a given file": {Keep, true, "given", 0o640}, "an empty file": {Keep, true, "", 0o640},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "key.pem")
		if test.exists {
			if err := errors.Join(
				os.WriteFile(path, []byte(test.content), 0o600),
				os.Chmod(path, test.mode), // whatever the umask
			); err != nil {
				t.Fatal(err)
			}
		} else if got, err := test.keep(path, generates(test.content)); err != nil || string(got) != test.content {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, test.content)
		}
		if got, err := test.keep(path, never(t)); err != nil || string(got) != test.content {
			t.Errorf("%s, again: got %q, %v, want %q", name, got, err, test.content)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != test.mode {
			t.Errorf("%s: got %v, %v, want a file of mode %v", name, info, err, test.mode)
		}
		wantFiles(t, dir, "key.pem")
	}
}

// Of many that start at once all end up with one key.
func TestConcurrentKeepersAgree(t *testing.T) {
	t.Parallel()
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
		"a link to a nowhere": {"link", generates("secret"), "no such file"},
	} {
		dir := t.TempDir()
		if err := errors.Join(
			os.Mkdir(filepath.Join(dir, "directory"), 0o700),
			os.Symlink("nowhere", filepath.Join(dir, "link")),
		); err != nil {
			t.Fatal(err)
		}
		got, err := Keep(filepath.Join(dir, test.path), test.generate)
		if len(got) > 0 || err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), filepath.Base(dir)) {
			t.Errorf("%s: got %q, %v, want an error alone that names the file and says %q", name, got, err, test.want)
		}
		if test.want == broken.Error() && !errors.Is(err, broken) {
			t.Errorf("the error hides its cause: %v", err)
		}
		wantFiles(t, dir, "directory link")
	}
}

// A public file is replaced as a whole, or stays as it was.
func TestReplacePublic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "ca.pem")
	for _, content := range []string{"one", "another"} {
		if err := ReplacePublic(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("the content is %q (%v), want %q", got, err, content)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the mode is %v (%v)", info, err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, filepath.Join(dir, "nowhere", "ca.pem")} {
		if err := ReplacePublic(path, []byte("x")); err == nil ||
			!strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("%s: %v", path, err)
		}
	}
	wantFiles(t, dir, "ca.pem folder")
}
