package guard

import (
	"context"
	"errors"
	"sync"
	"time"
)

// limit is how long a request waits for the store, over all of its calls. A
// login that cannot be recorded is undone after that, which takes 0.2 seconds
// at most, so that the answer comes within two seconds.
const limit = 1800 * time.Millisecond

// errLimit is the error of calls after limit.
var errLimit error = &Error{
	Operation: "all calls of one request", Err: errors.New("they take longer than " + limit.String()),
}

// Context is the context of one request for everything that may call the
// store. It counts the time during which at least one call is in flight, so
// that password hashes and identity providers do not use it up. It ends calls
// that go beyond limit. Store finds it, also behind contexts that are derived
// from it.
//
// A call that the store answers from memory allocates nothing: the context
// that ends it is made when something waits for its end.
type Context struct {
	context.Context // of the request

	mu    sync.Mutex
	calls int                // in flight
	since time.Time          // when the first of them began
	spent time.Duration      // before that
	limit context.Context    // ends the calls in flight; nil until something waits
	free  context.CancelFunc // of limit
}

type contextKey struct{}

// Value implements context.Context.
func (c *Context) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Detached returns the context for work that goes on when the client leaves,
// and that may also call an identity provider.
func (c *Context) Detached() context.Context { return context.WithoutCancel(c) }

// Recording is like Detached for work that waits for the store alone. The time
// until the caller calls end counts as one call of the store. The caller must
// call end once.
func (c *Context) Recording() (ctx context.Context, end func()) {
	deadline, err := c.enter(time.Now())
	ctx, free := context.WithDeadlineCause(c.Detached(), deadline, errLimit)
	if err != nil { // the deadline has passed
		return ctx, free
	}
	return ctx, func() { callEnd{c, free}.at(time.Now()) }
}

// enter begins a call, and returns when the call must end.
func (c *Context) enter(now time.Time) (deadline time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		c.since = now
	}
	if deadline = c.deadline(); !now.Before(deadline) {
		return deadline, errLimit
	}
	c.calls++
	return deadline, nil
}

// leave ends a call.
func (c *Context) leave(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls > 0 {
		return
	}
	c.spent += now.Sub(c.since)
	if c.limit != nil {
		c.free()
		c.limit, c.free = nil, nil
	}
}

// deadline is when the calls in flight must end. The caller holds c.mu.
func (c *Context) deadline() time.Time { return c.since.Add(limit - c.spent) }

// call is a Context as the context of its calls in flight.
type call Context

// Deadline implements context.Context.
func (c *call) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := (*Context)(c).deadline()
	if theirs, ok := c.Context.Deadline(); ok && theirs.Before(deadline) {
		return theirs, true
	}
	return deadline, true
}

// Done implements context.Context.
func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 { // a goroutine of a call that is over
		over, free := context.WithCancel(c.Context)
		free()
		return over.Done()
	}
	if c.limit == nil {
		c.limit, c.free = context.WithDeadlineCause(c.Context, (*Context)(c).deadline(), errLimit)
	}
	return c.limit.Done()
}

// Err implements context.Context. A call that is no longer in flight has
// ended: a goroutine of the store may outlast the call.
func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.limit != nil:
		return c.limit.Err()
	case c.calls == 0:
		return context.Canceled
	}
	return c.Context.Err()
}

// Value implements context.Context. Contexts that are derived from this one
// ask limit, by which package context recognises its own.
func (c *call) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit != nil {
		return c.limit.Value(key)
	}
	return c.Context.Value(key)
}

// limitCall returns the context of a call of the store that begins now, and
// the end of the call.
func limitCall(ctx context.Context, now time.Time) (limited context.Context, end callEnd, err error) {
	direct, ok := ctx.(*Context)
	if ok {
		_, err = direct.enter(now)
		return (*call)(direct), callEnd{spent: direct}, err
	}
	derived, ok := ctx.Value(contextKey{}).(*Context)
	if !ok {
		return ctx, callEnd{}, nil // not for a request
	}
	deadline, err := derived.enter(now)
	if err != nil {
		return nil, callEnd{}, err
	}
	limited, free := context.WithDeadlineCause(ctx, deadline, errLimit)
	return limited, callEnd{derived, free}, nil
}

// callEnd ends a call of the store.
type callEnd struct {
	spent *Context
	free  context.CancelFunc
}

func (e callEnd) at(now time.Time) {
	if e.free != nil {
		e.free()
	}
	if e.spent != nil {
		e.spent.leave(now)
	}
}
