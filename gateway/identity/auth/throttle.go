package auth

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"authgate/gateway/store/lru"
	"authgate/gateway/wire/peer"
	"authgate/policy"
)

const (
	// maxCounters is the maximum number of accounts that a Throttle remembers,
	// and also that of addresses and of known pairs. The limits are separate, so
	// that a flood of addresses cannot remove the count of an account: that takes
	// as many failed logins with other names, each with its password hash.
	maxCounters = 100_000
	// knownFor is how long a pair of account and address stays known after a
	// sign-in.
	knownFor = 24 * time.Hour
	// maxKnownPlaces is how many checks for one account have places of known pairs at a
	// time, so that a user with many addresses does not take those of others.
	maxKnownPlaces = 16
	// maxAccountKey is the length in bytes from which a user name is hashed.
	maxAccountKey = 256
)

// ThrottledError refuses a password check because too many checks failed before,
// for the account or from the address. It does not tell whether the password was
// correct.
type ThrottledError struct {
	// RetryAfter is how long further checks are refused. It is always positive.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("auth: too many failed logins, refused for %s", e.RetryAfter)
}

// Throttle limits failed password checks by account and by client address. A
// window begins with the first failure. When the failures reach the limit, checks
// are refused until the window ends. A check counts as a failure from its start
// until it succeeds, so concurrent checks cannot exceed the limit. A success
// removes no other failure.
//
// A pair of account and address is known for 24 hours after a sign-in. A
// known pair has its own count, and only that count can refuse it. So failures of
// other clients do not lock it out. Its own failures also count for the account
// and for the address, whatever the case of the name, so that other clients get
// no additional checks. A changed password makes the pair unknown.
//
// Account names are counted without regard to case, normalization and surrounding
// space (as in policy.FoldName), whether or not the account exists. IPv6 addresses are counted
// by their /64 prefix, because one client usually has that many. Memory is
// limited: of more than 100,000 accounts, addresses or pairs the least recently
// used one is forgotten. A Throttle is safe for concurrent use.
type Throttle struct {
	now func() time.Time

	mu       sync.Mutex
	limit    int
	window   time.Duration
	accounts *lru.Unlocked[string, *counter]
	clients  *lru.Unlocked[netip.Addr, *counter]
	pairs    *lru.Unlocked[pairKey, *pair]
}

// pair is an account name and an address from which a user has signed in.
// Several accounts can have that name: in another case, or among the users of
// Basic.
type pair struct {
	counter
	matches []match
}

// match is a version of an account whose user has signed in.
type match struct {
	version string
	until   time.Time // the pair is known before this time
}

type pairKey struct {
	account string
	client  netip.Addr
}

// counter counts the checks of one account, one address or one pair.
type counter struct {
	failures int           // in the window
	pending  int           // checks that have not ended
	known    int           // those of them that have a place of known pairs
	ends     time.Time     // end of the window, if there are failures
	ended    chan struct{} // closed when a check ends; nil if no check waits
}

// subject is the account and the address that a check counts for.
type subject struct {
	pairKey
	version string // of the account that can sign in; empty if there is none
	// unguessable credentials count for the address and the pair alone: to count them for the account
	// would let everybody lock it out.
	unguessable bool
}

// NewThrottle returns a Throttle that refuses checks after limit failures within
// window. now returns the time. The smallest limit is 1 and the smallest window is
// one second, so no configuration turns throttling off.
func NewThrottle(limit int, window time.Duration, now func() time.Time) *Throttle {
	t := &Throttle{
		now: now, accounts: lru.NewUnlocked[string, *counter](maxCounters),
		clients: lru.NewUnlocked[netip.Addr, *counter](maxCounters),
		pairs:   lru.NewUnlocked[pairKey, *pair](maxCounters),
	}
	t.SetLimits(limit, window)
	return t
}

// SetLimits changes the limits, as in NewThrottle. It keeps the counts and the
// ends of the windows that have begun.
func (t *Throttle) SetLimits(limit int, window time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = max(limit, 1)
	t.window = max(window, time.Second)
}

func newSubject(username string, client netip.Addr) subject {
	s := subject{pairKey: pairKey{account: policy.FoldName(username), client: peer.Fold(client)}}
	if len(s.account) > maxAccountKey {
		sum := sha256.Sum256([]byte(s.account))
		s.account = string(sum[:])
	}
	return s
}

// look returns a *ThrottledError if a check would be refused. Otherwise, if good is
// set, it makes the pair known.
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

// knows reports whether p is known for that version of the account. p may be nil.
func (p *pair) knows(version string, now time.Time) bool {
	return p != nil && version != "" && slices.ContainsFunc(p.matches, func(m match) bool {
		return m.version == version && now.Before(m.until)
	})
}

// remember makes the pair known for s.version, counted from now.
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

// succeeded makes the pair known.
func (t *Throttle) succeeded(s subject) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remember(s, t.now())
}

// refusal returns a *ThrottledError if one of the counters has reached the limit.
// It forgets failures of windows that have ended. Counters may be nil.
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

// reserve begins a check. The caller must settle the reservation. The error is a
// *ThrottledError. If the checks that are running could reach the limit, reserve
// returns a channel instead. The channel is closed when the caller can try again.
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
		if r.known = p.knows(s.version, now); r.known {
			limiting = []*counter{r.pair}
		}
	}
	if err := t.refusal(now, limiting...); err != nil {
		return nil, nil, err
	}
	for _, c := range limiting {
		if c != nil && c.failures+c.pending >= t.limit {
			if c.ended == nil {
				c.ended = make(chan struct{})
			}
			return nil, c.ended, nil
		}
	}
	if r.account == nil {
		r.account = new(counter)
		if !s.unguessable {
			t.accounts.Add(s.account, r.account)
		}
	}
	if r.client == nil {
		r.client = new(counter)
		t.clients.Add(s.client, r.client)
	}
	for _, c := range r.counters() {
		c.pending++
	}
	if r.known = r.known && r.account.known < maxKnownPlaces; r.known {
		r.account.known++
	}
	return r, nil, nil
}

// knows reports whether s is a known pair.
func (t *Throttle) knows(s subject) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, _ := t.pairs.Peek(s.pairKey)
	return p.knows(s.version, t.now())
}

// reservation is a check that is running.
type reservation struct {
	throttle        *Throttle
	subject         subject
	account, client *counter
	pair            *counter // nil if there is none
	known           bool     // the check has a place of known pairs
}

// counters returns the counters that the check counts for.
func (r *reservation) counters() []*counter {
	all := []*counter{r.account, r.client}
	if r.pair != nil {
		all = append(all, r.pair)
	}
	return all
}

// settle ends a check: as a failure, or as if it had not begun.
func (r *reservation) settle(failed bool) {
	t := r.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if r.known {
		r.account.known--
	}
	for _, c := range r.counters() {
		c.settle(failed, now, t.window)
	}
	forget(t.accounts, r.subject.account, r.account)
	forget(t.clients, r.subject.client, r.client)
}

// settle ends a pending check at now. A window that begins now lasts window.
func (c *counter) settle(failed bool, now time.Time, window time.Duration) {
	c.pending--
	if failed {
		c.expire(now)
		if c.failures == 0 {
			c.ends = now.Add(window)
		}
		c.failures++
	}
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

// expire forgets the failures if the window has ended.
func (c *counter) expire(now time.Time) {
	if !now.Before(c.ends) {
		c.failures = 0
	}
}

// forget removes c if it counts nothing and is still the counter of key.
func forget[K comparable](counters *lru.Unlocked[K, *counter], key K, c *counter) {
	if c.failures > 0 || c.pending > 0 {
		return
	}
	if held, ok := counters.Peek(key); ok && held == c {
		counters.Remove(key)
	}
}
