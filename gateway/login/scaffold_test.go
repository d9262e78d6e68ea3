package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/auth"
	"authgate/gateway/password"
	"authgate/gateway/store"
)

// newTestAccounts returns the set of users.
func newTestAccounts(tb testing.TB, users ...auth.Account) *auth.Accounts {
	tb.Helper()
	return auth.NewAccounts(users)
}

// testHash returns a cheap hash of plain.
func testHash(plain string) password.Hash {
	encoded, err := bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	hash, err := password.Parse(string(encoded))
	if err != nil {
		panic(err)
	}
	return hash
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return b
}

// noError ends the test if err is not nil.
func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must returns v, or ends the test if err is not nil: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		noError(tb, err)
		return v
	}
}

// eachStep calls step with the verb and the rest of each step of a script, which are
// separated by semicolons.
func eachStep(t *testing.T, script string, step func(verb, arg string)) {
	t.Helper()
	for line := range strings.SplitSeq(script, ";") {
		verb, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		t.Log(verb, arg)
		step(verb, arg)
	}
}

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

// freeze makes the present value of a key stale.
func (s *recordingStore) freeze(tb testing.TB, key string) {
	tb.Helper()
	value := must(s.Store.Get(tb.Context(), key))(tb)
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
