package watch

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// patience is how long a test waits for a notice that must come.
const patience = 20 * time.Second

// world is a folder with a Watcher of one file in it.
type world struct {
	*Watcher
	t   *testing.T
	dir string
}

func watching(t *testing.T, file string, prepare func(*world)) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir}
	prepare(w)
	if w.Watcher, err = New(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.Watch([]string{w.path(file)}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) do(errs ...error) {
	w.t.Helper()
	for _, err := range errs {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) write(name, content string) {
	w.t.Helper()
	w.do(os.MkdirAll(filepath.Dir(w.path(name)), 0o700), os.WriteFile(w.path(name), []byte(content), 0o600))
}

// wantNotice fails the test if there is no notice.
func (w *world) wantNotice(what string) {
	w.t.Helper()
	select {
	case <-w.Notices():
	case <-time.After(patience):
		w.t.Errorf("no notice of %s", what)
	}
}

// Each way in which a file changes is noticed: more than once, too.
func TestNotices(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(w *world, content string){
		"a write": func(w *world, content string) { w.write("config.yaml", content) },
		"a rename": func(w *world, content string) {
			w.write("new", content)
			w.do(os.Rename(w.path("new"), w.path("config.yaml")))
		},
		"an editor's swap file": func(w *world, content string) {
			w.write("config.yaml.swp", content)
			w.do(os.Rename(w.path("config.yaml"), w.path("config.yaml~")),
				os.Rename(w.path("config.yaml.swp"), w.path("config.yaml")))
		},
		"a removal and a new file": func(w *world, content string) {
			w.do(os.Remove(w.path("config.yaml")))
			w.wantNotice("the removal")
			w.write("config.yaml", content)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := watching(t, "config.yaml", func(w *world) { w.write("config.yaml", "0") })
			for _, content := range []string{"1", "2", "3"} {
				change(w, content)
				w.wantNotice(what)
			}
		})
	}
}

// Kubernetes turns the link ..data from one folder to the next.
func TestNoticesOfLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	w := watching(t, "mount/config.yaml", func(w *world) {
		w.write("mount/..1/config.yaml", "1")
		w.do(os.Symlink("..1", w.path("mount/..data")), os.Symlink("..data/config.yaml", w.path("mount/config.yaml")))
	})
	for _, next := range []string{"..2", "..3"} {
		w.write("mount/"+next+"/config.yaml", next)
		w.do(os.Symlink(next, w.path("mount/..data_tmp")), os.Rename(w.path("mount/..data_tmp"), w.path("mount/..data")))
		w.wantNotice("the link to " + next)
		if !w.counts(w.path("mount/" + next + "/config.yaml")) {
			t.Errorf("the file in %s is not watched", next)
		}
	}
}

// A folder that is replaced is watched again.
func TestNoticesOfFolders(t *testing.T) {
	t.Parallel()
	w := watching(t, "etc/config.yaml", func(w *world) { w.write("etc/config.yaml", "1") })
	w.write("next/config.yaml", "2")
	w.do(os.Rename(w.path("etc"), w.path("old")))
	w.wantNotice("the folder that moves away")
	w.do(os.Rename(w.path("next"), w.path("etc")), w.Watch([]string{w.path("etc/config.yaml")}))
	if info, err := os.Stat(w.path("etc")); err != nil || !os.SameFile(w.folders[w.path("etc")], info) {
		t.Errorf("the new folder is not watched: %v", err)
	}
}

// Files beside the watched one give no notice.
func TestNoNotices(t *testing.T) {
	t.Parallel()
	w := watching(t, "config.yaml", func(w *world) { w.write("config.yaml", "0") })
	w.write("other", "1")
	if w.counts(w.path("other")) || !w.counts(w.path("config.yaml")) {
		t.Error("another file counts, or the watched one does not")
	}
}

func TestWay(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir}
	w.write("a/b/file", "")
	for link, target := range map[string]string{
		"up": "absolute/../a/b", "absolute": w.path("a"), "loop": "loop", "a/b/link": "../b/file",
	} {
		w.do(os.Symlink(target, w.path(link)))
	}
	for file, want := range map[string][]string{
		"a/b/file":        {"a/b/file"},
		"a/./b/../b/file": {"a/b/file"},
		"a/b/missing":     {"a/b/missing"},
		"a/c/file":        {"a/c"},
		"up/file":         {"up", "absolute", "a/b/file"},
		"absolute/b/link": {"absolute", "a/b/link", "a/b/file"},
	} {
		for i := range want {
			want[i] = w.path(want[i])
		}
		if got := way(w.path(file)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	if got := way(w.path("loop")); len(got) != maxLinks+1 {
		t.Errorf("a loop: %d steps", len(got))
	}
}

// Files that come and go where a pattern looks for them are noticed.
func TestNoticesOfPattern(t *testing.T) {
	t.Parallel()
	w := watching(t, filepath.Join("conf.d", "*.yaml"), func(w *world) { w.do(os.Mkdir(w.path("conf.d"), 0o700)) })
	w.write("conf.d/a.yaml", "a")
	w.wantNotice("a file that comes")
	w.do(os.Remove(w.path("conf.d/a.yaml")))
	w.wantNotice("a file that goes")
}
