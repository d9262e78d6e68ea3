package auth

import (
	"context"
	"errors"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/must"
	"authgate/gateway/store"
)

// An account keeps its epoch while it does not change. When it comes back after a change,
// it has a new epoch.
func TestEpochs(t *testing.T) {
	t.Parallel()
	hash, another := cheapArgon2id("one"), cheapArgon2id("another")
	alice, bob := Account{Username: "alice", PasswordHash: hash}, Account{Username: "bob", PasswordHash: another}
	clock := clocktest.New()
	s := store.NewMemory(clock.Now)
	t.Cleanup(func() { s.Close() })
	load := func(users ...Account) *Accounts {
		t.Helper()
		clock.Advance(time.Minute)
		a := newAccounts(users...)
		must.Do(t, a.UpdateEpochs(t.Context(), s, clock.Now()))
		return a
	}
	want := func(a *Accounts, username string, want time.Time) {
		t.Helper()
		if account, ok := a.Lookup(username); !ok || !account.Epoch().Equal(want) {
			t.Errorf("%s is in the epoch of %s, want that of %s", username, account.Epoch(), want)
		}
	}
	load(alice, bob)
	begun := clock.Now()
	aliceBegun := begun
	for _, gone := range [][]Account{
		{bob},
		{{Username: "alice", PasswordHash: hash, Disabled: true}, bob},
		{{Username: "alice", PasswordHash: another}, bob},
	} {
		want(load(alice, bob), "alice", aliceBegun)
		load(gone...)
		back := load(alice, bob)
		aliceBegun = clock.Now()
		want(back, "alice", aliceBegun)
		want(back, "bob", begun)
	}
}

// failingStore is a store whose calls fail, unless the error is nil.
type failingStore struct {
	store.Store
	get, swap error
}

func (s failingStore) Get(ctx context.Context, key string) ([]byte, error) {
	if s.get != nil {
		return nil, s.get
	}
	return s.Store.Get(ctx, key)
}

func (s failingStore) Swap(context.Context, string, []byte, []byte, time.Time) error { return s.swap }

func TestEpochsNeedTheStore(t *testing.T) {
	t.Parallel()
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { s.Close() })
	a, errBroken := newAccounts(Account{Username: "alice", PasswordHash: cheapArgon2id("one")}), errors.New("broken")
	for _, broken := range []failingStore{{s, errBroken, nil}, {s, nil, errBroken}} {
		if err := a.UpdateEpochs(t.Context(), broken, time.Now()); !errors.Is(err, errBroken) {
			t.Errorf("updated in a store that fails: %v, want its error", err)
		}
	}
	if err := a.UpdateEpochs(t.Context(), failingStore{s, nil, store.ErrConflict}, time.Now()); err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("another instance always writes first: %v, want an error that says so", err)
	}
	must.Do(t, s.Put(t.Context(), epochsKey, []byte(`{"alice":7`), time.Time{}))
	if err := a.UpdateEpochs(t.Context(), s, time.Now()); err == nil {
		t.Error("updated from a damaged record")
	}
}
