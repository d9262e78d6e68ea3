package acme

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
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

// TestStorage holds the Storage, and the one that certmagic has for files, to
// what the documentation of certmagic.Storage demands.
func TestStorage(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) certmagic.Storage{
		"store": func(t *testing.T) certmagic.Storage { return NewStorage(newMemory(t), newBox(t, "a"), time.Now) },
		"files": func(t *testing.T) certmagic.Storage { return &certmagic.FileStorage{Path: t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			for name, test := range map[string]func(*testing.T, certmagic.Storage){
				"Nothing": testNothing, "Values": testValues, "Folders": testFolders, "Delete": testDelete,
				"NamesOfCertmagic": testNamesOfCertmagic, "ManyWriters": testManyWriters, "OneFile": testOneFile, "Locks": testLocks,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, open(t))
				})
			}
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

func testNothing(t *testing.T, s certmagic.Storage) {
	for _, name := range []string{"a", "a/b"} {
		wantNone(t, s, name)
		remove(t, s, name)
	}
}

func testValues(t *testing.T, s certmagic.Storage) {
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

func testFolders(t *testing.T, s certmagic.Storage) {
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
}

func testDelete(t *testing.T, s certmagic.Storage) {
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

// testNamesOfCertmagic lets certmagic make the names.
func testNamesOfCertmagic(t *testing.T, s certmagic.Storage) {
	const issuer, domain = "acme-v02.api.letsencrypt.org-directory", "gate.example.org"
	keys := certmagic.StorageKeys
	names := []string{keys.SiteCert(issuer, domain), keys.SitePrivateKey(issuer, domain), keys.SiteMeta(issuer, domain)}
	slices.Sort(names)
	for _, name := range append(names, "acme/"+issuer+"/users/admin@example.org/admin.json", "last_clean.json") {
		put(t, s, name, name)
	}
	wantFolder(t, s, keys.CertsSitePrefix(issuer, domain), names, names)
	wantFolder(t, s, keys.CertsPrefix(issuer), []string{keys.CertsSitePrefix(issuer, domain)},
		append([]string{keys.CertsSitePrefix(issuer, domain)}, names...))
	wantFolder(t, s, "acme/"+issuer+"/users/admin@example.org", []string{"acme/" + issuer + "/users/admin@example.org/admin.json"},
		[]string{"acme/" + issuer + "/users/admin@example.org/admin.json"})
}

// testManyWriters gives each goroutine files that only it writes.
func testManyWriters(t *testing.T, s certmagic.Storage) {
	const writers, files = 12, 4
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for file := range files {
				name := fmt.Sprintf("folder %d/%d/%d", writer%3, writer, file)
				if err := s.Store(t.Context(), name, []byte(name)); err != nil {
					t.Errorf("Store(%q): %v", name, err)
				}
				if file%2 == 0 {
					continue
				}
				if err := s.Delete(t.Context(), name); err != nil {
					t.Errorf("Delete(%q): %v", name, err)
				}
			}
		})
	}
	all.Wait()
	for writer := range writers {
		folder := fmt.Sprintf("folder %d/%d", writer%3, writer)
		names := []string{folder + "/0", folder + "/2"}
		wantFolder(t, s, folder, names, names)
		wantFile(t, s, names[1], names[1])
	}
}

// testOneFile lets many write one file: it is whole at all times.
func testOneFile(t *testing.T, s certmagic.Storage) {
	content := func(writer int) []byte { return bytes.Repeat([]byte{byte('a' + writer)}, 5000) }
	put(t, s, "file", string(content(0)))
	var writing sync.WaitGroup
	for writer := range 8 {
		writing.Go(func() {
			for range 5 {
				if err := s.Store(t.Context(), "file", content(writer)); err != nil {
					t.Errorf("Store: %v", err)
				}
				got, err := s.Load(t.Context(), "file")
				if err != nil || len(got) == 0 || !bytes.Equal(got, content(int(got[0]-'a'))) {
					t.Errorf("Load: %v, %.100q", err, got)
				}
			}
		})
	}
	writing.Wait()
}

func testLocks(t *testing.T, s certmagic.Storage) {
	if err := s.Lock(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Lock(soon, "one"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a lock that is held: %v", err)
	}
	if err := s.Lock(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- s.Lock(t.Context(), "one") }()
	for _, name := range []string{"another", "one"} {
		if err := s.Unlock(t.Context(), name); err != nil {
			t.Fatalf("unlocking %s: %v", name, err)
		}
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := s.Unlock(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
}

// TestStorageAndFiles is where FileStorage does not do as its interface says,
// and the Storage does.
func TestStorageAndFiles(t *testing.T) {
	t.Parallel()
	files, s := &certmagic.FileStorage{Path: t.TempDir()}, NewStorage(newMemory(t), newBox(t, "a"), time.Now)
	for _, storage := range []certmagic.Storage{files, s} {
		put(t, storage, "a/file", "content")
		put(t, storage, "b/file", "content")
		remove(t, storage, "b/file")
	}
	// A folder that holds nothing any more is none: folders are implied by
	// files.
	wantNone(t, s, "b")
	if list, err := files.List(t.Context(), "b", true); err != nil || len(list) != 0 || !files.Exists(t.Context(), "b") {
		t.Errorf("an empty folder, for FileStorage: %q, %v", list, err)
	}
	// Nothing is below a file, and to ask for it is no other error.
	wantNone(t, s, "a/file/below")
	if _, err := files.Load(t.Context(), "a/file/below"); errors.Is(err, fs.ErrNotExist) || !files.Exists(t.Context(), "a/file/below") {
		t.Errorf("below a file, for FileStorage: %v", err)
	}
	// A file is no folder that could be listed.
	if list, err := s.List(t.Context(), "a/file", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("listing a file: %q, %v", list, err)
	}
	if list, err := files.List(t.Context(), "a/file", true); err != nil || len(list) != 0 {
		t.Errorf("listing a file, for FileStorage: %q, %v", list, err)
	}
	// Who has given up changes nothing.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Store(ended, "c", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Store with an ended context: %v", err)
	}
	if err := s.Delete(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete with an ended context: %v", err)
	}
	wantFolder(t, s, "", []string{"a"}, []string{"a", "a/file"})
	for what, ask := range map[string]func() error{
		"Load": func() error { _, err := s.Load(ended, "a/file"); return err },
		"Stat": func() error { _, err := s.Stat(ended, "a/file"); return err },
		"List": func() error { _, err := s.List(ended, "a", true); return err },
	} {
		if err := ask(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", what, err)
		}
	}
	if err := files.Store(ended, "c", nil); err != nil {
		t.Errorf("Store with an ended context, for FileStorage: %v", err)
	}
}
