package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

var errClosed = errors.New("closed")

// cached is a cached document of a provider. Concurrent callers share one fetch,
// which runs in a goroutine of its own, so that a caller that leaves does not
// cancel it for the others.
type cached[T any] struct {
	fetch      func(context.Context) (T, error)
	permitted  func() bool // called before each fetch; nil: always true
	now        func() time.Time
	background *background

	flight singleflight.Group
	mu     sync.Mutex
	known  state[T]
}

// state is the knowledge about the document. In the zero value nothing is known.
type state[T any] struct {
	value   T
	fetched time.Time // of the last success; zero: none
	tries   int       // the number of fetches
	tried   time.Time // of the last fetch
	err     error     // of the last fetch
}

func (c *cached[T]) state() state[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// renew fetches the document, if permitted, unless more fetches than seen have been
// made. It waits for a fetch that is in progress. The state tells whether the fetch
// failed; the error is that of ctx, or errClosed.
func (c *cached[T]) renew(ctx context.Context, seen int) (state[T], error) {
	done := c.flight.DoChan("", func() (any, error) {
		if !c.background.beginWork() {
			return nil, errClosed
		}
		defer c.background.running.Done()
		c.try(seen)
		return nil, nil
	})
	select {
	case <-ctx.Done():
		return state[T]{}, ctx.Err()
	case result := <-done:
		return c.state(), result.Err
	}
}

// try fetches once. Only one try runs at a time.
func (c *cached[T]) try(seen int) {
	if c.state().tries > seen || c.permitted != nil && !c.permitted() {
		return
	}
	value, err := c.fetch(c.background.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.tries++
	c.known.tried, c.known.err = c.now(), err
	if err == nil {
		c.known.value, c.known.fetched = value, c.known.tried
	}
}
