package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// Pairs of account and address for which a password matched (design E.7).

// guess makes n attempts that fail, each of which must be let begin.
func (f *verifierFixture) guess(t *testing.T, accounts *Accounts, n int, who func(i int) (username string, client netip.Addr)) {
	t.Helper()
	for i := range n {
		username, client := who(i)
		_, err := f.CheckFresh(t.Context(), accounts, username, fmt.Sprint("guess-", i), client)
		if !errors.Is(err, ErrRejected) {
			t.Fatalf("guess %d at %s from %s: got %v, want ErrRejected", i, username, client, err)
		}
	}
}

// onAccount and fromAddress say whom guess tries.
func onAccount(username string) func(int) (string, netip.Addr) {
	return func(i int) (string, netip.Addr) { return username, nthAddr(100 + i) }
}

func fromAddress(client netip.Addr) func(int) (string, netip.Addr) {
	return func(i int) (string, netip.Addr) { return fmt.Sprint("unknown-", i), client }
}

func onPair(username string, client netip.Addr) func(int) (string, netip.Addr) {
	return func(int) (string, netip.Addr) { return username, client }
}

// wantChecked fails the test unless both methods accept the password.
func (f *verifierFixture) wantChecked(t *testing.T, what string, accounts *Accounts, username, password string, client netip.Addr) {
	t.Helper()
	for method, check := range f.methods() {
		if account, err := check(accounts, username, password, client); err != nil || account.Username != username {
			t.Errorf("%s, %s: got %v, want the account", what, method, err)
		}
	}
}

// wantThrottled fails the test unless both methods refuse the attempt without
// computing a hash.
func (f *verifierFixture) wantThrottled(t *testing.T, what string, accounts *Accounts, username, password string, client netip.Addr) {
	t.Helper()
	f.takeCosts()
	for method, check := range f.methods() {
		if account, err := check(accounts, username, password, client); account != nil || !isThrottled(err) {
			t.Errorf("%s, %s: got %v, want to be throttled", what, method, err)
		}
	}
	if got := f.takeCosts(); len(got) != 0 {
		t.Errorf("%s: computed %q while throttled", what, got)
	}
}

// A monitoring system with the right shared credentials goes on while others
// fail, on its account and from its address, and after the cache of verified
// credentials has forgotten it.
func TestKnownPairIsSpared(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "service", PasswordHash: cheapArgon2id("s3rvice")})
	home := nthAddr(0)
	for name, who := range map[string]func(int) (string, netip.Addr){
		"failures on the account":   onAccount("service"),
		"failures from the address": fromAddress(home),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			if _, err := f.Check(t.Context(), "basic", accounts, "service", "s3rvice", home); err != nil {
				t.Fatal(err)
			}
			f.guess(t, accounts, testLimit, who)
			f.takeCosts()
			if _, err := f.Check(t.Context(), "basic", accounts, "service", "s3rvice", home); err != nil {
				t.Errorf("remembered: got %v", err)
			}
			if got := f.takeCosts(); len(got) != 0 {
				t.Errorf("remembered: computed %q", got)
			}
			f.clock.advance(testTTL)
			f.wantChecked(t, "no longer remembered", accounts, "service", "s3rvice", home)

			// One more from who failed is refused, and so is the right password
			// from a client that is not known.
			username, client := who(0)
			f.wantThrottled(t, "another failure", accounts, username, "wrong", client)
			if client == home {
				client = nthAddr(200)
				f.wantChecked(t, "another address", accounts, "service", "s3rvice", client)
				return
			}
			f.wantThrottled(t, "the right password from elsewhere", accounts, "service", "s3rvice", nthAddr(200))
		})
	}
}

// The failures of a known pair close it, also to the right password, and count
// for its account and its address.
func TestKnownPairHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	accounts := newAccounts(t,
		Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")},
		Account{Username: "bob", PasswordHash: cheapArgon2id("builder")},
		Account{Username: "carol", PasswordHash: cheapArgon2id("singer")})
	office := nthAddr(0)
	f.wantChecked(t, "alice", accounts, "alice", "wonderland", office)
	f.wantChecked(t, "bob", accounts, "bob", "builder", office)
	f.wantChecked(t, "alice at home", accounts, "alice", "wonderland", nthAddr(1))

	f.guess(t, accounts, testLimit-1, onPair("alice", office))
	f.wantChecked(t, "one failure below the limit", accounts, "alice", "wonderland", office)
	f.guess(t, accounts, 1, onPair("alice", office))
	f.wantThrottled(t, "alice at the limit", accounts, "alice", "wonderland", office)
	f.wantChecked(t, "bob beside her", accounts, "bob", "builder", office)
	f.wantChecked(t, "alice at home", accounts, "alice", "wonderland", nthAddr(1))
	f.wantThrottled(t, "her account from an unknown address", accounts, "alice", "wonderland", nthAddr(2))
	f.wantThrottled(t, "an unknown account from her address", accounts, "carol", "singer", office)

	f.clock.advance(time.Hour)
	f.wantChecked(t, "alice after the window", accounts, "alice", "wonderland", office)
	f.wantChecked(t, "carol after the window", accounts, "carol", "singer", office)
	f.guess(t, accounts, testLimit, onPair("alice", office))
	f.wantThrottled(t, "alice in the next window", accounts, "alice", "wonderland", office)
}

func TestKnownPairParallelGuesses(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	f.wantChecked(t, "alice", accounts, "alice", "wonderland", nthAddr(0))
	good, rejected, throttled, other := outcomes(100, func(i int) (*Account, error) {
		return f.Check(t.Context(), "basic", accounts, "alice", fmt.Sprint("guess-", i), nthAddr(0))
	})
	if good != 0 || rejected != testLimit || throttled != 100-testLimit || other != 0 {
		t.Errorf("%d good, %d rejected, %d throttled, %d others; want %d rejected and the others throttled", good, rejected, throttled, other, testLimit)
	}
}

// A pair is known for 24 hours from the last password that matched.
func TestKnownPairIsForgotten(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for name, again := range map[string]func(f *verifierFixture) error{
		"never again": func(*verifierFixture) error { return nil },
		"a login": func(f *verifierFixture) error {
			_, err := f.CheckFresh(t.Context(), accounts, "alice", "wonderland", nthAddr(0))
			return err
		},
		"remembered credentials": func(f *verifierFixture) error {
			// Verified for another client: there is no hash to compute for this one.
			for _, client := range []netip.Addr{nthAddr(1), nthAddr(0)} {
				if _, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", client); err != nil {
					return err
				}
			}
			return nil
		},
		"a failure": func(f *verifierFixture) error {
			_, err := f.CheckFresh(t.Context(), accounts, "alice", "wrong", nthAddr(0))
			if errors.Is(err, ErrRejected) {
				return nil
			}
			return fmt.Errorf("got %v, want ErrRejected", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			f.wantChecked(t, "the first time", accounts, "alice", "wonderland", nthAddr(0))
			f.clock.advance(knownFor / 2)
			if err := again(f); err != nil {
				t.Fatal(err)
			}
			f.clock.advance(knownFor/2 - 1)
			f.guess(t, accounts, testLimit, onAccount("alice"))
			f.wantKnown(t, true)
			f.clock.advance(1)
			f.wantKnown(t, name == "a login" || name == "remembered credentials")
		})
	}
}

// wantKnown asks whether alice is known at the first address, without a
// success that would make her known.
func (f *verifierFixture) wantKnown(t *testing.T, want bool) {
	t.Helper()
	p, _ := f.throttle.pairs.Peek(newSubject("alice", nthAddr(0)).pairKey)
	if p == nil || len(p.matches) != 1 {
		t.Fatalf("there is no such pair: %+v", p)
	}
	if got := p.knows(p.matches[0].version, f.clock.now()); got != want {
		t.Errorf("known: %v, want %v", got, want)
	}
}

// Remembered credentials make the pair known of each client that presents
// them, not only of the one whose password was hashed.
func TestKnownPairOfRememberedCredentials(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	accounts := newAccounts(t, Account{Username: "service", PasswordHash: cheapArgon2id("s3rvice")})
	for i := range 3 {
		if _, err := f.Check(t.Context(), "basic", accounts, "service", "s3rvice", nthAddr(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.hasher.Computed(); got != 1 {
		t.Fatalf("computed %d, want 1", got)
	}
	f.guess(t, accounts, testLimit, onAccount("service"))
	f.clock.advance(testTTL)
	for i := range 3 {
		f.wantChecked(t, fmt.Sprint("client ", i), accounts, "service", "s3rvice", nthAddr(i))
	}
}

// Another password, or none, makes the pairs of an account unknown, and so
// does another spelling of the name, which is no account.
func TestKnownPairIsOfAVersion(t *testing.T) {
	t.Parallel()
	alice := Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")}
	before := newAccounts(t, alice)
	changed, disabled := alice, alice
	changed.PasswordHash, disabled.Disabled = cheapArgon2id("looking glass"), true
	for name, c := range map[string]struct {
		accounts           *Accounts
		username, password string
	}{
		"changed":  {newAccounts(t, changed), "alice", "looking glass"},
		"disabled": {newAccounts(t, disabled), "alice", "wonderland"},
		"removed":  {newAccounts(t), "alice", "wonderland"},
		"spelling": {before, "ALICE", "wonderland"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			f.wantChecked(t, "before", before, "alice", "wonderland", nthAddr(0))
			f.guess(t, before, testLimit, onAccount("alice"))
			f.wantThrottled(t, "after", c.accounts, c.username, c.password, nthAddr(0))
			f.wantChecked(t, "the account of before", before, "alice", "wonderland", nthAddr(0))
		})
	}
}

// Accounts of one name, such as that of a person and that of shared
// credentials, are known beside each other, and share a count.
func TestKnownPairOfTwoAccounts(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	people := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	shared := newAccounts(t, Account{Username: "Alice", PasswordHash: cheapArgon2id("s3rvice")})
	f.wantChecked(t, "a person", people, "alice", "wonderland", nthAddr(0))
	f.wantChecked(t, "a service", shared, "Alice", "s3rvice", nthAddr(0))
	f.guess(t, people, testLimit, onAccount("alice"))
	f.wantChecked(t, "a person", people, "alice", "wonderland", nthAddr(0))
	f.wantChecked(t, "a service", shared, "Alice", "s3rvice", nthAddr(0))
	f.guess(t, shared, testLimit/2, onPair("Alice", nthAddr(0)))
	f.guess(t, people, testLimit/2, onPair("alice", nthAddr(0)))
	f.wantThrottled(t, "a person", people, "alice", "wonderland", nthAddr(0))
	f.wantThrottled(t, "a service", shared, "Alice", "s3rvice", nthAddr(0))
}

// The passwords of 24 hours are as many as an account had in that time.
func TestKnownPairForgetsVersions(t *testing.T) {
	t.Parallel()
	clock := newManualClock()
	throttle := NewThrottle(testLimit, time.Minute, clock.now)
	s := newSubject("alice", nthAddr(0))
	for i := range 100 {
		s.version = fmt.Sprint(i)
		if err := throttle.look(s, true); err != nil {
			t.Fatal(err)
		}
		clock.advance(knownFor / 4)
	}
	if p, _ := throttle.pairs.Peek(s.pairKey); len(p.matches) > 4 {
		t.Errorf("%d versions are remembered, want at most 4", len(p.matches))
	}
}

// The clients of one IPv6 network are one client here, too.
func TestKnownPairOfANetwork(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	f.wantChecked(t, "before", accounts, "alice", "wonderland", netip.MustParseAddr("2001:db8::1"))
	f.guess(t, accounts, testLimit, onAccount("alice"))
	f.wantChecked(t, "the same /64", accounts, "alice", "wonderland", netip.MustParseAddr("2001:db8::2"))
	f.wantThrottled(t, "another /64", accounts, "alice", "wonderland", netip.MustParseAddr("2001:db8:0:1::1"))
}

func TestKnownPairsAreBounded(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(testLimit, time.Minute, newManualClock().now)
	for i := range maxCounters + 10 {
		s := newSubject("alice", nthAddr(i))
		s.version = "1"
		if err := throttle.look(s, true); err != nil {
			t.Fatal(err)
		}
	}
	if got := throttle.pairs.Len(); got != maxCounters {
		t.Errorf("%d pairs are known, want %d", got, maxCounters)
	}
	if a, c := throttle.accounts.Len(), throttle.clients.Len(); a != 0 || c != 0 {
		t.Errorf("%d accounts and %d addresses are kept, want none", a, c)
	}
}
