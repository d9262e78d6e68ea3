package auth

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"testing"

	"authgate/gateway/password"
)

func newAccounts(tb testing.TB, users ...Account) *Accounts {
	tb.Helper()
	return NewAccounts(users)
}

func TestAccountsLookup(t *testing.T) {
	t.Parallel()
	users := []Account{
		{Username: "alice", Name: "Alice Example", Email: "alice@example.org", Roles: []string{"user", "admin"}, PasswordHash: cheapArgon2id("wonderland")},
		{Username: "Alice", PasswordHash: cheapArgon2id("another")},
		{Username: "eve", Disabled: true, PasswordHash: cheapArgon2id("evil")},
	}
	accounts := newAccounts(t, users...)
	users[0].Roles[0], users[0].Disabled = "changed", true // must not change the set
	alice, ok := accounts.Lookup("alice")
	if !ok || alice.Name != "Alice Example" || alice.Email != "alice@example.org" || !slices.Equal(alice.Roles, []string{"user", "admin"}) {
		t.Errorf("alice: got %+v, %v", alice, ok)
	}
	if other, ok := accounts.Lookup("Alice"); !ok || other == alice {
		t.Error("Alice is not an account apart from alice")
	}
	for _, name := range []string{"eve", "ALICE", " alice", "alice\x00", "", "nobody"} {
		if a, ok := accounts.Lookup(name); ok || a != nil {
			t.Errorf("%q: got %+v, want none", name, a)
		}
	}
	if got := accounts.Len(); got != 3 {
		t.Errorf("Len is %d, want 3", got)
	}
	if got := slices.Sorted(maps.Keys(maps.Collect(accounts.All()))); !slices.Equal(got, []string{"Alice", "alice"}) {
		t.Errorf("All yields %q, want those that may sign in", got)
	}
}

func TestNoAccountsLetNobodyIn(t *testing.T) {
	t.Parallel()
	for name, accounts := range map[string]*Accounts{"nil": nil, "zero": {}, "empty": newAccounts(t)} {
		if a, ok := accounts.Lookup(""); ok || a != nil {
			t.Errorf("%s: somebody without a name", name)
		}
		if _, ok := accounts.Lookup("alice"); ok || accounts.Len() != 0 {
			t.Errorf("%s: somebody is in it", name)
		}
		for username := range accounts.All() {
			t.Errorf("%s: All yields %q", name, username)
		}
		account, hash := accounts.target("alice", maphash.MakeSeed())
		if want := password.Unmatched().Cost(); account != nil || hash.Cost() != want {
			t.Errorf("%s: unknown names cost %s, want %s", name, hash.Cost(), want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	hash := cheapArgon2id("wonderland")
	of := func(username string, hash password.Hash) string {
		a, ok := newAccounts(t, Account{Username: username, PasswordHash: hash}).Lookup(username)
		if !ok {
			t.Fatal("the account is missing")
		}
		return a.Version()
	}
	version := of("alice", hash)
	if len(version) != 22 {
		t.Errorf("got %q, want 16 bytes in base64url", version)
	}
	if again := of("alice", hash); again != version {
		t.Errorf("got %q and %q for one account", version, again)
	}
	if other := of("alice", cheapArgon2id("wonderland")); other == version {
		t.Error("a changed hash of the same password does not change the version")
	}
	if other := of("bob", hash); other == version {
		t.Error("accounts with the same hash have one version")
	}
	if got := (&Account{Username: "alice", PasswordHash: hash}).Version(); got != "" {
		t.Errorf("an account from nowhere has the version %q", got)
	}
}

func TestUnknownNamesCostWhatAccountsCost(t *testing.T) {
	t.Parallel()
	hashes := []password.Hash{cheapBcrypt(t, "secret"), cheapArgon2id("secret")}
	var users []Account
	for i := range 40 { // ten of one cost and thirty of another
		users = append(users, Account{Username: fmt.Sprintf("user-%d", i), PasswordHash: hashes[min(i%4, 1)]})
	}
	before := newAccounts(t, users...)
	after := newAccounts(t, append(users, Account{Username: "new", PasswordHash: cheapArgon2id("secret")})...)
	seed := maphash.MakeSeed()
	count := make(map[string]int)
	const names = 4000
	moved := 0
	for i := range names {
		name := fmt.Sprintf("nobody-%d", i)
		account, hash := before.target(name, seed)
		if account != nil {
			t.Fatalf("%s is an account", name)
		}
		if _, again := before.target(name, seed); again.Encoded() != hash.Encoded() {
			t.Fatalf("%s costs this and that", name)
		}
		if count[hash.Cost()] == 0 && hash.Verify("secret") {
			t.Fatalf("%s has a password", name)
		}
		if _, later := after.target(name, seed); later.Cost() != hash.Cost() {
			moved++
		}
		count[hash.Cost()]++
	}
	argon, bcrypt := count["argon2id,m=8,t=1,p=1"], count["bcrypt,cost=4"]
	// A quarter is expected, with a standard deviation of 27.
	if argon+bcrypt != names || bcrypt < names/4-250 || bcrypt > names/4+250 {
		t.Errorf("got %v, want three argon2id for each bcrypt, as the accounts have", count)
	}
	// A fortieth of the quarter is expected.
	if moved > names/20 {
		t.Errorf("another account changed the cost of %d of %d names", moved, names)
	}
}
