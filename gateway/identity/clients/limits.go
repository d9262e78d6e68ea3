package clients

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/wire/peer"
)

// How many documents are fetched at a time: in all, for one client of the gateway, and from one host.
// So neither one client, nor one host that is slow, takes the places of all others.
const (
	maxFetches     = 32
	fetchesOfOne   = 4
	fetchesAtAHost = 8
	// waitForPlace is how long a client waits for the end of its other fetches, and a fetch for that of
	// others.
	waitForPlace = 2 * time.Second
)

// errCrowded: other documents are being fetched. It is not cached.
var errCrowded = errors.New("too many other documents are being fetched")

// limits bound the fetches of documents that everybody can name.
type limits struct {
	starts  *auth.Starts
	clients *shares[netip.Addr]
	hosts   *shares[string]
	all     *shares[struct{}]
}

func newLimits(now func() time.Time) *limits {
	return &limits{
		starts: auth.NewStarts(now), clients: newShares[netip.Addr](fetchesOfOne),
		hosts: newShares[string](fetchesAtAHost), all: newShares[struct{}](maxFetches),
	}
}

// ask lets a client ask for one document. It must call release when the fetch has ended. The error is
// an *auth.StartsError if the client asks too often or for too many at a time, or that of ctx.
func (l *limits) ask(ctx context.Context, client netip.Addr) (release func(), err error) {
	if err := l.starts.Begin(client); err != nil {
		return nil, err
	}
	waiting, end := context.WithTimeout(ctx, waitForPlace)
	defer end()
	if release = l.clients.take(waiting, peer.Fold(client)); release != nil {
		return release, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &auth.StartsError{RetryAfter: time.Second}
}

// fetch lets a fetch from an address begin, which must call release when it ends. The error is
// ErrUnreachable and errCrowded.
func (l *limits) fetch(ctx context.Context, address string) (release func(), err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, unknown(address, err)
	}
	ctx, end := context.WithTimeout(ctx, waitForPlace)
	defer end()
	host := l.hosts.take(ctx, strings.ToLower(u.Hostname()))
	if host == nil {
		return nil, unreachable(address, errCrowded)
	}
	place := l.all.take(ctx, struct{}{})
	if place == nil {
		host()
		return nil, unreachable(address, errCrowded)
	}
	return func() { place(); host() }, nil
}

// shares give each key the same number of places.
type shares[K comparable] struct {
	each int

	mu   sync.Mutex
	keys map[K]*share
}

// share is the places of a key.
type share struct {
	places chan struct{}
	users  int // who have one, or wait for one
}

func newShares[K comparable](each int) *shares[K] {
	return &shares[K]{each: each, keys: map[K]*share{}}
}

// take takes a place of a key, and returns the function that gives it back, nil if none gets free
// before ctx ends.
func (s *shares[K]) take(ctx context.Context, key K) (release func()) {
	s.mu.Lock()
	one := s.keys[key]
	if one == nil {
		one = &share{places: make(chan struct{}, s.each)}
		s.keys[key] = one
	}
	one.users++
	s.mu.Unlock()
	select {
	case one.places <- struct{}{}:
		return func() {
			<-one.places
			s.leave(key, one)
		}
	case <-ctx.Done():
		s.leave(key, one)
		return nil
	}
}

func (s *shares[K]) leave(key K, one *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(s.keys, key)
	}
}
