package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

var errClosed = errors.New("closed")

// cached is a document of a provider that is kept. However many ask for it at
// once, it is fetched once, and beside them: a caller that goes away takes
// nothing from the others.
type cached[T any] struct {
	fetch      func(context.Context) (T, error)
	permitted  func() bool // asked before each fetch; nil: always
	now        func() time.Time
	background *background

	flight singleflight.Group
	mu     sync.Mutex
	known  state[T]
}

// state is what is known of the document; the zero value is nothing.
type state[T any] struct {
	value   T
	fetched time.Time // the value, the last time; zero: never
	tries   int       // so far
	tried   time.Time // the last time
	err     error     // of the last try
}

func (c *cached[T]) state() state[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// renew waits for the end of a try that the caller has not seen, and makes one
// where there is none and it is permitted. A try that failed shows in the
// state; the error is that of ctx, or errClosed.
func (c *cached[T]) renew(ctx context.Context, seen int) (state[T], error) {
	done := c.flight.DoChan("", func() (any, error) {
		if !c.background.begin() {
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

// try fetches once. Only one runs at a time.
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
