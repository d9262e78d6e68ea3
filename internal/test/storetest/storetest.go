// Package storetest is the suite of tests that every implementation of
// store.Store must pass.
//
// Run tests each sentence of the contract: values and keys of any bytes, the
// exact instant of expiry, atomicity of Swap and Take under contention, and that
// no reader sees an older value after a write has returned. Run it under the
// race detector too. What a store promises beyond the contract, such as
// surviving a crash, belongs in its own tests.
package storetest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
)

// Store is a store and the Close method of the type that opened it. The suite
// tests both.
type Store interface {
	store.Store
	io.Closer
}

// Run runs the suite. For each test it calls open, which must return an empty
// store with the clock now, and closes that store at the end. The tests run in
// parallel, each with a clock of its own that only the test moves.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) Store) {
	t.Helper()
	tests := map[string]func(*testing.T, Store, *clocktest.Clock){
		"Basics":         testBasics,
		"Values":         testValues,
		"Keys":           testKeys,
		"CallersSlices":  testCallersSlices,
		"Expiry":         testExpiry,
		"ExpiryRenewed":  testExpiryRenewed,
		"ExpiryExtremes": testExpiryExtremes,
		"AlreadyExpired": testAlreadyExpired,
		"Swap":           testSwap,
		"Take":           testTake,
		"EndedContext":   testEndedContext,
		"Closed":         testClosed,
		"Ping":           testPing,
		"Walk":           testWalk,
		"WalkChanges":    testWalkChanges,
		"OneWins":        testOneWins,
		"Apply":          testApply,
		"OneApplies":     testOneApplies,
		"NoOlderValue":   testNoOlderValue,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktest.New()
			s := open(t, clock.Now)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test(t, s, clock)
		})
	}
}

// never is the expiry of an entry that stays until it is deleted.
var never time.Time

// WantValue reports an error unless key has the live value want, for Recall too
// if the store has it in memory.
func WantValue(t testing.TB, s store.Store, key, want string) {
	t.Helper()
	for range 2 { // Get may change what is in memory
		if got, known := recall(s, key); known && (got == nil || string(got) != want) {
			t.Errorf("Recall(%q) = %q; want %q", key, got, want)
		}
		if got, err := s.Get(t.Context(), key); err != nil || got == nil || string(got) != want {
			t.Errorf("Get(%q) = %q, %v; want %q", key, got, err, want)
		}
	}
}

// recall is Recall, for stores that have it.
func recall(s store.Store, key string) (value []byte, known bool) {
	if r, ok := s.(store.Recaller); ok {
		return r.Recall(key)
	}
	return nil, false
}

// WantNone reports an error unless key has no live value.
func WantNone(t testing.TB, s store.Store, key string) {
	t.Helper()
	for range 2 { // Get may change what is in memory
		if got, known := recall(s, key); known && got != nil {
			t.Errorf("Recall(%q) = %q; want nothing", key, got)
		}
		if got, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) || got != nil {
			t.Errorf("Get(%q) = %q, %v; want ErrNotFound", key, got, err)
		}
	}
}

// wantError fails the test unless err is target.
func wantError(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: error %v, want %v", what, err, target)
	}
}

// Put stores a value that stays, unless an expiry is given.
func Put(t testing.TB, s store.Store, key, value string, expires ...time.Time) {
	t.Helper()
	expires = append(expires, never)
	if err := s.Put(t.Context(), key, []byte(value), expires[0]); err != nil {
		t.Errorf("Put(%q): %v", key, err)
	}
}

func swap(t *testing.T, s store.Store, key string, old []byte, value string, expires time.Time) {
	t.Helper()
	if err := s.Swap(t.Context(), key, old, []byte(value), expires); err != nil {
		t.Fatalf("Swap(%q, %q): %v", key, old, err)
	}
}

func take(t *testing.T, s store.Store, key, want string) {
	t.Helper()
	got, err := s.Take(t.Context(), key)
	if err != nil || string(got) != want || got == nil {
		t.Fatalf("Take(%q) = %q, %v; want %q", key, got, err, want)
	}
}

func remove(t *testing.T, s store.Store, key string) {
	t.Helper()
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatalf("Delete(%q): %v", key, err)
	}
}

// Calls returns a call of every method that takes a context, by name. They
// use one key.
func Calls(s store.Store, key string) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := s.Get(ctx, key); return err },
		"Put":    func(ctx context.Context) error { return s.Put(ctx, key, []byte("new"), never) },
		"Swap":   func(ctx context.Context) error { return s.Swap(ctx, key, []byte("old"), []byte("new"), never) },
		"Take":   func(ctx context.Context) error { _, err := s.Take(ctx, key); return err },
		"Delete": func(ctx context.Context) error { return s.Delete(ctx, key) },
		"Walk":   func(ctx context.Context) error { return s.Walk(ctx, "", func([]string) error { return nil }) },
	}
	if a := applier(s); a != nil {
		all["Apply"] = func(ctx context.Context) error {
			return a.Apply(ctx, []store.Change{{Key: key, Any: true, Edit: store.Removal()}})
		}
	}
	if pinger, ok := s.(store.Pinger); ok {
		all["Ping"] = pinger.Ping
	}
	return all
}
