package auth

import (
	"errors"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/internal/test/passwordtest"
)

// Each secret of a program is valid, as a text or as a hash, in each spelling. A right secret
// is hashed once, and a text never.
func TestCheckSecret(t *testing.T) {
	t.Parallel()
	hashes := []password.Hash{passwordtest.Argon2id("old"), passwordtest.Bcrypt(t, "new")}
	both := NewSecrets("job", []string{"plain", "second"}, hashes)
	for name, c := range map[string]struct {
		secrets   *Secrets
		spellings []string
		right     bool
		computed  int // at the first and at the second check
		again     int
	}{
		"text":               {both, []string{"plain"}, true, 0, 0},
		"second text":        {both, []string{"second"}, true, 0, 0},
		"first hash":         {both, []string{"old"}, true, 1, 0},
		"second hash":        {both, []string{"new"}, true, 2, 0},
		"another spelling":   {both, []string{"o+ld", "old"}, true, 2, 0},
		"wrong":              {both, []string{"other"}, false, 2, 2},
		"wrong twice":        {both, []string{"other", "o+ther"}, false, 4, 4},
		"the hash itself":    {both, []string{hashes[0].Encoded()}, false, 2, 2},
		"empty":              {both, []string{""}, false, 2, 2},
		"no spelling":        {both, nil, false, 0, 0},
		"texts alone, wrong": {NewSecrets("job", []string{"plain"}, nil), []string{"other"}, false, 0, 0},
		"no secrets":         {NewSecrets("job", nil, nil), []string{""}, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			for _, want := range []int{c.computed, c.again} {
				err := f.CheckSecret(t.Context(), c.secrets, nthAddr(0), c.spellings...)
				if c.right != (err == nil) || err != nil && !errors.Is(err, ErrRejected) {
					t.Fatalf("right: %t, got %v", c.right, err)
				}
				if got := f.takeCosts(); len(got) != want {
					t.Errorf("computed %q, want %d", got, want)
				}
			}
		})
	}
}

// Wrong secrets count as failures, each once however many secrets there are. The user with
// the name of the program is not counted, and neither is a program at an address from which
// its secret was right, until the secret is replaced.
func TestWrongSecretsAreThrottled(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	hashes := []password.Hash{passwordtest.Argon2id("one"), passwordtest.Argon2id("two")}
	secrets, other := NewSecrets("alice", nil, hashes), NewSecrets("other", []string{"text"}, nil)
	check := func(s *Secrets, n int, text string) error { return f.CheckSecret(t.Context(), s, nthAddr(n), text) }
	if err := check(secrets, 100, "two"); err != nil {
		t.Fatal(err)
	}
	for n := range testLimit {
		if err := check(secrets, n, "wrong"); !errors.Is(err, ErrRejected) {
			t.Fatalf("failure %d: %v", n, err)
		}
	}
	if err := check(secrets, 200, "two"); !isThrottled(err) {
		t.Errorf("at a new address, after the limit: %v", err)
	}
	if err := check(secrets, 100, "one"); err != nil {
		t.Errorf("at a known address: %v", err)
	}
	if err := check(NewSecrets("alice", nil, hashes[:1]), 100, "one"); !isThrottled(err) {
		t.Errorf("with other secrets the address is known: %v", err)
	}
	if err := check(other, 0, "text"); err != nil {
		t.Errorf("another program at an address with one failure: %v", err)
	}
	people := newAccounts(accounts.Account{Username: "alice", Hash: hashes[0]})
	if _, err := f.Check(t.Context(), "basic", people, "alice", "one", nthAddr(300)); err != nil {
		t.Errorf("the user of that name: %v", err)
	}
	f.clock.Advance(2 * time.Hour)
	if err := check(secrets, 200, "two"); err != nil {
		t.Errorf("after the window: %v", err)
	}
}
