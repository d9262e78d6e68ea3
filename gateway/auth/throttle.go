package auth

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxCounters bounds the accounts and, apart from them, the addresses that
	// a Throttle remembers. Apart, so that a flood of addresses cannot push out
	// the count of an account: that takes as many failed logins, each with its
	// password hash, on as many names. As many known pairs are remembered.
	maxCounters = 100_000
	// knownFor is how long a pair of account and address stays known after a
	// password that matched.
	knownFor = 24 * time.Hour
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
// A pair of account and address for which a password matched in the last 24
// hours is known: it has a count of its own, and is refused by that one alone.
// The failures of other clients, on the account or from the address, do not
// close it. Its own failures, in whichever case the name is written, count for
// the account and the address as well, so that the clients that are not known
// have no more attempts than before. Another password makes the pair unknown.
//
// Account names count without regard to case (as strings.ToLower maps it) and
// outer space, whether or not the account exists. IPv6 addresses count by
// their /64, which is what one client commonly has. Memory is bounded: of more
// than 100,000 accounts, addresses or pairs the one not asked about for longest
// is forgotten. It is safe for concurrent use.
type Throttle struct {
	now func() time.Time

	mu       sync.Mutex
	limit    int
	window   time.Duration
	accounts *simplelru.LRU[string, *counter]
	clients  *simplelru.LRU[netip.Addr, *counter]
	pairs    *simplelru.LRU[pairKey, *pair]
}

// pair is an account name and an address for which a password matched. There
// can be several accounts of one name: in another case, and among the shared
// credentials.
type pair struct {
	counter
	matches []match
}

// match is a version of an account whose password matched.
type match struct {
	version string
	until   time.Time // known before that
}

type pairKey struct {
	account string
	client  netip.Addr
}

// counter counts the attempts on one account, from one address or of one pair.
type counter struct {
	failures int           // known, in the window
	pending  int           // attempts not settled yet
	ends     time.Time     // of the window, where there are failures
	settled  chan struct{} // closed when an attempt is settled; nil when nobody waits
}

// subject is whom an attempt counts for.
type subject struct {
	pairKey
	version string // of the account that can sign in; empty where there is none
}

// NewThrottle returns a Throttle that refuses after limit failures within
// window. now tells the time. A limit below 1 means 1, and a window below a
// second means a second: throttling cannot be turned off by mistake.
func NewThrottle(limit int, window time.Duration, now func() time.Time) *Throttle {
	accounts, errAccounts := simplelru.NewLRU[string, *counter](maxCounters, nil)
	clients, errClients := simplelru.NewLRU[netip.Addr, *counter](maxCounters, nil)
	pairs, errPairs := simplelru.NewLRU[pairKey, *pair](maxCounters, nil)
	if errAccounts != nil || errClients != nil || errPairs != nil {
		panic("auth: the size is a positive constant")
	}
	t := &Throttle{now: now, accounts: accounts, clients: clients, pairs: pairs}
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
	s := subject{pairKey: pairKey{account: strings.ToLower(strings.TrimSpace(username)), client: ClientKey(client)}}
	if len(s.account) > maxAccountKey {
		sum := sha256.Sum256([]byte(s.account))
		s.account = string(sum[:])
	}
	return s
}

// clientKey is what counts as one client: an IPv4 address, or the 64 bits of
// an IPv6 address that one of them can choose from.
func ClientKey(client netip.Addr) netip.Addr {
	client = client.Unmap()
	if client.Is6() {
		// Without an error: 64 bits are within every IPv6 address.
		prefix, _ := client.Prefix(64)
		client = prefix.Addr()
	}
	return client
}

// look returns a *ThrottledError where an attempt would be refused. Otherwise
// the attempt is a success if it is good, which makes the pair known.
func (t *Throttle) look(s subject, good bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	account, _ := t.accounts.Get(s.account)
	client, _ := t.clients.Get(s.client)
	p, _ := t.pairs.Get(s.pairKey)
	var err error
	if p.knows(s.version, now) {
		err = t.refusal(now, &p.counter)
	} else {
		err = t.refusal(now, account, client)
	}
	if err == nil && good {
		t.remember(s, now)
	}
	return err
}

// knows reports whether p, which may be nil, is known for that version of the
// account.
func (p *pair) knows(version string, now time.Time) bool {
	return p != nil && version != "" && slices.ContainsFunc(p.matches, func(m match) bool {
		return m.version == version && now.Before(m.until)
	})
}

// remember makes the pair known for s.version from now on, or for longer.
func (t *Throttle) remember(s subject, now time.Time) {
	p, ok := t.pairs.Get(s.pairKey)
	if !ok {
		p = new(pair)
		t.pairs.Add(s.pairKey, p)
	}
	until := now.Add(knownFor)
	for i := range p.matches {
		if p.matches[i].version == s.version {
			p.matches[i].until = until
			return
		}
	}
	p.matches = slices.DeleteFunc(p.matches, func(m match) bool { return !now.Before(m.until) })
	p.matches = append(p.matches, match{s.version, until})
}

// refusal returns a *ThrottledError if one of the counters, which may be nil,
// has reached the limit, and forgets what lies before now's window.
func (t *Throttle) refusal(now time.Time, counters ...*counter) error {
	var wait time.Duration
	for _, c := range counters {
		if c == nil {
			continue
		}
		c.expire(now)
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
	now := t.now()
	r := &reservation{throttle: t, subject: s}
	r.account, _ = t.accounts.Get(s.account)
	r.client, _ = t.clients.Get(s.client)
	limiting := []*counter{r.account, r.client}
	if p, _ := t.pairs.Get(s.pairKey); p != nil {
		r.pair = &p.counter
		if p.knows(s.version, now) {
			limiting = []*counter{r.pair}
		}
	}
	if err := t.refusal(now, limiting...); err != nil {
		return nil, nil, err
	}
	for _, c := range limiting {
		if c != nil && c.failures+c.pending >= t.limit {
			if c.settled == nil {
				c.settled = make(chan struct{})
			}
			return nil, c.settled, nil
		}
	}
	if r.account == nil {
		r.account = new(counter)
		t.accounts.Add(s.account, r.account)
	}
	if r.client == nil {
		r.client = new(counter)
		t.clients.Add(s.client, r.client)
	}
	for _, c := range r.counters() {
		c.pending++
	}
	return r, nil, nil
}

// reservation is an attempt under way.
type reservation struct {
	throttle        *Throttle
	subject         subject
	account, client *counter
	pair            *counter // nil where there was none
}

// counters are those that the attempt counts for.
func (r *reservation) counters() []*counter {
	all := []*counter{r.account, r.client}
	if r.pair != nil {
		all = append(all, r.pair)
	}
	return all
}

// succeed ends the attempt as one whose password matched.
func (r *reservation) succeed() {
	t := r.throttle
	t.mu.Lock()
	t.remember(r.subject, t.now()) // before others go on
	t.mu.Unlock()
	r.settle(false)
}

// settle ends the attempt: failed, or as if it had never been.
func (r *reservation) settle(failed bool) {
	t := r.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, c := range r.counters() {
		c.settle(failed, now, t.window)
	}
	forget(t.accounts, r.subject.account, r.account)
	forget(t.clients, r.subject.client, r.client)
}

// settle ends a pending attempt at now. A window that it begins is so long.
func (c *counter) settle(failed bool, now time.Time, window time.Duration) {
	c.pending--
	if failed {
		c.expire(now)
		if c.failures == 0 {
			c.ends = now.Add(window)
		}
		c.failures++
	}
	if c.settled != nil {
		close(c.settled)
		c.settled = nil
	}
}

// expire forgets the failures of a window that has ended.
func (c *counter) expire(now time.Time) {
	if !now.Before(c.ends) {
		c.failures = 0
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
