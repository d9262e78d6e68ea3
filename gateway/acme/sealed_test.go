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

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/store"
)

// spyStore remembers what was written, and can be told to fail.
type spyStore struct {
	store.Store
	memory  *store.Memory // below it
	mu      sync.Mutex
	calls   int
	failing func(call int, operation, key string) bool // nil: never
	late    bool                                       // a write that fails has happened
	written map[string][]byte
}

var errDown = errors.New("the store is down")

func newSpy(t testing.TB) *spyStore {
	t.Helper()
	memory := newMemory(t)
	return &spyStore{Store: memory, memory: memory, written: map[string][]byte{}}
}

// fail lets the calls fail for which failing is true, counted from 1.
func (s *spyStore) fail(failing func(call int, operation, key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.failing = 0, failing
}

// count returns the number of calls since fail.
func (s *spyStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// raw returns what is at a place in the store.
func (s *spyStore) raw(t testing.TB, key string) []byte {
	t.Helper()
	value, err := s.Store.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return slices.Clone(value)
}

// call makes one call, or fails as told.
func (s *spyStore) call(operation, key string, value []byte, do func() error) error {
	s.mu.Lock()
	s.calls++
	failing := s.failing != nil && s.failing(s.calls, operation, key)
	late := s.late && operation != "get"
	if value != nil {
		s.written[key] = bytes.Clone(value)
	}
	s.mu.Unlock()
	if failing && !late {
		return errDown
	}
	err := do()
	if failing {
		return errDown
	}
	return err
}

func (s *spyStore) Get(ctx context.Context, key string) (value []byte, err error) {
	err = s.call("get", key, nil, func() error {
		value, err = s.Store.Get(ctx, key)
		return err
	})
	return value, err
}

func (s *spyStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	return s.call("put", key, value, func() error { return s.Store.Put(ctx, key, value, expires) })
}

func (s *spyStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	return s.call("swap", key, value, func() error { return s.Store.Swap(ctx, key, old, value, expires) })
}

func (s *spyStore) Delete(ctx context.Context, key string) error {
	return s.call("delete", key, nil, func() error { return s.Store.Delete(ctx, key) })
}

// wantRefused fails the test unless err tells what to do, and is not one that
// would have a new certificate ordered.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "store.encryption_key") {
		t.Errorf("%s: %v", what, err)
	}
}

// A reader of the store learns no content, and only the names in the keys.
func TestStoreHoldsNoPlainText(t *testing.T) {
	t.Parallel()
	spy := newSpy(t)
	s := NewStorage(spy, newBox(t, "a"), time.Now)
	put(t, s, "certificates/key", "PRIVATE KEY")
	put(t, s, "certificates/key", "PRIVATE KEY")
	if len(spy.written) != 2 {
		t.Errorf("%d entries, want the file and the names", len(spy.written))
	}
	for key, value := range spy.written {
		if bytes.Contains(value, []byte("PRIVATE")) || bytes.Contains(value, []byte("certificates")) {
			t.Errorf("%s holds %q", key, value)
		}
	}
}

// A writer to the store can neither move a value nor make one.
func TestMovedAndChangedValues(t *testing.T) {
	t.Parallel()
	spy := newSpy(t)
	s := NewStorage(spy, newBox(t, "a"), time.Now)
	put(t, s, "a.example/key", "the key of a")
	put(t, s, "b.example/key", "the key of b")
	a, names := spy.raw(t, filePrefix+"a.example/key"), spy.raw(t, namesKey)
	changed := slices.Clone(a)
	changed[len(changed)/2]++
	for what, value := range map[string][]byte{
		"another file's": a, "the names": names, "changed": changed, "cut": a[:20], "empty": {}, "plain": []byte("the key of m"),
		"too short": newBox(t, "a").Seal([]byte("1234567"), filePrefix+"b.example/key"),
	} {
		if err := spy.Put(t.Context(), filePrefix+"b.example/key", value, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if content, err := s.Load(t.Context(), "b.example/key"); err == nil || errors.Is(err, fs.ErrNotExist) || content != nil {
			t.Errorf("%s: Load = %q, %v", what, content, err)
		}
		if info, err := s.Stat(t.Context(), "b.example/key"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Stat = %+v, %v", what, info, err)
		}
		if s.Exists(t.Context(), "b.example/key") {
			t.Errorf("%s: it exists", what)
		}
	}
	for what, value := range map[string][]byte{"a file": a, "changed": changed, "plain": []byte(`["c"]`)} {
		if err := spy.Put(t.Context(), namesKey, value, time.Time{}); err != nil {
			t.Fatal(err)
		}
		_, err := s.List(t.Context(), "", true)
		wantRefused(t, what+" for the names: List", err)
		wantRefused(t, what+" for the names: Store", s.Store(t.Context(), "c", nil))
		wantRefused(t, what+" for the names: Delete", s.Delete(t.Context(), "a.example"))
	}
	wantFile(t, s, "a.example/key", "the key of a") // whatever the names are
	if err := spy.Put(t.Context(), namesKey, newBox(t, "a").Seal([]byte("{}"), namesKey), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), "", true); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("names that are no list: %v", err)
	}
}

// An instance with another key says so, whatever it is asked, and changes
// nothing.
func TestAnotherKey(t *testing.T) {
	t.Parallel()
	spy := newSpy(t)
	right, wrong := NewStorage(spy, newBox(t, "a"), time.Now), NewStorage(spy, newBox(t, "b"), time.Now)
	put(t, right, "folder/file", "content")
	_, err := wrong.Load(t.Context(), "folder/file")
	wantRefused(t, "Load", err)
	_, err = wrong.Stat(t.Context(), "folder/file")
	wantRefused(t, "Stat", err)
	_, err = wrong.Stat(t.Context(), "folder")
	wantRefused(t, "Stat of a folder", err)
	_, err = wrong.List(t.Context(), "folder", true)
	wantRefused(t, "List", err)
	wantRefused(t, "Delete", wrong.Delete(t.Context(), "folder"))
	wantRefused(t, "Store", wrong.Store(t.Context(), "folder/new", nil))
	wantFile(t, right, "folder/file", "content")
	wantFolder(t, right, "", []string{"folder"}, []string{"folder", "folder/file"})
}

// TestBrokenOff makes each call of each operation to the store fail, before or after
// it is carried out. The operation then returns the error, all listed files can be
// read, and a repetition succeeds.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	operations := map[string]func(context.Context, *Storage) error{
		"a new file": func(ctx context.Context, s *Storage) error { return s.Store(ctx, "a/new", []byte("content")) },
		"a change":   func(ctx context.Context, s *Storage) error { return s.Store(ctx, "a/b", []byte("content")) },
		"a file":     func(ctx context.Context, s *Storage) error { return s.Delete(ctx, "a/b") },
		"a folder":   func(ctx context.Context, s *Storage) error { return s.Delete(ctx, "a") },
	}
	after := map[string][]string{
		"a new file": {"a/b", "a/c/d", "a/new", "e"}, "a change": {"a/b", "a/c/d", "e"}, "a file": {"a/c/d", "e"}, "a folder": {"e"},
	}
	for name, operate := range operations {
		for _, late := range []bool{false, true} {
			broken := 1
			for ; ; broken++ {
				spy := newSpy(t)
				s := NewStorage(spy, newBox(t, "a"), time.Now)
				for _, file := range []string{"a/b", "a/c/d", "e"} {
					put(t, s, file, file)
				}
				spy.late = late
				spy.fail(func(call int, _, _ string) bool { return call == broken })
				err := operate(t.Context(), s)
				if spy.count() < broken {
					break // it has no more calls
				}
				what := fmt.Sprintf("%s, call %d, late %t", name, broken, late)
				if !errors.Is(err, errDown) {
					t.Errorf("%s: %v", what, err)
				}
				spy.fail(nil)
				listed(t, s)
				if err := operate(t.Context(), s); err != nil {
					t.Errorf("%s, again: %v", what, err)
				}
				if diff := cmp.Diff(after[name], listed(t, s)); diff != "" {
					t.Errorf("%s, in the end (-want +got):\n%s", what, diff)
				}
			}
			if broken < 3 {
				t.Errorf("%s was broken off in %d places only", name, broken-1)
			}
		}
	}
}

// listed returns the files that are listed, which must all be readable.
func listed(t *testing.T, s *Storage) []string {
	t.Helper()
	names, err := s.List(t.Context(), "", true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		info, err := s.Stat(t.Context(), name)
		if err != nil {
			t.Errorf("%s is listed, and Stat says %v", name, err)
		}
		if !info.IsTerminal {
			continue
		}
		files = append(files, name)
		if _, err := s.Load(t.Context(), name); err != nil {
			t.Errorf("%s is listed, and cannot be loaded: %v", name, err)
		}
	}
	return files
}

// A store that is down is no place without files: that would have a new
// certificate ordered.
func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	spy := newSpy(t)
	s := NewStorage(spy, newBox(t, "a"), time.Now)
	put(t, s, "a/b", "content")
	spy.fail(func(int, string, string) bool { return true })
	for what, ask := range map[string]func() error{
		"Load":   func() error { _, err := s.Load(t.Context(), "a/b"); return err },
		"Stat":   func() error { _, err := s.Stat(t.Context(), "a/b"); return err },
		"List":   func() error { _, err := s.List(t.Context(), "a", true); return err },
		"Store":  func() error { return s.Store(t.Context(), "a/c", nil) },
		"Delete": func() error { return s.Delete(t.Context(), "a") },
	} {
		if err := ask(); !errors.Is(err, errDown) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	spy.fail(func(_ int, _, key string) bool { return key == filePrefix+"a/b" })
	if _, err := s.List(t.Context(), "a", true); !errors.Is(err, errDown) {
		t.Errorf("List, when a file cannot be looked at: %v", err)
	}
}

// TestTwoInstances lets two instances write and delete files of their own,
// and folders, at the same time: no name is lost.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	shared := newMemory(t)
	instances := []*Storage{NewStorage(shared, newBox(t, "a"), time.Now), NewStorage(shared, newBox(t, "a"), time.Now)}
	const writers = 10
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			s, folder := instances[writer%2], fmt.Sprintf("folder/%d", writer)
			for _, step := range []error{
				s.Store(t.Context(), folder+"/gone/1", nil),
				s.Store(t.Context(), folder+"/stays", []byte(folder)),
				s.Store(t.Context(), folder+"/gone/2", nil),
				s.Delete(t.Context(), folder+"/gone"),
				s.Store(t.Context(), folder+"/too", []byte(folder)),
			} {
				if step != nil {
					t.Errorf("writer %d: %v", writer, step)
				}
			}
		})
	}
	all.Wait()
	var want []string
	for writer := range writers {
		want = append(want, fmt.Sprintf("folder/%d/stays", writer), fmt.Sprintf("folder/%d/too", writer))
	}
	for _, s := range instances {
		if diff := cmp.Diff(want, listed(t, s)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A file that is stored while its folder is deleted is listed or gone.
func TestStoreWhileDeleted(t *testing.T) {
	t.Parallel()
	spy := newSpy(t)
	s, other := NewStorage(spy, newBox(t, "a"), time.Now), NewStorage(spy.Store, newBox(t, "a"), time.Now)
	put(t, s, "a/old", "old")
	spy.fail(func(_ int, operation, key string) bool {
		if operation == "delete" && key == filePrefix+"a/old" {
			put(t, other, "a/new", "new")
		}
		return false
	})
	remove(t, s, "a")
	wantFolder(t, s, "", []string{"a"}, []string{"a", "a/new"})
	wantFile(t, s, "a/new", "new")
}
