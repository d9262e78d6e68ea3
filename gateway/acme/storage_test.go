package acme

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/seal"
	"authgate/gateway/store"
)

// newBox is the box of a secret; the same one for the same letter.
func newBox(t testing.TB, letter string) *seal.Box {
	t.Helper()
	box, err := seal.New([]byte(strings.Repeat(letter, seal.MinSecret)))
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func newMemory(t testing.TB) *store.Memory {
	t.Helper()
	memory := store.NewMemory(nil)
	t.Cleanup(func() { _ = memory.Close() })
	return memory
}

// TestStorage tests what the documentation of certmagic.Storage demands.
func TestStorage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *Storage){
		"Nothing": testNothing, "Values": testValues, "Folders": testFolders, "Delete": testDelete,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, NewStorage(newMemory(t), newBox(t, "a"), time.Now))
		})
	}
}

func put(t testing.TB, s certmagic.Storage, name, content string) {
	t.Helper()
	if err := s.Store(t.Context(), name, []byte(content)); err != nil {
		t.Fatalf("Store(%q): %v", name, err)
	}
}

func remove(t testing.TB, s certmagic.Storage, name string) {
	t.Helper()
	if err := s.Delete(t.Context(), name); err != nil {
		t.Fatalf("Delete(%q): %v", name, err)
	}
}

func wantFile(t testing.TB, s certmagic.Storage, name, content string) {
	t.Helper()
	if got, err := s.Load(t.Context(), name); err != nil || string(got) != content {
		t.Fatalf("Load(%q) = %.100q, %v; want %.100q", name, got, err, content)
	}
	info, err := s.Stat(t.Context(), name)
	if err != nil || info.Key != name || info.Size != int64(len(content)) || !info.IsTerminal {
		t.Fatalf("Stat(%q) = %+v, %v; want a file of %d bytes", name, info, err, len(content))
	}
	if !s.Exists(t.Context(), name) {
		t.Fatalf("Exists(%q) is false", name)
	}
}

// wantFolder fails the test unless folder has these entries, and they all
// with those below.
func wantFolder(t testing.TB, s certmagic.Storage, folder string, entries, all []string) {
	t.Helper()
	for recursive, want := range map[bool][]string{false: entries, true: all} {
		got, err := s.List(t.Context(), folder, recursive)
		slices.Sort(got) // no order is promised
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("List(%q, %t): %v (-want +got):\n%s", folder, recursive, err, diff)
		}
	}
	if info, err := s.Stat(t.Context(), folder); err != nil || info.Key != folder || info.IsTerminal {
		t.Fatalf("Stat(%q) = %+v, %v; want a folder", folder, info, err)
	}
	if !s.Exists(t.Context(), folder) {
		t.Fatalf("Exists(%q) is false", folder)
	}
}

func wantNone(t testing.TB, s certmagic.Storage, name string) {
	t.Helper()
	if got, err := s.Load(t.Context(), name); !errors.Is(err, fs.ErrNotExist) || got != nil {
		t.Fatalf("Load(%q) = %q, %v; want fs.ErrNotExist", name, got, err)
	}
	if info, err := s.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat(%q) = %+v, %v; want fs.ErrNotExist", name, info, err)
	}
	for _, recursive := range []bool{false, true} {
		if got, err := s.List(t.Context(), name, recursive); !errors.Is(err, fs.ErrNotExist) || len(got) != 0 {
			t.Fatalf("List(%q, %t) = %q, %v; want fs.ErrNotExist", name, recursive, got, err)
		}
	}
	if s.Exists(t.Context(), name) {
		t.Fatalf("Exists(%q)", name)
	}
}

func testNothing(t *testing.T, s *Storage) {
	for _, name := range []string{"a", "a/b"} {
		wantNone(t, s, name)
		remove(t, s, name)
	}
}

func testValues(t *testing.T, s *Storage) {
	for _, content := range []string{"first", "", "a longer one", "\x00\xff\n", strings.Repeat("0123456789", 2000)} {
		slice := []byte(content)
		before := time.Now().Truncate(time.Second) // as exact as a file system at worst
		if err := s.Store(t.Context(), "folder/file", slice); err != nil {
			t.Fatal(err)
		}
		clear(slice) // it is the caller's
		wantFile(t, s, "folder/file", content)
		info, err := s.Stat(t.Context(), "folder/file")
		if err != nil || info.Modified.Before(before) || info.Modified.After(time.Now().Add(time.Second)) {
			t.Errorf("modified %v, want after %v (%v)", info.Modified, before, err)
		}
	}
}

func testFolders(t *testing.T, s *Storage) {
	for _, name := range []string{"a/b/c/d", "a/b/e", "a/f", "ab/g", "a.b", "h"} {
		put(t, s, name, "content of "+name)
	}
	wantFolder(t, s, "a/b", []string{"a/b/c", "a/b/e"}, []string{"a/b/c", "a/b/c/d", "a/b/e"})
	wantFolder(t, s, "a", []string{"a/b", "a/f"}, []string{"a/b", "a/b/c", "a/b/c/d", "a/b/e", "a/f"})
	wantFolder(t, s, "ab", []string{"ab/g"}, []string{"ab/g"})
	wantFolder(t, s, "", []string{"a", "a.b", "ab", "h"},
		[]string{"a", "a.b", "a/b", "a/b/c", "a/b/c/d", "a/b/e", "a/f", "ab", "ab/g", "h"})
	wantFile(t, s, "a/b/c/d", "content of a/b/c/d")
	wantNone(t, s, "a/b/c/x")
	wantNone(t, s, "b")
	if content, err := s.Load(t.Context(), "a/b"); err == nil {
		t.Errorf("a folder is read: %q", content)
	}
	wantNone(t, s, "h/below") // a file is not a folder
	if list, err := s.List(t.Context(), "h", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("listing a file: %q, %v", list, err)
	}
	remove(t, s, "ab/g")
	wantNone(t, s, "ab") // a folder without files does not exist
}

func testDelete(t *testing.T, s *Storage) {
	for _, name := range []string{"a/b/c", "a/b/d", "a/e", "a/bc/f", "ab/g"} {
		put(t, s, name, name)
	}
	remove(t, s, "a/b/c")
	wantNone(t, s, "a/b/c")
	remove(t, s, "a/b/c")
	wantFile(t, s, "a/b/d", "a/b/d")
	remove(t, s, "a/b") // with a/b/d, and without a/bc
	wantNone(t, s, "a/b")
	wantNone(t, s, "a/b/d")
	wantFolder(t, s, "a", []string{"a/bc", "a/e"}, []string{"a/bc", "a/bc/f", "a/e"})
	put(t, s, "a/b/c", "again")
	wantFile(t, s, "a/b/c", "again")
	remove(t, s, "a")
	wantNone(t, s, "a")
	wantFolder(t, s, "", []string{"ab"}, []string{"ab", "ab/g"})
}
