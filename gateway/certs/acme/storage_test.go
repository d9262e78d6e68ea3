package acme

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/store"
	"authgate/gateway/store/seal"
)

// newBox is the box of a secret; the same one for the same letter.
func newBox(letter string) *seal.Box {
	return must(seal.New([]byte(strings.Repeat(letter, seal.MinSecret))))
}

// newStorage is an instance on a store, with the key of a letter.
func newStorage(t testing.TB, shared store.Store, letter string) *storage {
	t.Helper()
	s := NewStorage(shared, newBox(letter), time.Now).(*storage)
	t.Cleanup(func() { kill(s) })
	return s
}

// spyStore remembers what was written, and can be told to fail.
type spyStore struct {
	store.Store
	mu      sync.Mutex
	calls   int
	failing func(call int, operation, key string) bool // nil: never
	late    bool                                       // a write that fails has happened
	written map[string][]byte
}

var errDown = errors.New("the store is down")

func newSpy(t testing.TB) *spyStore {
	t.Helper()
	memory := store.NewMemory(nil)
	t.Cleanup(func() { _ = memory.Close() })
	return &spyStore{Store: memory, written: map[string][]byte{}}
}

// fail lets the calls fail for which failing is true, counted from 1.
func (s *spyStore) fail(failing func(call int, operation, key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.failing = 0, failing
}

func always(int, string, string) bool { return true }

// count returns the number of calls since fail.
func (s *spyStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// call makes one call, or fails as told.
func (s *spyStore) call(operation, key string, value []byte, do func() error) error {
	s.mu.Lock()
	s.calls++
	fails := s.failing != nil && s.failing(s.calls, operation, key)
	late := s.late && operation != "get"
	if value != nil {
		s.written[key] = bytes.Clone(value)
	}
	s.mu.Unlock()
	if !fails {
		return do()
	}
	if late {
		_ = do()
	}
	return errDown
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

// wantOK ends the test if err is one.
func wantOK(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func put(t testing.TB, s certmagic.Storage, name, content string) {
	t.Helper()
	slice := []byte(content)
	wantOK(t, "Store of "+name, s.Store(t.Context(), name, slice))
	clear(slice) // it is the caller's
}

func remove(t testing.TB, s certmagic.Storage, name string) {
	t.Helper()
	wantOK(t, "Delete of "+name, s.Delete(t.Context(), name))
}

// wantListed fails the test unless these files are listed, which must all be
// readable.
func wantListed(t *testing.T, what string, s *storage, want ...string) {
	t.Helper()
	names, err := s.List(t.Context(), "", true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		info, err := s.Stat(t.Context(), name)
		if info.IsTerminal {
			files = append(files, name)
			_, err = s.Load(t.Context(), name)
		}
		if err != nil {
			t.Errorf("%s: %s is listed, and cannot be read: %v", what, name, err)
		}
	}
	if want != nil && !slices.Equal(files, want) {
		t.Errorf("%s: the files are %q, want %q", what, files, want)
	}
}

// fuzzNames are files and folders of each other, and names that begin alike.
var fuzzNames = []string{"a", "a/b", "a/b/c", "a/b/d", "a/bb", "ab/c", "e", "a/b/c/f"}

// FuzzStorage reads its input as a program of operations, each of a letter and the
// number of a name: c stores, d deletes, e asks; capitals do so by another instance. It
// runs the program beside a map from name to content, which the storage must equal at
// all times.
func FuzzStorage(f *testing.F) {
	for _, program := range []string{"c0c1d0e0", "d2c2c3c4c5d1e1c2d2d0", "C7d2c6D5e7"} {
		f.Add([]byte(program))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		shared := newSpy(t)
		mine, other := newStorage(t, shared, "a"), newStorage(t, shared, "a")
		model := map[string]string{}
		for step := 0; len(program) >= 2 && step < 32; step++ {
			op, name := program[0], fuzzNames[int(program[1])%len(fuzzNames)]
			program = program[2:]
			s := mine
			if op&0x20 == 0 {
				s = other
			}
			switch (op | 0x20) % 3 { // any byte is an operation
			case 'c' % 3:
				model[name] = strings.Repeat("\x00\xff", step*step) // empty at first
				put(t, s, name, model[name])
			case 'd' % 3:
				remove(t, s, name)
				maps.DeleteFunc(model, func(file, _ string) bool { return file == name || strings.HasPrefix(file, name+"/") })
			}
			wantModel(t, s, name, model)
		}
		for _, name := range append(fuzzNames, "") {
			wantModel(t, other, name, model)
		}
	})
}

// wantModel compares all that can be asked about a name with the model.
func wantModel(t *testing.T, s *storage, name string, model map[string]string) {
	t.Helper()
	content, isFile := model[name]
	got, err := s.Load(t.Context(), name)
	if isFile != (err == nil) || !isFile && !errors.Is(err, fs.ErrNotExist) || string(got) != content {
		t.Fatalf("Load(%q) = %q, %v; the model has %v", name, got, err, model)
	}
	for _, recursive := range []bool{false, true} {
		want := modelList(model, name, recursive)
		got, err := s.List(t.Context(), name, recursive)
		if diff := cmp.Diff(want, got); diff != "" || (len(want) == 0) != errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("List(%q, %t): %v; the model has %v\n%s", name, recursive, err, model, diff)
		}
	}
	there := isFile || len(modelList(model, name, true)) > 0
	want := certmagic.KeyInfo{Key: name, Size: int64(len(content)), IsTerminal: isFile}
	info, err := s.Stat(t.Context(), name)
	if isFile && time.Since(info.Modified) > time.Minute || info.Modified.After(time.Now()) {
		t.Errorf("Stat(%q): modified %v", name, info.Modified)
	}
	info.Modified = time.Time{}
	if there != (err == nil) || there && info != want || !there && !errors.Is(err, fs.ErrNotExist) ||
		s.Exists(t.Context(), name) != there {
		t.Fatalf("Stat(%q) = %+v, %v; the model has %v", name, info, err, model)
	}
}

// modelList is List, sorted; nil if there is nothing.
func modelList(model map[string]string, folder string, recursive bool) []string {
	if folder != "" {
		folder += "/"
	}
	var found []string
	for file := range model {
		path, isWithin := strings.CutPrefix(file, folder)
		for i := range path + "/" {
			if isWithin && (i == len(path) || path[i] == '/') && (recursive || !strings.Contains(path[:i], "/")) {
				found = append(found, folder+path[:i])
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// calls makes each call of a storage that has a/b, and returns the errors.
func calls(t *testing.T, s *storage) map[string]error {
	_, load := s.Load(t.Context(), "a/b")
	_, stat := s.Stat(t.Context(), "a/b")
	_, statFolder := s.Stat(t.Context(), "a")
	_, list := s.List(t.Context(), "a", true)
	return map[string]error{
		"Load": load, "Stat": stat, "Stat of the folder": statFolder, "List": list,
		"Store": s.Store(t.Context(), "a/c", nil), "Delete": s.Delete(t.Context(), "a"),
	}
}

// wantRefused fails the test unless err tells what to do, and is not one that
// would have a new certificate ordered.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "store.encryption_key") {
		t.Errorf("%s: %v", what, err)
	}
}

// A reader of the store learns no content, and only the names in the keys. A writer to
// it can neither move a value nor make one.
func TestMovedAndChangedValues(t *testing.T) {
	spy := newSpy(t)
	s := newStorage(t, spy, "a")
	put(t, s, "a/b", "PRIVATE KEY")
	put(t, s, "b", "PRIVATE KEY")
	if len(spy.written) != 3 {
		t.Errorf("%d entries, want the files and the names", len(spy.written))
	}
	for key, value := range spy.written {
		if bytes.Contains(value, []byte("PRIVATE")) || bytes.Contains(value, []byte("a/b")) {
			t.Errorf("%s holds %q", key, value)
		}
	}
	a, names := spy.written[filePrefix+"a/b"], spy.written[namesKey]
	changed := slices.Clone(spy.written[filePrefix+"b"])
	changed[len(changed)/2]++
	write := func(key string, value []byte) {
		wantOK(t, key, spy.Store.Put(t.Context(), key, value, time.Time{}))
	}
	for what, value := range map[string][]byte{
		"another file's": a, "the names": names, "changed": changed, "plain": []byte("the key of m"),
		"too short": newBox("a").Seal([]byte("1234567"), filePrefix+"b"),
	} {
		write(filePrefix+"b", value)
		content, err := s.Load(t.Context(), "b")
		if err == nil || errors.Is(err, fs.ErrNotExist) || content != nil || s.Exists(t.Context(), "b") {
			t.Errorf("%s: Load = %q, %v, or it exists", what, content, err)
		}
	}
	for what, value := range map[string][]byte{"a file": a, "plain": []byte(`["c"]`)} {
		write(namesKey, value)
		for call, err := range calls(t, s) {
			if call != "Load" && call != "Stat" {
				wantRefused(t, what+" for the names: "+call, err)
			} else if err != nil { // of a file, whatever the names are
				t.Errorf("%s for the names: %s: %v", what, call, err)
			}
		}
	}
	write(namesKey, newBox("a").Seal([]byte("{}"), namesKey))
	if _, err := s.List(t.Context(), "", true); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("names that are no list: %v", err)
	}
}

// An instance with another key says so, whatever it is asked, and changes nothing. A
// store that is down is no place without files: that would have a new certificate
// ordered.
func TestAnotherKeyOrNoStore(t *testing.T) {
	spy := newSpy(t)
	right := newStorage(t, spy, "a")
	put(t, right, "a/b", "content")
	for call, err := range calls(t, newStorage(t, spy, "b")) {
		wantRefused(t, call, err)
	}
	wantListed(t, "afterwards", right, "a/b")
	spy.fail(always)
	errs := calls(t, right)
	spy.fail(func(_ int, _, key string) bool { return key == filePrefix+"a/b" })
	_, errs["List, when a file cannot be looked at"] = right.List(t.Context(), "a", true)
	for call, err := range errs {
		if !errors.Is(err, errDown) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %v", call, err, errDown)
		}
	}
}

// Each call of each operation to the store fails once, before or after it is carried
// out. The operation then returns the error, all listed files can be read, and a
// repetition succeeds.
func TestBrokenOff(t *testing.T) {
	for name, test := range map[string]struct {
		operate func(context.Context, *storage) error
		calls   int
		after   []string // the files
	}{
		"a new file": {func(ctx context.Context, s *storage) error { return s.Store(ctx, "a/new", []byte("content")) }, 3,
			[]string{"a/b", "a/c/d", "a/new", "e"}},
		"a change": {func(ctx context.Context, s *storage) error { return s.Store(ctx, "a/b", []byte("content")) }, 2,
			[]string{"a/b", "a/c/d", "e"}},
		"a file": {func(ctx context.Context, s *storage) error { return s.Delete(ctx, "a/b") }, 4,
			[]string{"a/c/d", "e"}},
		"a folder": {func(ctx context.Context, s *storage) error { return s.Delete(ctx, "a") }, 6, []string{"e"}},
	} {
		for broken := range 2 * test.calls {
			late, at := broken%2 == 1, 1+broken/2
			spy := newSpy(t)
			s := newStorage(t, spy, "a")
			for _, file := range []string{"a/b", "a/c/d", "e"} {
				put(t, s, file, file)
			}
			spy.late = late
			spy.fail(func(call int, _, _ string) bool { return call == at })
			what := fmt.Sprintf("%s, call %d, late %t", name, at, late)
			if err := test.operate(t.Context(), s); !errors.Is(err, errDown) {
				t.Errorf("%s: %v", what, err)
			}
			spy.fail(nil)
			wantListed(t, what, s)
			wantOK(t, what+", again", test.operate(t.Context(), s))
			wantListed(t, what+", in the end", s, test.after...)
		}
	}
}

// What another instance stores while a folder is deleted stays, listed and readable.
func TestStoreWhileDeleted(t *testing.T) {
	for operation, at := range map[string]string{"delete": filePrefix + "a/old", "swap": namesKey} {
		spy := newSpy(t)
		s, other := newStorage(t, spy, "a"), newStorage(t, spy.Store, "a")
		put(t, s, "a/old", "old")
		var once sync.Once
		spy.fail(func(_ int, now, key string) bool {
			if now == operation && key == at {
				once.Do(func() { put(t, other, "a/new", "new") })
			}
			return false
		})
		remove(t, s, "a")
		wantListed(t, "before "+operation, s, "a/new")
	}
}
