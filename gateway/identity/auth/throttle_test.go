package auth

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
)

// nthAddr returns the i-th of many IPv4 addresses.
func nthAddr(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24+uint32(i))
	return netip.AddrFrom4(b)
}

// fail makes a check that fails. The throttle must admit it.
func fail(tb testing.TB, throttle *Throttle, username string, client netip.Addr) {
	tb.Helper()
	begin(tb, throttle, username, client).settle(true)
}

func begin(tb testing.TB, throttle *Throttle, username string, client netip.Addr) *reservation {
	tb.Helper()
	r, full, err := throttle.reserve(newSubject(username, client))
	if err != nil || full != nil {
		tb.Fatalf("%q from %s is not let begin: %v", username, client, err)
	}
	return r
}

// wantWait fails the test unless the throttle tells a check to wait. It returns the channel
// that is closed when the check can try again.
func wantWait(tb testing.TB, throttle *Throttle, username string, client netip.Addr) <-chan struct{} {
	tb.Helper()
	r, full, err := throttle.reserve(newSubject(username, client))
	if r != nil || full == nil || err != nil || isClosed(full) {
		tb.Fatalf("got %v, %v, %v, want to be told to wait", r, full, err)
	}
	return full
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wantRetry fails the test unless look and reserve refuse a check for that long.
func wantRetry(tb testing.TB, throttle *Throttle, username string, client netip.Addr, want time.Duration) {
	tb.Helper()
	s := newSubject(username, client)
	looked := throttle.look(s, false)
	r, _, reserved := throttle.reserve(s)
	if r != nil {
		r.settle(false)
	}
	if (looked == nil) != (reserved == nil) {
		tb.Fatalf("%q from %s: look says %v, reserve %v", username, client, looked, reserved)
	}
	throttled := &ThrottledError{}
	if errors.As(looked, &throttled); throttled.RetryAfter != want {
		tb.Errorf("%q from %s is refused for %s, want %s", username, client, throttled.RetryAfter, want)
	}
}

func TestThrottleSpellings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name         string
		first, other string
		same         bool
	}{
		{"case", "alice", "ALiCE", true},
		{"outer space", "alice", " \talice\u00a0\n", true},
		{"case beyond ASCII", "ärger", "ÄRGER", true},
		{"normalization", "Jos\u00e9", "JOSE\u0301\u2003", true},
		{"characters with three cases", "\u03a3\u03bf\u03c6\u03cc\u03c2", "\u03c3\u03bf\u03c6\u03bf\u0301\u03c3", true},
		{"compatibility forms", "alice", "\uff21lice", true},
		{"another name", "weiss", "wei\u00df", false},
		{"inner space", "alice", "al ice", false},
		{"long names", long, " " + strings.ToUpper(long), true},
		{"other long names", long, long + "y", false},
	} {
		if got := newSubject(c.first, nthAddr(0)) == newSubject(c.other, nthAddr(0)); got != c.same {
			t.Errorf("%s: counted together: %v, want %v", c.name, got, c.same)
		}
	}
	if got := len(newSubject(long, nthAddr(0)).account); got > maxAccountKey {
		t.Errorf("a long name takes %d bytes, want at most %d", got, maxAccountKey)
	}
	for client, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:0:1:ffff::2": "2001:db8:0:1::", "fe80::1%eth0": "fe80::",
	} {
		if got := newSubject("a", netip.MustParseAddr(client)).client; got.String() != want {
			t.Errorf("%s counts as %s, want %s", client, got, want)
		}
	}
	if newSubject("a", netip.Addr{}).client.IsValid() {
		t.Error("no address counts as an address")
	}
}

// Checks that are running count as failures, until their outcome is known.
func TestThrottleCountsAttemptsInFlight(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(2, time.Minute, clocktest.New().Now)
	first, second := begin(t, throttle, "alice", nthAddr(0)), begin(t, throttle, "alice", nthAddr(1))
	full := wantWait(t, throttle, "alice", nthAddr(2))
	first.settle(false)
	if !isClosed(full) {
		t.Fatal("not told that a check has ended")
	}
	fail(t, throttle, "alice", nthAddr(2))
	wantWait(t, throttle, "alice", nthAddr(2)) // one has failed, one is running
	must.Do(t, throttle.look(newSubject("alice", nthAddr(2)), false))
	second.settle(true)
	wantRetry(t, throttle, "alice", nthAddr(3), time.Minute)
}

func TestThrottleForgottenWhileInFlight(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(1, time.Minute, clocktest.New().Now)
	old := begin(t, throttle, "alice", nthAddr(0))
	throttle.accounts.Purge()
	throttle.clients.Purge()
	current := begin(t, throttle, "alice", nthAddr(0))
	old.settle(false) // must not remove the other's counters
	wantWait(t, throttle, "alice", nthAddr(0))
	current.settle(true)
	wantRetry(t, throttle, "alice", nthAddr(0), time.Minute)
}

// A flood of addresses removes no account's count. The memory is limited, and successes take none.
func TestThrottleMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit, flood = 100, maxCounters + 1000
	throttle := NewThrottle(limit, time.Minute, clocktest.New().Now)
	wantKept := func(accounts, clients, pairs int) {
		t.Helper()
		if a, c, p := throttle.accounts.Len(), throttle.clients.Len(), throttle.pairs.Len(); a != accounts ||
			c != clients || p != pairs {
			t.Errorf("%d accounts, %d addresses and %d pairs are kept, want %d, %d and %d", a, c, p, accounts, clients, pairs)
		}
	}
	begin(t, throttle, "good", nthAddr(0)).settle(false)
	wantKept(0, 0, 0)
	for i := range limit {
		fail(t, throttle, "victim", nthAddr(i))
	}
	for i := range flood { // as many failures for each name as an account can have
		fail(t, throttle, fmt.Sprint("name-", i/limit), nthAddr(i))
	}
	wantKept(1+flood/limit, maxCounters, 0)
	wantRetry(t, throttle, "victim", nthAddr(flood), time.Minute)
	for i := range maxCounters + 10 {
		fail(t, throttle, fmt.Sprint("other-", i), nthAddr(i/limit))
		s := newSubject("known", nthAddr(i))
		s.version = "1"
		throttle.remember(s, throttle.now())
	}
	wantKept(maxCounters, maxCounters, maxCounters)
}

// outcomes calls check n times at the same time and counts the results.
func outcomes(n int, check func(i int) (*accounts.Account, error)) (good, rejected, throttled int) {
	results := make(chan error, n)
	start := make(chan struct{})
	for i := range n {
		go func() {
			<-start
			account, err := check(i)
			if (account == nil) == (err == nil) {
				err = fmt.Errorf("both %+v and %w", account, err)
			}
			results <- err
		}()
	}
	close(start)
	for range n {
		switch err := <-results; {
		case err == nil:
			good++
		case errors.Is(err, ErrRejected):
			rejected++
		case isThrottled(err):
			throttled++
		}
	}
	return good, rejected, throttled
}

// Parallel guesses do not pass the limit. A correct password is never refused because of other
// checks at the same time: many people share an address, and many requests share a credential.
func TestParallelGuessesDoNotPassTheLimit(t *testing.T) {
	t.Parallel()
	const guesses = 200
	people := newAccounts(accounts.Account{Username: "alice", Hash: passwordtest.Argon2id("wonderland")})
	numbered := func(name string) func(int) string { return func(i int) string { return fmt.Sprint(name, i) } }
	always := func(name string) func(int) string { return func(int) string { return name } }
	home := func(int) netip.Addr { return nthAddr(0) }
	for _, c := range []struct {
		name               string
		username, password func(i int) string
		client             func(i int) netip.Addr
		known, right       bool
	}{
		{"on an account", always("alice"), numbered("guess-"), nthAddr, false, false},
		{"from an address", numbered("user-"), numbered("guess-"), home, false, false},
		{"the same guess", always("alice"), always("guess"), nthAddr, false, false},
		{"on an unknown account", always("stranger"), numbered("guess-"), nthAddr, false, false},
		{"of a known pair", always("alice"), numbered("guess-"), home, true, false},
		{"the right password", always("alice"), always("wonderland"), home, false, true},
	} {
		for _, method := range []string{"Check", "CheckFresh"} {
			f := newVerifierFixture()
			check := f.methods()[method]
			if c.known {
				must.Get(check(people, "alice", "wonderland", nthAddr(0)))(t)
				f.takeCosts()
			}
			good, rejected, throttled := outcomes(guesses, func(i int) (*accounts.Account, error) {
				return check(people, c.username(i), c.password(i), c.client(i))
			})
			if want := [3]int{0, testLimit, guesses - testLimit}; !c.right && [3]int{good, rejected, throttled} != want ||
				c.right && good != guesses {
				t.Errorf("%s, %s: %d good, %d rejected, %d throttled; want all good, or %v",
					c.name, method, good, rejected, throttled, want)
			}
			least, most := 1, testLimit // hashes
			if c.right {
				least = map[string]int{"Check": 1, "CheckFresh": guesses}[method]
				most = least
			}
			if got := len(f.takeCosts()); got < least || got > most {
				t.Errorf("%s, %s: computed %d, want %d to %d", c.name, method, got, least, most)
			}
		}
	}
}

// Checks that wait for the throttle end with their context, and only so many wait.
func TestWaitingForTheThrottle(t *testing.T) {
	t.Parallel()
	people := newAccounts(accounts.Account{Username: "alice", Hash: passwordtest.Argon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		var wg sync.WaitGroup
		guess := func() {
			_, err := f.CheckFresh(t.Context(), people, "alice", "wrong", nthAddr(0))
			if !errors.Is(err, ErrRejected) && !isThrottled(err) {
				t.Errorf("got %v, want ErrRejected or to be throttled", err)
			}
		}
		wantBusy := func(ctx context.Context) {
			account, err := f.CheckFresh(ctx, people, "alice", "wonderland", nthAddr(0))
			wantError[accounts.Account](t, ErrBusy)(account, err)
		}
		for range testLimit {
			wg.Go(guess)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { wantBusy(ctx) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := f.waiting.others.Load(); got != 0 {
			t.Errorf("%d are waiting, want none", got)
		}
		for range maxThrottleQueue {
			wg.Go(guess)
		}
		synctest.Wait()
		wantBusy(t.Context()) // one too many
		close(release)
		wg.Wait()
		if got := f.hasher.Computed(); got != testLimit {
			t.Errorf("computed %d, want %d", got, testLimit)
		}
	})
}

// Checks that wait for the throttle leave places for known pairs.
func TestKnownPairsWaitForTheThrottle(t *testing.T) {
	t.Parallel()
	var w waitingChecks
	full := make(chan struct{})
	close(full)
	for name, counts := range map[string][2]int64{"known": {0, maxThrottleQueue}, "others": {maxThrottleQueue, 0}} {
		w.known.Store(counts[0])
		w.others.Store(counts[1])
		known, others := w.wait(t.Context(), true, full), w.wait(t.Context(), false, full)
		if (known == nil) != (name == "known") || (others == nil) != (name == "others") {
			t.Errorf("a place for %s: got %v for a known pair, %v for another", name, known, others)
		}
	}
}

// A pair forgets versions of its account after 24 hours.
func TestKnownPairForgetsVersions(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	throttle := NewThrottle(testLimit, time.Minute, clock.Now)
	s := newSubject("alice", nthAddr(0))
	for i := range 100 {
		s.version = fmt.Sprint(i)
		must.Do(t, throttle.look(s, true))
		clock.Advance(knownFor / 4)
	}
	if p, _ := throttle.pairs.Peek(s.pairKey); len(p.matches) > 4 {
		t.Errorf("%d versions are remembered, want at most 4", len(p.matches))
	}
}

// A check that began in one window and fails in the next one counts there.
func TestThrottleFailureAfterTheWindow(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	throttle := NewThrottle(2, time.Minute, clock.Now)
	client := nthAddr(1)
	fail(t, throttle, "alice", client)
	clock.Advance(time.Minute - time.Second)
	late := begin(t, throttle, "alice", client)
	clock.Advance(2 * time.Second)
	late.settle(true)
	fail(t, throttle, "alice", client)
	wantRetry(t, throttle, "alice", client, time.Minute)
}

// Only a sign-in makes a pair known: neither a right password nor a right code does, of which a login
// may need more. It does so also while checks of passwords are refused.
func TestOnlyASignInMakesAPairKnown(t *testing.T) {
	t.Parallel()
	people := newAccounts(accounts.Account{Username: "alice", Hash: passwordtest.Argon2id("wonderland")})
	f, home := newVerifierFixture(), nthAddr(0)
	alice := must.Get(f.CheckFresh(t.Context(), people, "alice", "wonderland", home))(t)
	must.Do(t, f.CheckCode(t.Context(), alice, home, func() error { return nil }))
	for i := range testLimit {
		wantError[accounts.Account](t, ErrRejected)(f.CheckFresh(t.Context(), people, "alice", "guess", nthAddr(1+i)))
	}
	if _, err := f.CheckFresh(t.Context(), people, "alice", "wonderland", home); !isThrottled(err) {
		t.Errorf("after a password and a code: %v", err)
	}
	f.SignedIn(alice, home)
	must.Get(f.CheckFresh(t.Context(), people, "alice", "wonderland", home))(t)
	if _, err := f.CheckFresh(t.Context(), people, "alice", "wonderland", nthAddr(1)); !isThrottled(err) {
		t.Errorf("elsewhere: %v", err)
	}
}
