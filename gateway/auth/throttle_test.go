package auth

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/clocktest"
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

// retryAfter returns how long a check is refused, or 0. look and reserve must agree.
func retryAfter(tb testing.TB, throttle *Throttle, username string, client netip.Addr) time.Duration {
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
	var throttled *ThrottledError
	if !errors.As(looked, &throttled) {
		return 0
	}
	return throttled.RetryAfter
}

func TestThrottleSpellings(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name         string
		first, other subject
		same         bool
	}{
		{"case", newSubject("alice", nthAddr(0)), newSubject("ALiCE", nthAddr(0)), true},
		{"outer space", newSubject("alice", nthAddr(0)), newSubject(" \talice\u00a0\n", nthAddr(0)), true},
		{"case beyond ASCII", newSubject("ärger", nthAddr(0)), newSubject("ÄRGER", nthAddr(0)), true},
		{"inner space", newSubject("alice", nthAddr(0)), newSubject("al ice", nthAddr(0)), false},
		{"long names", newSubject(long, nthAddr(0)), newSubject(" "+strings.ToUpper(long), nthAddr(0)), true},
		{"other long names", newSubject(long, nthAddr(0)), newSubject(long+"y", nthAddr(0)), false},
		{"IPv4 within IPv6", newSubject("a", addr("192.0.2.1")), newSubject("a", addr("::ffff:192.0.2.1")), true},
		{"other IPv4", newSubject("a", addr("192.0.2.1")), newSubject("a", addr("192.0.2.2")), false},
		{"one /64", newSubject("a", addr("2001:db8::1")), newSubject("a", addr("2001:db8:0:0:ffff::2")), true},
		{"another /64", newSubject("a", addr("2001:db8::1")), newSubject("a", addr("2001:db8:0:1::1")), false},
		{"zones", newSubject("a", addr("fe80::1%eth0")), newSubject("a", addr("fe80::2%eth1")), true},
		{"no address", newSubject("a", netip.Addr{}), newSubject("a", addr("0.0.0.0")), false},
	} {
		if got := c.first == c.other; got != c.same {
			t.Errorf("%s: counted together: %v, want %v", c.name, got, c.same)
		}
	}
	if got := len(newSubject(long, nthAddr(0)).account); got > maxAccountKey {
		t.Errorf("a long name takes %d bytes", got)
	}
}

func TestThrottleCountsAttemptsInFlight(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(2, time.Minute, clocktest.New().Now)
	first := begin(t, throttle, "alice", nthAddr(0))
	second := begin(t, throttle, "alice", nthAddr(1))
	third := newSubject("alice", nthAddr(2))

	r, full, err := throttle.reserve(third)
	if r != nil || full == nil || err != nil {
		t.Fatalf("two of two under way: got %v, %v, %v, want to be told to wait", r, full, err)
	}
	select {
	case <-full:
		t.Fatal("told to go on before a check ends")
	default:
	}
	first.settle(false)
	select {
	case <-full:
	default:
		t.Fatal("not told that a check has ended")
	}
	fail(t, throttle, "alice", nthAddr(2))

	// One check has failed, one is running.
	if r, full, err := throttle.reserve(third); r != nil || full == nil || err != nil {
		t.Errorf("got %v, %v, %v, want to be told to wait", r, full, err)
	}
	if err := throttle.look(third, false); err != nil {
		t.Errorf("refused before the outcome is known: %v", err)
	}
	second.settle(true)
	if got := retryAfter(t, throttle, "alice", nthAddr(3)); got != time.Minute {
		t.Errorf("refused for %s, want 1m", got)
	}
}

func TestThrottleKeepsNothingOfSuccess(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(3, time.Minute, clocktest.New().Now)
	for i := range 100 {
		begin(t, throttle, fmt.Sprintf("user-%d", i), nthAddr(i)).settle(false)
	}
	if a, c := throttle.accounts.Len(), throttle.clients.Len(); a != 0 || c != 0 {
		t.Errorf("%d accounts and %d addresses are kept, want none", a, c)
	}
}

func TestThrottleForgottenWhileInFlight(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(1, time.Minute, clocktest.New().Now)
	old := begin(t, throttle, "alice", nthAddr(0))
	throttle.accounts.Purge()
	throttle.clients.Purge()
	current := begin(t, throttle, "alice", nthAddr(0))
	old.settle(false) // must not remove the other's counters
	if r, full, err := throttle.reserve(newSubject("alice", nthAddr(0))); r != nil || full == nil || err != nil {
		t.Errorf("got %v, %v, %v, want to be told to wait", r, full, err)
	}
	current.settle(true)
	if got := retryAfter(t, throttle, "alice", nthAddr(0)); got != time.Minute {
		t.Errorf("refused for %s, want 1m", got)
	}
}

// A flood of addresses removes no account's count. The memory is limited.
func TestThrottleMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit, flood = 100, maxCounters + 1000
	throttle := NewThrottle(limit, time.Minute, clocktest.New().Now)
	for i := range limit {
		fail(t, throttle, "victim", nthAddr(i))
	}
	for i := range flood { // as many failures for each name as an account can have
		fail(t, throttle, fmt.Sprint("name-", i/limit), nthAddr(i))
	}
	if c, a := throttle.clients.Len(), throttle.accounts.Len(); c != maxCounters || a != 1+flood/limit {
		t.Errorf("%d addresses and %d accounts are kept, want %d and %d", c, a, maxCounters, 1+flood/limit)
	}
	if got := retryAfter(t, throttle, "victim", nthAddr(flood)); got != time.Minute {
		t.Errorf("the account is refused for %s after the flood, want 1m", got)
	}
	for i := range maxCounters {
		fail(t, throttle, fmt.Sprint("other-", i), nthAddr(i/limit))
	}
	for i := range maxCounters + 10 {
		s := newSubject("known", nthAddr(i))
		s.version = "1"
		throttle.remember(s, throttle.now())
	}
	if a, p := throttle.accounts.Len(), throttle.pairs.Len(); a != maxCounters || p != maxCounters {
		t.Errorf("%d accounts and %d pairs are kept, want %d", a, p, maxCounters)
	}
}

// outcomes calls check n times at the same time and counts the results.
func outcomes(n int, check func(i int) (*Account, error)) (good, rejected, throttled, other int64) {
	var counts [4]atomic.Int64
	var start, wg sync.WaitGroup
	start.Add(1)
	for i := range n {
		wg.Go(func() {
			start.Wait()
			account, err := check(i)
			switch {
			case err == nil && account != nil:
				counts[0].Add(1)
			case account == nil && errors.Is(err, ErrRejected):
				counts[1].Add(1)
			case account == nil && isThrottled(err):
				counts[2].Add(1)
			default:
				counts[3].Add(1)
			}
		})
	}
	start.Done()
	wg.Wait()
	return counts[0].Load(), counts[1].Load(), counts[2].Load(), counts[3].Load()
}

func TestParallelGuessesDoNotPassTheLimit(t *testing.T) {
	t.Parallel()
	const guesses = 200
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	numbered := func(name string) func(int) string { return func(i int) string { return fmt.Sprint(name, i) } }
	always := func(name string) func(int) string { return func(int) string { return name } }
	home := func(int) netip.Addr { return nthAddr(0) }
	for _, c := range []struct {
		name               string
		username, password func(i int) string
		client             func(i int) netip.Addr
		known              bool
	}{
		{"on an account", always("alice"), numbered("guess-"), nthAddr, false},
		{"from an address", numbered("user-"), numbered("guess-"), home, false},
		{"the same guess", always("alice"), always("guess"), nthAddr, false},
		{"on an unknown account", always("nobody"), numbered("guess-"), nthAddr, false},
		{"of a known pair", always("alice"), numbered("guess-"), home, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{"Check", "CheckFresh"} {
				f := newVerifierFixture()
				check := f.methods()[method]
				computed := uint64(0)
				if c.known {
					must(check(accounts, "alice", "wonderland", nthAddr(0)))(t)
					computed = 1
				}
				good, rejected, throttled, other := outcomes(guesses, func(i int) (*Account, error) {
					return check(accounts, c.username(i), c.password(i), c.client(i))
				})
				if good != 0 || rejected != testLimit || throttled != guesses-testLimit || other != 0 {
					t.Errorf("%s: %d good, %d rejected, %d throttled, %d other; want %d rejected and the rest throttled",
						method, good, rejected, throttled, other, testLimit)
				}
				if got := f.hasher.Computed() - computed; got < 1 || got > testLimit {
					t.Errorf("%s: computed %d, want 1 to %d", method, got, testLimit)
				}
			}
		})
	}
}

// A correct password is never refused because of other checks at the same time: many
// people share an address, and many requests share a credential.
func TestParallelSuccessIsNotThrottled(t *testing.T) {
	t.Parallel()
	const parallel = 200
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for method, want := range map[string]uint64{"Check": 1, "CheckFresh": parallel} {
		f := newVerifierFixture()
		check := f.methods()[method]
		good, rejected, throttled, other := outcomes(parallel, func(int) (*Account, error) {
			return check(accounts, "alice", "wonderland", nthAddr(0))
		})
		if good != parallel {
			t.Errorf("%s: %d good, %d rejected, %d throttled, %d other; want all good", method, good, rejected, throttled, other)
		}
		if got := f.hasher.Computed(); got != want {
			t.Errorf("%s: computed %d, want %d", method, got, want)
		}
	}
}

// Checks that wait for the throttle end with their context, and only so many wait.
func TestWaitingForTheThrottle(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		var wg sync.WaitGroup
		guess := func() {
			_, err := f.CheckFresh(t.Context(), accounts, "alice", "wrong", nthAddr(0))
			if !errors.Is(err, ErrRejected) && !isThrottled(err) {
				t.Errorf("got %v, want ErrRejected or to be throttled", err)
			}
		}
		for range testLimit {
			wg.Go(guess)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := f.CheckFresh(ctx, accounts, "alice", "wonderland", nthAddr(0)); !errors.Is(err, ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := f.waiting.Load(); got != 0 {
			t.Errorf("%d are waiting, want none", got)
		}
		for range maxThrottleQueue {
			wg.Go(guess)
		}
		synctest.Wait()
		if _, err := f.CheckFresh(t.Context(), accounts, "alice", "wrong", nthAddr(0)); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: got %v, want ErrBusy", err)
		}
		close(release)
		wg.Wait()
		if got := f.hasher.Computed(); got != testLimit {
			t.Errorf("computed %d, want %d", got, testLimit)
		}
	})
}

// A pair forgets versions of its account after 24 hours.
func TestKnownPairForgetsVersions(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	throttle := NewThrottle(testLimit, time.Minute, clock.Now)
	s := newSubject("alice", nthAddr(0))
	for i := range 100 {
		s.version = fmt.Sprint(i)
		noError(t, throttle.look(s, true))
		clock.Advance(knownFor / 4)
	}
	if p, _ := throttle.pairs.Peek(s.pairKey); len(p.matches) > 4 {
		t.Errorf("%d versions are remembered, want at most 4", len(p.matches))
	}
}

func BenchmarkThrottleLook(b *testing.B) {
	throttle := NewThrottle(10, time.Minute, time.Now)
	for i := range 10_000 {
		fail(b, throttle, fmt.Sprintf("user-%d", i), nthAddr(i))
	}
	for name, username := range map[string]string{"counted": "user-1", "unknown": "alice"} {
		b.Run(name, func(b *testing.B) {
			client := nthAddr(1)
			if username == "alice" {
				client = netip.MustParseAddr("2001:db8::1")
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := throttle.look(newSubject(username, client), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
