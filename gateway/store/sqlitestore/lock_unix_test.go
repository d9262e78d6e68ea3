//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sqlitestore

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestOneOpenAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	link := filepath.Join(t.TempDir(), "other name.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	first := openTest(t, Options{Path: path})
	put(t, first, "key", "value")

	for _, name := range []string{path, link} {
		second, err := Open(t.Context(), Options{Path: name})
		if err == nil {
			t.Fatalf("second Open of %s succeeded; Close: %v", name, second.Close())
		}
		for _, part := range []string{name, "in use by another authgate", "process " + strconv.Itoa(os.Getpid())} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}

	// The attempt did no harm to the first, and ends with it.
	put(t, first, "key", "newer value")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	wantValue(t, openTest(t, Options{Path: link}), "key", "newer value")
}

// TestFilesAreTheOwnersAlone must not run beside others: the file mode mask
// belongs to the process.
func TestFilesAreTheOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	for name, existing := range map[string]os.FileMode{"new": 0, "left open to all": 0o666} {
		path := filepath.Join(t.TempDir(), "test.db")
		if existing != 0 {
			s := openTest(t, Options{Path: path})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, existing); err != nil {
				t.Fatal(err)
			}
		}
		s := openTest(t, Options{Path: path})
		put(t, s, "key", "value")
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			info, err := os.Stat(path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != 0o600 {
				t.Errorf("%s: mode of *%s is %o, want 600", name, suffix, got)
			}
		}
	}
}
