//go:build unix

package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/internal/test/must"
)

func written(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	must.Do(t, os.Chmod(path, mode))
	return path
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	if got := must.Get(os.ReadFile(path))(t); string(got) != want {
		t.Errorf("%s has %q, want %q", path, got, want)
	}
	files := must.Get(os.ReadDir(filepath.Dir(path)))(t)
	for _, file := range files {
		if file.Name()[0] == '.' {
			t.Errorf("%s remains", file.Name())
		}
	}
}

func to(content string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(content), nil }
}

func nothing() error { return nil }

var errTest = errors.New("as the test says")

// change is File without something to do before the change.
func change(ctx context.Context, path string, edit func([]byte) ([]byte, error), after func() error) error {
	return File(ctx, path, edit, nil, after)
}

// A change replaces the content, and keeps the mode, the owner and a link.
func TestChangeFile(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o600, 0o640, 0o664, 0o400} {
		path := written(t, "old\n", mode)
		if mode == 0o400 && os.Geteuid() != 0 {
			if err := change(t.Context(), path, to("new\n"), nothing); !errors.Is(err, ErrNotWritable) ||
				Possible(path) {
				t.Errorf("a file that its owner must not write: %v", err)
			}
			continue
		}
		link := filepath.Join(t.TempDir(), "link.yaml")
		must.Do(t, os.Symlink(path, link))
		if os.Geteuid() == 0 {
			must.Do(t, os.Chown(path, 12345, 54321))
		}
		before := must.Get(os.Stat(path))(t).Sys().(*syscall.Stat_t)
		err := change(t.Context(), link, func(content []byte) ([]byte, error) {
			return append(content, "new\n"...), nil
		}, func() error {
			wantContent(t, path, "old\nnew\n")
			return nil
		})
		must.Do(t, err)
		wantContent(t, path, "old\nnew\n")
		info := must.Get(os.Stat(path))(t)
		after := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != mode || after.Uid != before.Uid || after.Gid != before.Gid || after.Ino == before.Ino {
			t.Errorf("the mode is %v, the owner %d:%d; want %v, %d:%d, and another file", info.Mode(), after.Uid, after.Gid,
				mode, before.Uid, before.Gid)
		}
		if to := must.Get(os.Readlink(link))(t); to != path {
			t.Errorf("the link leads to %s", to)
		}
	}
}

// After a failure, at any point, the file has its old content.
func TestChangeFails(t *testing.T) {
	t.Parallel()
	path := written(t, "old\n", 0o640)
	fails := func([]byte) ([]byte, error) { return nil, errTest }
	if err := change(t.Context(), path, fails,
		func() error { t.Error("after is called"); return nil }); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	wantContent(t, path, "old\n")
	if err := change(t.Context(), path, to("new\n"), func() error { return errTest }); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	wantContent(t, path, "old\n")
	if mode := must.Get(os.Stat(path))(t).Mode(); mode != 0o640 {
		t.Errorf("the mode is %v", mode)
	}
	if err := change(t.Context(), path+".no", to(""), nothing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Changes at the same time lose nothing: each begins with what the one before has made.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	path := written(t, "", 0o600)
	var mu sync.Mutex // only for the race detector, which does not know the lock of the file
	var want bytes.Buffer
	var changes sync.WaitGroup
	for i := range 20 {
		changes.Go(func() {
			line := fmt.Sprintf("change %d\n", i)
			if err := change(t.Context(), path,
				func(content []byte) ([]byte, error) { return append(content, line...), nil }, func() error {
					if i%5 == 0 {
						return errTest
					}
					mu.Lock()
					defer mu.Unlock()
					want.WriteString(line)
					return nil
				}); i%5 != 0 && err != nil {
				t.Error(err)
			}
		})
	}
	changes.Wait()
	wantContent(t, path, want.String())
}

// What an editor saves in the middle of a change stays: the change begins again with it. The
// editor does not know the lock.
func TestChangeMeetsEditor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		saves func(path, content string) error
	}{
		{"in place", func(path, content string) error { return os.WriteFile(path, []byte(content), 0o600) }},
		{"by a new file", func(path, content string) error {
			return errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path))
		}},
	} {
		path, readied, saved := written(t, "old\n", 0o600), 0, 0
		edit := func(content []byte) ([]byte, error) {
			if saved++; saved <= 2 {
				must.Do(t, c.saves(path, fmt.Sprintf("saved %d\n", saved)))
			}
			return append(bytes.Clone(content), "edited\n"...), nil
		}
		must.Do(t, File(t.Context(), path, edit, func() error { readied++; return nil }, nothing))
		wantContent(t, path, "saved 2\nedited\n")
		if readied != 1 {
			t.Errorf("%s: ready is called %d times", c.name, readied)
		}
		endless := func(content []byte) ([]byte, error) {
			saved++
			return content, c.saves(path, fmt.Sprintf("saved %d\n", saved))
		}
		if err := change(t.Context(), path, endless, nothing); !errors.Is(err, ErrOvertaken) {
			t.Errorf("%s: a file that changes all the time: %v", c.name, err)
		}
		wantContent(t, path, fmt.Sprintf("saved %d\n", saved))
		must.Do(t, os.WriteFile(path, []byte("old\n"), 0o600))
		err := change(t.Context(), path, to("new\n"), func() error { return errors.Join(c.saves(path, "saved\n"), errTest) })
		if !errors.Is(err, errTest) || !strings.Contains(err.Error(), "restoring") {
			t.Errorf("%s: a change that fails after an editor has saved the file: %v", c.name, err)
		}
		wantContent(t, path, "saved\n")
		if left := must.Get(os.ReadDir(filepath.Dir(path)))(t); len(left) != 1 {
			t.Errorf("%s: the folder has %v", c.name, left)
		}
	}
}

// A change waits for another one, but not longer than its context.
func TestChangeWaits(t *testing.T) {
	t.Parallel()
	path := written(t, "old\n", 0o600)
	err := change(t.Context(), path, to("new\n"), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := change(ctx, path, to("other\n"), nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second change: %v", err)
		}
		return nil
	})
	must.Do(t, err)
	wantContent(t, path, "new\n")
}

func TestPossible(t *testing.T) {
	t.Parallel()
	path := written(t, "", 0o600)
	folder := filepath.Dir(path)
	for _, c := range []struct {
		path string
		want bool
	}{{path, true}, {"", false}, {path + ".no", false}, {folder, false}, {os.DevNull, false}} {
		if got := Possible(c.path); got != c.want {
			t.Errorf("%q: %t, want %t", c.path, got, c.want)
		}
	}
	if os.Geteuid() == 0 {
		return // may write everywhere
	}
	must.Do(t, os.Chmod(folder, 0o500))
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
	if Possible(path) {
		t.Error("a file whose folder cannot be changed")
	}
}
