package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

// ErrNoAnswer is the error of a Recorder that fails.
var ErrNoAnswer = errors.New("the store does not answer")

// Recorder is a store that records its calls, and can fail, wait or lag.
type Recorder struct {
	store.Store
	mu      sync.Mutex
	calls   []string // such as "get login:NAME"
	written [][]byte // each key, and each value that was to be written
	failing string   // calls with this prefix fail; "" for none
	Late    bool     // they fail after they had their effect

	// before, if not nil, is called before each operation, which fails with its
	// error.
	before func(ctx context.Context, call string) error
	// stale has values that are read instead of those in the store, until a Swap of
	// their key; with Always, even after that.
	stale  map[string][]byte
	Always bool
	AtOnce bool // it makes several changes at once
	// applying is locked while it does, and locked for reading by other writes.
	applying sync.RWMutex
}

// Interfere calls before ahead of each call from now on; nil for nothing.
func (s *Recorder) Interfere(before func(ctx context.Context, call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// EverWritten returns each key, and each value that was to be written.
func (s *Recorder) EverWritten() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.written)
}

// Once calls do before the next call with this prefix.
func (s *Recorder) Once(prefix string, do func()) {
	s.Interfere(func(_ context.Context, call string) error {
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

// Freeze makes the present value of a key stale.
func (s *Recorder) Freeze(tb testing.TB, key string) {
	tb.Helper()
	value := must.Get(s.Store.Get(tb.Context(), key))(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = map[string][]byte{key: value}
}

// Fails makes calls with this prefix fail; "" for none.
func (s *Recorder) Fails(calls string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = calls
}

// TakeCalls returns the calls since the last TakeCalls.
func (s *Recorder) TakeCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// Forget removes calls with this prefix from those of TakeCalls.
func (s *Recorder) Forget(calls string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = slices.DeleteFunc(s.calls, func(call string) bool { return strings.HasPrefix(call, calls) })
}

// WantReads fails the test unless all calls since the last TakeCalls are reads.
func (s *Recorder) WantReads(tb testing.TB) {
	tb.Helper()
	writes := slices.DeleteFunc(s.TakeCalls(), func(call string) bool { return strings.HasPrefix(call, "get ") })
	if len(writes) > 0 {
		tb.Errorf("the store was asked to %q, want reads alone", writes)
	}
}

func (s *Recorder) note(
	ctx context.Context, operation, key string, value []byte, do func() ([]byte, error),
) ([]byte, error) {
	call := operation + " " + key
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.written = append(s.written, []byte(key), bytes.Clone(value))
	fails := s.failing != "" && strings.HasPrefix(call, s.failing)
	late, before := s.Late, s.before
	stale, isStale := s.stale[key]
	if (operation == "swap" || operation == "remove") && !s.Always {
		delete(s.stale, key)
	}
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, call); err != nil {
			return nil, err
		}
	}
	if fails && !late {
		return nil, ErrNoAnswer
	}
	if operation == "get" && isStale {
		return bytes.Clone(stale), nil
	}
	if operation != "get" {
		s.applying.RLock()
		defer s.applying.RUnlock()
	}
	found, err := do()
	if fails {
		return nil, ErrNoAnswer
	}
	return found, err
}

func (s *Recorder) Get(ctx context.Context, key string) ([]byte, error) {
	return s.note(ctx, "get", key, nil, func() ([]byte, error) { return s.Store.Get(ctx, key) })
}

func (s *Recorder) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	_, err := s.note(ctx, "put", key, value, func() ([]byte, error) { return nil, s.Store.Put(ctx, key, value, expires) })
	return err
}

// Swap implements store.Store. A store.Removal is recorded as "remove".
func (s *Recorder) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	operation := "swap"
	if expires.Equal(store.Removal().Expires) {
		operation = "remove"
	}
	_, err := s.note(ctx, operation, key, value, func() ([]byte, error) {
		return nil, s.Store.Swap(ctx, key, old, value, expires)
	})
	return err
}

func (s *Recorder) Take(ctx context.Context, key string) ([]byte, error) {
	return s.note(ctx, "take", key, nil, func() ([]byte, error) { return s.Store.Take(ctx, key) })
}

func (s *Recorder) Delete(ctx context.Context, key string) error {
	_, err := s.note(ctx, "delete", key, nil, func() ([]byte, error) { return nil, s.Store.Delete(ctx, key) })
	return err
}

// Applies implements store.Applier.
func (s *Recorder) Applies() bool { return s.AtOnce }

// Apply implements store.Applier. It records each change as the call that would make it alone.
func (s *Recorder) Apply(ctx context.Context, changes []store.Change) error {
	var failed error
	for _, c := range changes {
		operation := "swap"
		if c.Any {
			operation = "delete"
		} else if c.Expires.Equal(store.Removal().Expires) {
			operation = "remove"
		}
		if _, err := s.note(ctx, operation, c.Key, c.Value, func() ([]byte, error) { return nil, nil }); err != nil {
			if !s.Late {
				return err
			}
			failed = err
		}
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	for _, c := range changes {
		if value, err := s.Store.Get(ctx, c.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		} else if !c.Any && ((value == nil) != (c.Old == nil) || !bytes.Equal(value, c.Old)) {
			return store.ErrConflict
		}
	}
	for _, c := range changes {
		if err := s.Store.Put(ctx, c.Key, c.Value, c.Expires); err != nil {
			return err
		}
	}
	return failed
}
