//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sqlitestore

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"authgate/internal/test/storetest"
)

func TestOneOpenAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	link := filepath.Join(t.TempDir(), "other name.db")
	wantError(t, "symlink", os.Symlink(path, link), nil)
	first := openTest(t, Options{Path: path})
	storetest.Put(t, first, "key", "value")
	for _, name := range []string{path, link} {
		wantRefused(t, Options{Path: name}, "in use by another authgate", "process "+strconv.Itoa(os.Getpid()))
	}
	storetest.Put(t, first, "key", "newer value") // the attempt did no harm to the first, and ends with it
	wantError(t, "Close", first.Close(), nil)
	storetest.WantValue(t, openTest(t, Options{Path: link}), "key", "newer value")
}

// TestFilesAreTheOwnersAlone must not run beside others: the file mode mask
// belongs to the process.
func TestFilesAreTheOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "test.db")
	for _, name := range []string{"new", "left open to all"} {
		s := openTest(t, Options{Path: path})
		storetest.Put(t, s, "key", "value")
		for _, suffix := range []string{"", walSuffix, shmSuffix, ".lock"} {
			if info, err := os.Stat(path + suffix); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: *%s: %v, %v; want mode 600", name, suffix, info, err)
			}
		}
		wantError(t, "Close", s.Close(), nil)
		wantError(t, "chmod", os.Chmod(path, 0o666), nil)
	}
}
