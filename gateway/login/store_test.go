package login

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

var errStore = errors.New("the store does not answer")

// recordingStore is a store that records its calls, and can fail, wait or lag.
type recordingStore struct {
	store.Store
	mu      sync.Mutex
	calls   []string // such as "get login:NAME"
	written [][]byte // each key, and each value that was to be written
	failing string   // calls with this prefix fail; "" for none
	late    bool     // they fail after they had their effect

	// before, if not nil, is called before each operation, which fails with its
	// error.
	before func(ctx context.Context, call string) error
	// stale has values that are read instead of those in the store, until a Swap of
	// their key; with always, even after that.
	stale  map[string][]byte
	always bool
}

// interfere calls before ahead of each call from now on; nil for nothing.
func (s *recordingStore) interfere(before func(ctx context.Context, call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// everWritten returns each key, and each value that was to be written.
func (s *recordingStore) everWritten() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.written)
}

// once calls do before the next call with this prefix.
func (s *recordingStore) once(prefix string, do func()) {
	s.interfere(func(_ context.Context, call string) error {
		if !strings.HasPrefix(call, prefix) {
			return nil
		}
		s.mu.Lock()
		first := s.before != nil
		s.before = nil
		s.mu.Unlock()
		if first {
			do()
		}
		return nil
	})
}

// atEachCall runs test again and again. What test gives to before happens just before the first
// call of the store after that, in the next run before the second, and so on, until there are no
// more calls. before returns a function that reports whether it has happened.
func atEachCall(t *testing.T, test func(t *testing.T, r *rig, before func(do func()) (happened func() bool))) {
	t.Helper()
	for step, more := int64(1), true; more && !t.Failed(); step++ {
		synctest.Test(t, func(t *testing.T) { // so that no time limit of a call depends on the machine
			r := newRig(t)
			var calls atomic.Int64
			test(t, r, func(do func()) func() bool {
				r.store.interfere(func(_ context.Context, call string) error {
					if calls.Add(1) == step {
						t.Logf("before call %d: %.20s", step, call)
						do()
					}
					return nil
				})
				return func() bool {
					r.store.interfere(nil)
					more = calls.Load() >= step
					return more
				}
			})
		})
	}
}

// freeze makes the present value of a key stale.
func (s *recordingStore) freeze(tb testing.TB, key string) {
	tb.Helper()
	value := must.Get(s.Store.Get(tb.Context(), key))(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = map[string][]byte{key: value}
}

// fails makes calls with this prefix fail; "" for none.
func (s *recordingStore) fails(calls string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = calls
}

// takeCalls returns the calls since the last takeCalls.
func (s *recordingStore) takeCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// forget removes calls with this prefix from those of takeCalls.
func (s *recordingStore) forget(calls string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = slices.DeleteFunc(s.calls, func(call string) bool { return strings.HasPrefix(call, calls) })
}

// wantReads fails the test unless all calls since the last takeCalls are reads.
func (s *recordingStore) wantReads(tb testing.TB) {
	tb.Helper()
	writes := slices.DeleteFunc(s.takeCalls(), func(call string) bool { return strings.HasPrefix(call, "get ") })
	if len(writes) > 0 {
		tb.Errorf("the store was asked to %q, want reads alone", writes)
	}
}

func (s *recordingStore) note(ctx context.Context, operation, key string, value []byte, do func() ([]byte, error)) ([]byte, error) {
	call := operation + " " + key
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.written = append(s.written, []byte(key), bytes.Clone(value))
	fails := s.failing != "" && strings.HasPrefix(call, s.failing)
	late, before := s.late, s.before
	stale, isStale := s.stale[key]
	if operation == "swap" && !s.always {
		delete(s.stale, key)
	}
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, call); err != nil {
			return nil, err
		}
	}
	if fails && !late {
		return nil, errStore
	}
	if operation == "get" && isStale {
		return bytes.Clone(stale), nil
	}
	found, err := do()
	if fails {
		return nil, errStore
	}
	return found, err
}

func (s *recordingStore) Get(ctx context.Context, key string) ([]byte, error) {
	return s.note(ctx, "get", key, nil, func() ([]byte, error) { return s.Store.Get(ctx, key) })
}

func (s *recordingStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	_, err := s.note(ctx, "put", key, value, func() ([]byte, error) { return nil, s.Store.Put(ctx, key, value, expires) })
	return err
}

func (s *recordingStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	_, err := s.note(ctx, "swap", key, value, func() ([]byte, error) { return nil, s.Store.Swap(ctx, key, old, value, expires) })
	return err
}

func (s *recordingStore) Take(ctx context.Context, key string) ([]byte, error) {
	return s.note(ctx, "take", key, nil, func() ([]byte, error) { return s.Store.Take(ctx, key) })
}

func (s *recordingStore) Delete(ctx context.Context, key string) error {
	_, err := s.note(ctx, "delete", key, nil, func() ([]byte, error) { return nil, s.Store.Delete(ctx, key) })
	return err
}
