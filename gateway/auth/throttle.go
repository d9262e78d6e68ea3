package auth

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxCounters bounds the accounts and, apart from them, the addresses that
	// a Throttle remembers. Apart, so that a flood of addresses cannot push out
	// the count of an account: that takes as many failed logins, each with its
	// password hash, on as many names.
	maxCounters = 100_000
	// maxAccountKey is the longest user name, in bytes, kept as it is.
	maxAccountKey = 256
)

// ThrottledError refuses an attempt because too many failed before it, on the
// account or from the address. Whether the password was right is not said.
type ThrottledError struct {
	// RetryAfter is how long further attempts will be refused; always positive.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("auth: too many failed logins, refused for %s", e.RetryAfter)
}

// Throttle counts failed attempts to sign in, by account and by client
// address, in windows that begin with the first failure. Once limit is
// reached, attempts are refused until the window ends. An attempt counts from
// its start until it is known to have succeeded, so that attempts side by side
// cannot pass the limit; success takes back nothing else.
//
// Account names count without regard to case (as strings.ToLower maps it) and
// outer space, whether or not the account exists. IPv6 addresses count by
// their /64, which is what one client commonly has. Memory is bounded: of more
// than 100,000 accounts or addresses the one not asked about for longest is
// forgotten. It is safe for concurrent use.
type Throttle struct {
	now func() time.Time

	mu       sync.Mutex
	limit    int
	window   time.Duration
	accounts *simplelru.LRU[string, *counter]
	clients  *simplelru.LRU[netip.Addr, *counter]
}

// counter counts the attempts on one account or from one address.
type counter struct {
	failures int           // known, in the window
	pending  int           // attempts not settled yet
	ends     time.Time     // of the window, where there are failures
	settled  chan struct{} // closed when an attempt is settled; nil when nobody waits
}

// subject is whom an attempt counts for.
type subject struct {
	account string
	client  netip.Addr
}

// NewThrottle returns a Throttle that refuses after limit failures within
// window. now tells the time. A limit below 1 means 1, and a window below a
// second means a second: throttling cannot be turned off by mistake.
func NewThrottle(limit int, window time.Duration, now func() time.Time) *Throttle {
	accounts, errAccounts := simplelru.NewLRU[string, *counter](maxCounters, nil)
	clients, errClients := simplelru.NewLRU[netip.Addr, *counter](maxCounters, nil)
	if errAccounts != nil || errClients != nil {
		panic("auth: the size is a positive constant")
	}
	t := &Throttle{now: now, accounts: accounts, clients: clients}
	t.SetLimits(limit, window)
	return t
}

// SetLimits changes the limits, as NewThrottle takes them. What was counted
// stays; windows that have begun end when they would have.
func (t *Throttle) SetLimits(limit int, window time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = max(limit, 1)
	t.window = max(window, time.Second)
}

func newSubject(username string, client netip.Addr) subject {
	s := subject{account: strings.ToLower(strings.TrimSpace(username)), client: clientKey(client)}
	if len(s.account) > maxAccountKey {
		sum := sha256.Sum256([]byte(s.account))
		s.account = string(sum[:])
	}
	return s
}

// clientKey is what counts as one client: an IPv4 address, or the 64 bits of
// an IPv6 address that one of them can choose from.
func clientKey(client netip.Addr) netip.Addr {
	client = client.Unmap()
	if client.Is6() {
		// Without an error: 64 bits are within every IPv6 address.
		prefix, _ := client.Prefix(64)
		client = prefix.Addr()
	}
	return client
}

// look returns a *ThrottledError where an attempt would be refused.
func (t *Throttle) look(s subject) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	account, _ := t.accounts.Get(s.account)
	client, _ := t.clients.Get(s.client)
	if account == nil && client == nil {
		return nil
	}
	return t.refusal(t.now(), account, client)
}

// refusal returns a *ThrottledError if one of the counters, which may be nil,
// has reached the limit, and forgets what lies before now's window.
func (t *Throttle) refusal(now time.Time, counters ...*counter) error {
	var wait time.Duration
	for _, c := range counters {
		if c == nil {
			continue
		}
		if !now.Before(c.ends) {
			c.failures = 0
		}
		if c.failures >= t.limit {
			wait = max(wait, c.ends.Sub(now))
		}
	}
	if wait > 0 {
		return &ThrottledError{RetryAfter: wait}
	}
	return nil
}

// reserve begins an attempt, which the caller must settle. The error is a
// *ThrottledError. Where the attempts under way could reach the limit it
// returns a channel instead: it is closed when it is time to try again.
func (t *Throttle) reserve(s subject) (*reservation, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	account, _ := t.accounts.Get(s.account)
	client, _ := t.clients.Get(s.client)
	if err := t.refusal(t.now(), account, client); err != nil {
		return nil, nil, err
	}
	for _, c := range []*counter{account, client} {
		if c != nil && c.failures+c.pending >= t.limit {
			if c.settled == nil {
				c.settled = make(chan struct{})
			}
			return nil, c.settled, nil
		}
	}
	if account == nil {
		account = new(counter)
		t.accounts.Add(s.account, account)
	}
	if client == nil {
		client = new(counter)
		t.clients.Add(s.client, client)
	}
	account.pending++
	client.pending++
	return &reservation{throttle: t, subject: s, account: account, client: client}, nil, nil
}

// reservation is an attempt under way.
type reservation struct {
	throttle        *Throttle
	subject         subject
	account, client *counter
}

// settle ends the attempt: failed, or as if it had never been.
func (r *reservation) settle(failed bool) {
	t := r.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	ends := t.now().Add(t.window)
	r.account.settle(failed, ends)
	r.client.settle(failed, ends)
	forget(t.accounts, r.subject.account, r.account)
	forget(t.clients, r.subject.client, r.client)
}

// settle ends a pending attempt. A window that it begins ends at ends.
func (c *counter) settle(failed bool, ends time.Time) {
	c.pending--
	if failed {
		if c.failures == 0 {
			c.ends = ends
		}
		c.failures++
	}
	if c.settled != nil {
		close(c.settled)
		c.settled = nil
	}
}

// forget drops c, if it is still the counter under key and counts nothing.
func forget[K comparable](counters *simplelru.LRU[K, *counter], key K, c *counter) {
	if c.failures > 0 || c.pending > 0 {
		return
	}
	if held, ok := counters.Peek(key); ok && held == c {
		counters.Remove(key)
	}
}
