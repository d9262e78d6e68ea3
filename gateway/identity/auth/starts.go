package auth

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"authgate/gateway/store/lru"
	"authgate/gateway/wire/peer"
)

// How many sign-ins one client can begin: at once, and per second after that. Each is a
// record in the store.
const (
	startsAtOnce    = 1000
	startsPerSecond = 5
	startClients    = 65536 // clients that are remembered
)

// Starts limits the sign-ins that each client begins before it has proved anything.
type Starts struct {
	now   func() time.Time
	begun *lru.Cache[netip.Addr, *rate.Limiter] // by client
}

// NewStarts returns limits that no client has used. now returns the time.
func NewStarts(now func() time.Time) *Starts {
	return &Starts{now: now, begun: lru.New[netip.Addr, *rate.Limiter](startClients)}
}

// StartsError refuses to begin a sign-in because its client has begun too many.
type StartsError struct{ RetryAfter time.Duration }

// Error implements error.
func (e *StartsError) Error() string { return "auth: too many sign-ins were begun" }

// Begin counts a sign-in of a client. The error is a *StartsError if there are too many.
func (s *Starts) Begin(client netip.Addr) error {
	key := peer.Fold(client)
	limit, known := s.begun.Get(key)
	if !known {
		limit = rate.NewLimiter(startsPerSecond, startsAtOnce)
		if other, raced, _ := s.begun.PeekOrAdd(key, limit); raced {
			limit = other
		}
	}
	if !limit.AllowN(s.now(), 1) {
		return &StartsError{RetryAfter: time.Second}
	}
	return nil
}
