package auth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// manualClock is a clock that tests turn by hand.
type manualClock struct {
	mu sync.Mutex
	at time.Time
}

func newManualClock() *manualClock {
	return &manualClock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (c *manualClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// nthAddr returns the i-th of many IPv4 addresses.
func nthAddr(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24+uint32(i))
	return netip.AddrFrom4(b)
}

// fail makes an attempt that fails, which the throttle has to let begin.
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

// retryAfter returns for how long an attempt is refused, 0 if it is not. To
// look and to begin have to agree.
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

func TestThrottleCountsAccountsAndClientsApart(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(3, time.Minute, newManualClock().now)
	for i := range 3 {
		if got := retryAfter(t, throttle, "alice", nthAddr(i)); got != 0 {
			t.Errorf("refused for %s after %d failures", got, i)
		}
		fail(t, throttle, "alice", nthAddr(i))
	}
	if got := retryAfter(t, throttle, "alice", nthAddr(99)); got != time.Minute {
		t.Errorf("the account is refused for %s, want 1m", got)
	}
	if got := retryAfter(t, throttle, "bob", nthAddr(0)); got != 0 {
		t.Errorf("an address with one failure is refused for %s", got)
	}
	for i := range 2 {
		fail(t, throttle, fmt.Sprintf("guess-%d", i), nthAddr(0))
	}
	if got := retryAfter(t, throttle, "bob", nthAddr(0)); got != time.Minute {
		t.Errorf("the address is refused for %s, want 1m", got)
	}
	if got := retryAfter(t, throttle, "bob", nthAddr(1)); got != 0 {
		t.Errorf("bob is refused for %s elsewhere", got)
	}
}

func TestThrottleWindow(t *testing.T) {
	t.Parallel()
	clock := newManualClock()
	throttle := NewThrottle(2, time.Minute, clock.now)
	fail(t, throttle, "alice", nthAddr(0))
	clock.advance(40 * time.Second)
	fail(t, throttle, "alice", nthAddr(1))
	if got := retryAfter(t, throttle, "alice", nthAddr(2)); got != 20*time.Second {
		t.Errorf("refused for %s, want the rest of the window, 20s", got)
	}
	clock.advance(20*time.Second - 1)
	if got := retryAfter(t, throttle, "alice", nthAddr(2)); got != 1 {
		t.Errorf("refused for %s, want 1ns", got)
	}
	clock.advance(1)
	if got := retryAfter(t, throttle, "alice", nthAddr(2)); got != 0 {
		t.Errorf("refused for %s after the window", got)
	}
	// A new window starts from nothing.
	fail(t, throttle, "alice", nthAddr(0))
	if got := retryAfter(t, throttle, "alice", nthAddr(2)); got != 0 {
		t.Errorf("refused for %s after one failure in a new window", got)
	}
	fail(t, throttle, "alice", nthAddr(0))
	if got := retryAfter(t, throttle, "alice", nthAddr(2)); got != time.Minute {
		t.Errorf("refused for %s, want 1m", got)
	}
}

func TestThrottleRetryAfterIsTheLongerOne(t *testing.T) {
	t.Parallel()
	clock := newManualClock()
	throttle := NewThrottle(1, time.Minute, clock.now)
	fail(t, throttle, "alice", nthAddr(0))
	clock.advance(30 * time.Second)
	fail(t, throttle, "bob", nthAddr(1))
	for _, c := range []struct {
		username string
		client   netip.Addr
		want     time.Duration
	}{
		{"alice", nthAddr(0), 30 * time.Second},
		{"alice", nthAddr(1), time.Minute},
		{"bob", nthAddr(0), time.Minute},
	} {
		if got := retryAfter(t, throttle, c.username, c.client); got != c.want {
			t.Errorf("%s from %s: refused for %s, want %s", c.username, c.client, got, c.want)
		}
	}
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

func TestThrottleCountsAttemptsUnderWay(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(2, time.Minute, newManualClock().now)
	first := begin(t, throttle, "alice", nthAddr(0))
	second := begin(t, throttle, "alice", nthAddr(1))
	third := newSubject("alice", nthAddr(2))

	r, full, err := throttle.reserve(third)
	if r != nil || full == nil || err != nil {
		t.Fatalf("two of two under way: got %v, %v, %v, want to be told to wait", r, full, err)
	}
	select {
	case <-full:
		t.Fatal("told to go on while nothing is settled")
	default:
	}
	first.settle(false)
	select {
	case <-full:
	default:
		t.Fatal("not told that an attempt is settled")
	}
	fail(t, throttle, "alice", nthAddr(2))

	// One failed, one is under way.
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

func TestThrottleSuccessTakesBackOnlyItself(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(3, time.Minute, newManualClock().now)
	fail(t, throttle, "alice", nthAddr(0))
	fail(t, throttle, "alice", nthAddr(0))
	for range 10 {
		begin(t, throttle, "alice", nthAddr(0)).settle(false)
	}
	fail(t, throttle, "alice", nthAddr(0))
	if got := retryAfter(t, throttle, "alice", nthAddr(1)); got != time.Minute {
		t.Errorf("the account is refused for %s, want 1m", got)
	}
	if got := retryAfter(t, throttle, "bob", nthAddr(0)); got != time.Minute {
		t.Errorf("the address is refused for %s, want 1m", got)
	}
}

func TestThrottleKeepsNothingOfSuccess(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(3, time.Minute, newManualClock().now)
	for i := range 100 {
		begin(t, throttle, fmt.Sprintf("user-%d", i), nthAddr(i)).settle(false)
	}
	if a, c := throttle.accounts.Len(), throttle.clients.Len(); a != 0 || c != 0 {
		t.Errorf("%d accounts and %d addresses are kept, want none", a, c)
	}
}

func TestThrottleSetLimits(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(5, time.Minute, newManualClock().now)
	for range 3 {
		fail(t, throttle, "alice", nthAddr(0))
	}
	throttle.SetLimits(3, time.Hour)
	if got := retryAfter(t, throttle, "alice", nthAddr(1)); got != time.Minute {
		t.Errorf("lowered: refused for %s, want the window that had begun, 1m", got)
	}
	throttle.SetLimits(4, time.Hour)
	if got := retryAfter(t, throttle, "alice", nthAddr(1)); got != 0 {
		t.Errorf("raised: refused for %s", got)
	}
	for range 4 {
		fail(t, throttle, "bob", nthAddr(2))
	}
	if got := retryAfter(t, throttle, "bob", nthAddr(3)); got != time.Hour {
		t.Errorf("a new window: refused for %s, want 1h", got)
	}
}

func TestThrottleCannotBeTurnedOff(t *testing.T) {
	t.Parallel()
	for _, limits := range []struct {
		limit  int
		window time.Duration
	}{{0, 0}, {-1, -time.Second}} {
		throttle := NewThrottle(limits.limit, limits.window, newManualClock().now)
		if got := retryAfter(t, throttle, "alice", nthAddr(0)); got != 0 {
			t.Errorf("%v: refused for %s before any failure", limits, got)
		}
		fail(t, throttle, "alice", nthAddr(0))
		if got := retryAfter(t, throttle, "alice", nthAddr(1)); got != time.Second {
			t.Errorf("%v: refused for %s, want 1s", limits, got)
		}
	}
}

func TestThrottleMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit, flood = 100, 1_000_000
	throttle := NewThrottle(limit, time.Minute, newManualClock().now)
	for i := range limit {
		fail(t, throttle, "victim", nthAddr(i))
	}
	for i := range flood {
		// As many failures as the account of each name can have.
		r, _, err := throttle.reserve(newSubject(fmt.Sprint("name-", i/limit), nthAddr(i)))
		if err != nil {
			t.Fatal(err)
		}
		r.settle(true)
	}
	if got := throttle.clients.Len(); got != maxCounters {
		t.Errorf("%d addresses are kept, want %d", got, maxCounters)
	}
	if got := throttle.accounts.Len(); got != 1+flood/limit {
		t.Errorf("%d accounts are kept, want %d", got, 1+flood/limit)
	}
	if got := retryAfter(t, throttle, "victim", nthAddr(flood)); got != time.Minute {
		t.Errorf("the flood of addresses lifted the refusal of an account: %s left, want 1m", got)
	}

	for i := range maxCounters {
		fail(t, throttle, fmt.Sprintf("other-%d", i), nthAddr(i/limit))
	}
	if got := throttle.accounts.Len(); got != maxCounters {
		t.Errorf("%d accounts are kept, want %d", got, maxCounters)
	}
}

func TestThrottleForgottenWhileUnderWay(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(1, time.Minute, newManualClock().now)
	old := begin(t, throttle, "alice", nthAddr(0))
	throttle.accounts.Purge()
	throttle.clients.Purge()
	current := begin(t, throttle, "alice", nthAddr(0))
	old.settle(false) // must not take the counters of the other away
	if r, full, err := throttle.reserve(newSubject("alice", nthAddr(0))); r != nil || full == nil || err != nil {
		t.Errorf("got %v, %v, %v, want to be told to wait", r, full, err)
	}
	current.settle(true)
	if got := retryAfter(t, throttle, "alice", nthAddr(0)); got != time.Minute {
		t.Errorf("refused for %s, want 1m", got)
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
