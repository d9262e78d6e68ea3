package accounts

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
)

// testDecoys is a key that is the same for each run.
var testDecoys = NewDecoyKey([]byte("a secret for tests"))

func newAccounts(users ...Account) *Set { return New(slices.Clone(users), testDecoys, time.Now) }

func TestAccountsLookup(t *testing.T) {
	t.Parallel()
	users := []Account{
		{Username: "alice", Name: "Alice Example", Email: "alice@example.org", Roles: []string{"user", "admin"},
			Hash: passwordtest.Argon2id("wonderland")},
		{Username: "Alice", Hash: passwordtest.Argon2id("another")},
		{Username: "eve", Disabled: true, Hash: passwordtest.Argon2id("evil")},
		{Username: "Jose\u0301", Hash: passwordtest.Argon2id("decomposed")},
	}
	accounts := newAccounts(users...)
	alice, ok := accounts.Lookup("alice")
	if !ok || alice.Name != "Alice Example" || alice.Email != "alice@example.org" ||
		!slices.Equal(alice.Roles, []string{"user", "admin"}) {
		t.Errorf("alice: got %+v, %v", alice, ok)
	}
	if other, ok := accounts.Lookup("Alice"); !ok || other == alice {
		t.Error("Alice is not an account apart from alice")
	}
	for _, name := range []string{"Jos\u00e9", "Jose\u0301"} {
		if a, ok := accounts.Lookup(name); !ok || a.Username != "Jose\u0301" {
			t.Errorf("%q: got %+v, want the account as it is written", name, a)
		}
	}
	for _, name := range []string{"eve", "ALICE", " alice", "alice\x00", ""} {
		if a, ok := accounts.Lookup(name); ok || a != nil {
			t.Errorf("%q: got %+v, want none", name, a)
		}
	}
	enabled := slices.Sorted(maps.Keys(maps.Collect(accounts.All())))
	if got := accounts.Len(); got != 4 || !slices.Equal(enabled, []string{"Alice", "Jose\u0301", "alice"}) {
		t.Errorf("%d accounts, of which All yields %q; want 4, and those that may sign in", got, enabled)
	}
}

func TestEmptyAccounts(t *testing.T) {
	t.Parallel()
	for name, accounts := range map[string]*Set{"nil": nil, "zero": {}, "empty": newAccounts()} {
		for _, username := range []string{"", "alice"} {
			if a, ok := accounts.Lookup(username); ok || a != nil {
				t.Errorf("%s: got %+v, want no account", name, a)
			}
		}
		if all := maps.Collect(accounts.All()); len(all) != 0 || accounts.Len() != 0 {
			t.Errorf("%s: got %v of %d accounts, want none", name, all, accounts.Len())
		}
		account, hash := accounts.Target("alice")
		if want := password.Unmatched().Cost(); account != nil || hash.Cost() != want {
			t.Errorf("%s: unknown names cost %s, want %s", name, hash.Cost(), want)
		}
	}
}

// A version depends on the name and on the stored hash.
func TestVersion(t *testing.T) {
	t.Parallel()
	hash := passwordtest.Argon2id("wonderland")
	of := func(username string, hash password.Hash) string {
		a, _ := newAccounts(Account{Username: username, Hash: hash}).Lookup(username)
		return a.Version()
	}
	version := of("alice", hash)
	if again := of("alice", hash); again != version || len(version) != 22 {
		t.Errorf("got %q and %q, want 16 equal bytes in base64url", version, again)
	}
	if of("alice", passwordtest.Argon2id("wonderland")) == version || of("bob", hash) == version {
		t.Error("another hash of the password, or another name, has the same version")
	}
	if got := (&Account{Username: "alice", Hash: hash}).Version(); got != "" {
		t.Errorf("an account from nowhere has the version %q, want none", got)
	}
}

// The time of an account's last change stays while it does not change. When it comes back
// after a change, it has changed again.
func TestChanged(t *testing.T) {
	t.Parallel()
	hash, another := passwordtest.Argon2id("one"), passwordtest.Argon2id("another")
	alice, bob := Account{Username: "alice", Hash: hash}, Account{Username: "bob", Hash: another}
	clock := clocktest.New()
	s := store.NewMemory(clock.Now)
	t.Cleanup(func() { s.Close() })
	load := func(users ...Account) *Set {
		t.Helper()
		clock.Advance(time.Minute)
		a := newAccounts(users...)
		must.Do(t, a.RecordChanges(t.Context(), s, Reload{Now: clock.Now()}))
		return a
	}
	want := func(a *Set, username string, want time.Time) {
		t.Helper()
		if account, ok := a.Lookup(username); !ok || !account.Changed().Equal(want) {
			t.Errorf("%s changed at %s, want %s", username, account.Changed(), want)
		}
	}
	load(alice, bob)
	begun := clock.Now()
	aliceBegun := begun
	for _, gone := range [][]Account{
		{bob},
		{{Username: "alice", Hash: hash, Disabled: true}, bob},
		{{Username: "alice", Hash: another}, bob},
	} {
		want(load(alice, bob), "alice", aliceBegun)
		load(gone...)
		back := load(alice, bob)
		aliceBegun = clock.Now()
		want(back, "alice", aliceBegun)
		want(back, "bob", begun)
	}
}

// FollowChanges compares the accounts with the record in the store, decodes a record that
// agrees only once, and restores a record that is lost.
func TestFollowChanges(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { s.Close() })
	alice := Account{Username: "alice", Hash: passwordtest.Argon2id("one")}
	a := newAccounts(alice)
	must.Do(t, a.RecordChanges(t.Context(), s, Reload{Now: now}))
	want := func(moved bool, when string) {
		t.Helper()
		c := must.Get(a.FollowChanges(t.Context(), s))(t)
		if got := c != nil && a.Disagrees(c); got != moved {
			t.Errorf("%s: moved %t, want %t", when, got, moved)
		}
		if c != nil && !moved {
			a.Agree(c)
			if again := must.Get(a.FollowChanges(t.Context(), s))(t); again != nil {
				t.Errorf("%s: a record that agrees is decoded again", when)
			}
		}
	}
	want(false, "unchanged")
	other := newAccounts(alice, Account{Username: "bob", Hash: passwordtest.Argon2id("two")})
	must.Do(t, other.RecordChanges(t.Context(), s, Reload{Now: now.Add(time.Minute)}))
	want(false, "another instance has another account too")
	same := must.Get(s.Get(t.Context(), changesKey))(t)

	must.Do(t, s.Delete(t.Context(), changesKey))
	want(false, "the record is lost")
	if restored := must.Get(s.Get(t.Context(), changesKey))(t); !bytes.Equal(restored, same) {
		t.Errorf("restored: %q, want %q", restored, same)
	}
	must.Do(t, s.Delete(t.Context(), changesKey))
	must.Do(t, other.RecordChanges(t.Context(), s, Reload{Now: now.Add(time.Hour)}))
	want(true, "another instance began anew")
	want(true, "the second time")
	must.Do(t, s.Put(t.Context(), changesKey, []byte("C1\n{}\ndamaged"), time.Time{}))
	if c, err := a.FollowChanges(t.Context(), s); c != nil || err == nil {
		t.Errorf("a damaged record: %+v, %v; want an error", c, err)
	}
}

// A record keeps all changes, in the order of the bytes that equal changes have.
func TestChangesRecord(t *testing.T) {
	t.Parallel()
	gone := map[string]withdrawal{"local:x": {Gone: 7, Roles: map[string]int64{"a\nb": 8}}}
	for _, since := range []times{{}, {{1}: 7}, {{1}: 7, {2}: 7, {3}: -1, {0xff}: math.MaxInt64, {}: 9, {'\n'}: 10}} {
		c := &Changes{since: since, withdrawals: gone}
		record := must.Get(c.encode())(t)
		c.stored = record
		decoded := must.Get(decodeChanges(record))(t)
		if !reflect.DeepEqual(decoded, c) || !bytes.Equal(must.Get(decoded.encode())(t), record) {
			t.Errorf("%+v comes back as %+v", c, decoded)
		}
		for cut := 1; cut < len(record); cut++ {
			decoded, err := decodeChanges(record[:len(record)-cut])
			if err == nil && len(decoded.since) == len(since) {
				t.Errorf("%v: without %d bytes it is still whole", since, cut)
			}
		}
	}
	for _, record := range []string{"", "C1", "C1\n", "C1\n{}", "C1\nnull\n", "C1\n[]\n", "E1\n", "{}"} {
		if c, err := decodeChanges([]byte(record)); err == nil {
			t.Errorf("%q is decoded as %+v", record, c)
		}
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

// While changes cannot be recorded, each reload without an account ends its logins, also
// those that another instance has begun since the last one.
func TestAccountsEndWithoutTheStore(t *testing.T) {
	t.Parallel()
	alice := Account{Username: "alice", Hash: passwordtest.Argon2id("one")}
	bob := Account{Username: "bob", Hash: passwordtest.Argon2id("two")}
	clock := clocktest.New()
	s := store.NewMemory(clock.Now)
	t.Cleanup(func() { s.Close() })
	full := failingStore{s, nil, errors.New("full")}
	load := func(s store.Store, running *Set, users ...Account) *Set {
		clock.Advance(time.Minute)
		a := newAccounts(users...)
		err := a.RecordChanges(t.Context(), s, Reload{Now: clock.Now(), Running: running})
		if err != nil && !errors.Is(err, full.swap) {
			t.Fatal(err)
		}
		return a
	}
	here := load(s, nil, alice, bob)
	here = load(full, here, alice)
	load(s, load(s, nil, alice), alice, bob) // the other instance
	here = load(full, here, alice)
	here = load(s, here, alice, bob)
	if back, _ := here.Lookup("bob"); !here.Stored() || !back.Changed().Equal(clock.Now()) {
		t.Errorf("bob is back and changed at %s, want %s", back.Changed(), clock.Now())
	}
}

func TestChangesNeedTheStore(t *testing.T) {
	t.Parallel()
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { s.Close() })
	a, errBroken := newAccounts(Account{Username: "alice", Hash: passwordtest.Argon2id("one")}), errors.New("broken")
	for _, broken := range []failingStore{{s, errBroken, nil}, {s, nil, errBroken}} {
		if err := a.RecordChanges(t.Context(), broken, Reload{Now: time.Now()}); !errors.Is(err, errBroken) {
			t.Errorf("updated in a store that fails: %v, want its error", err)
		}
	}
	if err := a.RecordChanges(t.Context(), failingStore{s, nil, store.ErrConflict}, Reload{Now: time.Now()}); err == nil ||
		errors.Is(err, store.ErrConflict) {
		t.Errorf("another instance always writes first: %v, want an error that says so", err)
	}
	must.Do(t, s.Put(t.Context(), changesKey, []byte("C1\n{}\n7"), time.Time{}))
	if err := a.RecordChanges(t.Context(), s, Reload{Now: time.Now()}); err == nil {
		t.Error("updated from a damaged record")
	}
}
