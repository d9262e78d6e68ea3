package guard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

var errBroken = errors.New("the disk is on fire")

// hookedStore calls a hook before each operation, which fails with its error.
type hookedStore struct {
	store.Store
	before func(context.Context) error
}

func (s *hookedStore) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.before(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

func (s *hookedStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := s.before(ctx); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, value, expires)
}

func (s *hookedStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if err := s.before(ctx); err != nil {
		return err
	}
	return s.Store.Swap(ctx, key, old, value, expires)
}

func (s *hookedStore) Take(ctx context.Context, key string) ([]byte, error) {
	if err := s.before(ctx); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, key)
}

func (s *hookedStore) Delete(ctx context.Context, key string) error {
	if err := s.before(ctx); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// operation is a call of each method, on a store without entries.
type operation struct {
	name string
	call func(context.Context, store.Store) error
	want error // of a store that works
}

func operations() []operation {
	return []operation{
		{"get", func(ctx context.Context, s store.Store) error { _, err := s.Get(ctx, "k"); return err }, store.ErrNotFound},
		{"take", func(ctx context.Context, s store.Store) error { _, err := s.Take(ctx, "k"); return err }, store.ErrNotFound},
		{"swap", func(ctx context.Context, s store.Store) error {
			return s.Swap(ctx, "k", []byte("x"), []byte("y"), time.Time{})
		}, store.ErrConflict},
		{"put", func(ctx context.Context, s store.Store) error { return s.Put(ctx, "k", []byte("v"), time.Time{}) }, nil},
		{"delete", func(ctx context.Context, s store.Store) error { return s.Delete(ctx, "k") }, nil},
	}
}

// The answers of a store pass unchanged. Its failures become *Error. Both are
// measured.
func TestStore(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory(nil)
	t.Cleanup(func() { memory.Close() })
	var failure error
	observed := map[string]int{}
	s := New(&hookedStore{memory, func(context.Context) error { return failure }},
		func(operation string, _ time.Duration) { observed[operation]++ })
	for _, op := range operations() {
		if err := op.call(t.Context(), s); !errors.Is(err, op.want) || errors.As(err, new(*Error)) {
			t.Errorf("%s: %v, want %v", op.name, err, op.want)
		}
	}
	if _, err := memory.Get(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the calls do not reach the store: %v", err)
	}
	failure = errBroken
	for _, op := range operations() {
		err := op.call(t.Context(), s)
		var marked *Error
		if !errors.As(err, &marked) || marked.Operation != op.name || !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want an *Error", op.name, err)
		}
		if observed[op.name] != 2 {
			t.Errorf("%s: observed %d times, want 2", op.name, observed[op.name])
		}
	}
	failure = nil
	if err := s.Put(t.Context(), "k", []byte("v"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if value, err := s.Get(t.Context(), "k"); string(value) != "v" || err != nil {
		t.Errorf("Get: %q, %v", value, err)
	}
}

// A closed gate lets no call through. An open one lets all through.
func TestGate(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory(nil)
	t.Cleanup(func() { memory.Close() })
	gate := NewGate(memory)
	for _, op := range operations() {
		err := op.call(t.Context(), gate)
		if !errors.Is(err, errClosed) || !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), op.name) {
			t.Errorf("closed, %s: %v", op.name, err)
		}
	}
	gate.Open()
	for _, op := range operations() {
		if err := op.call(t.Context(), gate); !errors.Is(err, op.want) {
			t.Errorf("open, %s: %v, want %v", op.name, err, op.want)
		}
	}
}

// Time between calls of the store does not count, calls side by side count
// once, and after the limit every call fails at once.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		defer memory.Close()
		away := Limit / 4
		s := New(&hookedStore{memory, func(ctx context.Context) error {
			select {
			case <-time.After(away):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}, func(string, time.Duration) {})
		c := &Context{Context: t.Context()}
		for range 3 {
			time.Sleep(time.Hour) // an identity provider, or the hash of a password
			side := make(chan error)
			derived, cancel := context.WithCancel(c.Detached())
			go func() { side <- s.Put(derived, "key", nil, time.Time{}) }()
			if _, err := s.Get(c, "key"); errors.As(err, new(*Error)) {
				t.Fatal(err)
			}
			if err := <-side; err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		away = Limit
		for _, want := range []time.Duration{Limit / 4, 0} {
			began := time.Now()
			err := s.Put(c, "key", nil, time.Time{})
			if took := time.Since(began); !errors.As(err, new(*Error)) || took != want {
				t.Errorf("%v after %v, want an *Error after %v", err, took, want)
			}
		}
	})
}

// What a call leaves behind sees the call as ended, and does not end the next
// call.
func TestCallEnds(t *testing.T) {
	t.Parallel()
	c := &Context{Context: t.Context()}
	before, end, err := limitCall(c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	during := before.Done()
	end.at(time.Now())
	<-during
	<-before.Done()
	if before.Err() == nil {
		t.Error("a call that is over has not ended")
	}
	after, end, err := limitCall(c, time.Now())
	if err != nil || after.Err() != nil {
		t.Fatalf("the next call: %v, %v", err, after.Err())
	}
	derived, cancel := context.WithCancel(after)
	defer cancel()
	select {
	case <-derived.Done():
		t.Error("the next call has ended")
	default:
	}
	end.at(time.Now())
	<-derived.Done()
}
