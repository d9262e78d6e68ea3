package auth

import (
	"context"
	"errors"
	"testing"
	"time"

	"authgate/gateway/store"
)

// An account keeps its epoch while it does not change. When it comes back after a change,
// it has a new epoch.
func TestEpochs(t *testing.T) {
	t.Parallel()
	hash, another := cheapArgon2id("one"), cheapArgon2id("another")
	alice, bob := Account{Username: "alice", PasswordHash: hash}, Account{Username: "bob", PasswordHash: another}
	now := time.Unix(1_000_000, 0)
	s := store.NewMemory(func() time.Time { return now })
	t.Cleanup(func() { s.Close() })
	load := func(users ...Account) *Accounts {
		t.Helper()
		now = now.Add(time.Minute)
		a := newAccounts(t, users...)
		noError(t, a.UpdateEpochs(t.Context(), s, now))
		return a
	}
	epoch := func(a *Accounts, username string) time.Time {
		t.Helper()
		account, ok := a.Lookup(username)
		if !ok || account.Epoch().IsZero() {
			t.Fatalf("%s has no epoch", username)
		}
		return account.Epoch()
	}
	begun := epoch(load(alice, bob), "bob")
	for _, change := range []struct {
		name string
		gone []Account
	}{
		{"removed", []Account{bob}},
		{"disabled", []Account{{Username: "alice", PasswordHash: hash, Disabled: true}, bob}},
		{"another password", []Account{{Username: "alice", PasswordHash: another}, bob}},
	} {
		before := epoch(load(alice, bob), "alice")
		if same := epoch(load(alice, bob), "alice"); !same.Equal(before) {
			t.Errorf("%s: without a change the epoch went from %s to %s", change.name, before, same)
		}
		load(change.gone...)
		back := load(alice, bob)
		if got := epoch(back, "alice"); !got.Equal(now) {
			t.Errorf("%s: back at %s, alice is in the epoch of %s", change.name, now, got)
		}
		if got := epoch(back, "bob"); !got.Equal(begun) {
			t.Errorf("%s: bob is in the epoch of %s, want that of %s", change.name, got, begun)
		}
	}
}

// contested is a store in which another instance always writes first.
type contested struct{ store.Store }

func (contested) Swap(context.Context, string, []byte, []byte, time.Time) error {
	return store.ErrConflict
}

// broken is a store that cannot be read.
type broken struct{ store.Store }

var errBroken = errors.New("broken")

func (broken) Get(context.Context, string) ([]byte, error) { return nil, errBroken }

func TestEpochsNeedTheStore(t *testing.T) {
	t.Parallel()
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { s.Close() })
	a := newAccounts(t, Account{Username: "alice", PasswordHash: parsed(t, "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW")})
	if err := a.UpdateEpochs(context.Background(), contested{s}, time.Now()); err == nil {
		t.Error("the epochs are updated though the store fails")
	}
	if err := a.UpdateEpochs(context.Background(), broken{s}, time.Now()); !errors.Is(err, errBroken) {
		t.Errorf("updated from a store that cannot be read: %v", err)
	}
}
