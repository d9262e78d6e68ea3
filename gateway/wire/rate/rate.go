// Package rate limits how many requests each client or user may send in a window
// of time.
//
// A window begins with the first request of a client, and ends when its time is
// over. Exactly the limit is let through in each window. Around the end of a
// window and the start of the next one, up to twice the limit can come close
// together.
//
// Instances with one store.Quotas share the count. Each of them holds a few
// requests in advance, so that most requests need no round trip: it asks for more
// in the background before they are used up. All instances together hold at most a
// third of the limit, and that is how much more than the limit they may let
// through. One instance alone lets exactly the limit through. A request is refused
// only when the limit is really reached.
//
// # Limits and threats
//
// Of more than 100,000 clients of one Limiter, the least recently seen one is
// forgotten, and may then begin a new window; with shared counts, the store still
// knows its window. If the store does not answer, Take returns its error, and the
// request must not go on.
package rate

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"authgate/gateway/store/lru"
	"authgate/gateway/wire/peer"
)

// maxClients is how many clients one Limiter remembers.
const maxClients = 100_000

// Limit is how many requests each key may have in a window.
type Limit struct {
	Requests int64         // at least 1
	Per      time.Duration // the window; at least a millisecond
}

// Key is who sends requests: a client or a user.
type Key struct {
	client  netip.Addr // the zero Addr for a user
	subject string     // empty for a client
}

// ClientKey returns the key of a client by its address, folded as peer.Fold does.
func ClientKey(address netip.Addr) Key { return Key{client: peer.Fold(address)} }

// UserKey returns the key of a user by the subject of the identity.
func UserKey(subject string) Key { return Key{subject: subject} }

func (k Key) String() string {
	if k.subject != "" {
		return "user:" + k.subject
	}
	return "client:" + k.client.String()
}

// LimitedError is the error of a request beyond the limit.
type LimitedError struct {
	Limit      Limit
	RetryAfter time.Duration // until the window ends
	First      bool          // no request of this window was refused before
}

// Error implements error.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("more than %d requests in %v", e.Limit.Requests, e.Limit.Per)
}

// Limiter counts requests. It is safe for concurrent use.
type Limiter struct {
	limit  Limit
	name   string
	shared *Shared // nil: this instance counts alone
	now    func() time.Time

	mu     sync.Mutex
	counts *lru.Unlocked[Key, *count]
}

// count is the requests of one key in one window.
type count struct {
	ends    time.Time // of the window
	used    int64     // by all instances, as far as this one knows
	refused bool      // one request was
	ration
}

// New returns a Limiter. Limiters with the same name share their counts in the
// store, if shared is not nil. now is the local clock.
func New(name string, limit Limit, now func() time.Time, shared *Shared) *Limiter {
	return &Limiter{
		limit: limit, name: name, shared: shared, now: now, counts: lru.NewUnlocked[Key, *count](maxClients),
	}
}

// Limit returns the limit.
func (l *Limiter) Limit() Limit { return l.limit }

// Take counts a request of key. The error is a *LimitedError if the request is
// beyond the limit, or that of the store.
func (l *Limiter) Take(ctx context.Context, key Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.count(key)
	if l.shared != nil {
		return l.takeShared(ctx, key, c)
	}
	now := l.now()
	if !now.Before(c.ends) {
		*c = count{ends: now.Add(l.limit.Per)}
	}
	if c.used >= l.limit.Requests {
		return l.refuse(c, now)
	}
	c.used++
	return nil
}

// count returns the count of key. The caller holds l.mu.
func (l *Limiter) count(key Key) *count {
	c, known := l.counts.Get(key)
	if !known {
		c = &count{}
		l.counts.Add(key, c)
	}
	return c
}

func (l *Limiter) refuse(c *count, now time.Time) error {
	first := !c.refused
	c.refused = true
	return &LimitedError{Limit: l.limit, RetryAfter: c.ends.Sub(now), First: first}
}
