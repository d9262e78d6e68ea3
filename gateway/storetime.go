package gateway

import (
	"context"
	"errors"
	"sync"
	"time"
)

// storeTime is how long a request waits for the store, over all of its calls. A
// login that could not be recorded is undone after that, which takes 0.2 seconds
// at most, so that the answer comes within two seconds.
const storeTime = 1800 * time.Millisecond

// errStoreTime is what calls of the store fail with after storeTime.
var errStoreTime error = &storeError{
	operation: "all calls of one request", err: errors.New("they take longer than " + storeTime.String()),
}

// storeContext is the context of a request for whatever may call the store. It
// counts the time in which at least one call is under way, so that neither
// hashing nor a provider takes away from it, and ends calls that go beyond
// storeTime. observedStore finds it, also behind contexts that are derived
// from it.
//
// A call that the store answers from memory costs no allocation: what ends it
// is made when somebody waits for its end.
type storeContext struct {
	context.Context // of the request

	mu    sync.Mutex
	calls int                // under way
	since time.Time          // when the first of them began
	spent time.Duration      // before that
	limit context.Context    // ends the calls under way; nil until somebody waits
	free  context.CancelFunc // of limit
}

type storeContextKey struct{}

// Value implements context.Context.
func (c *storeContext) Value(key any) any {
	if key == (storeContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// enter begins a call, and returns when it has to end.
func (c *storeContext) enter(now time.Time) (deadline time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		c.since = now
	}
	if deadline = c.deadline(); !now.Before(deadline) {
		return deadline, errStoreTime
	}
	c.calls++
	return deadline, nil
}

// leave ends a call.
func (c *storeContext) leave(now time.Time) {
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

// deadline is when the calls under way have to end. The caller holds c.mu.
func (c *storeContext) deadline() time.Time { return c.since.Add(storeTime - c.spent) }

// storeCall is a storeContext as the context of the calls under way.
type storeCall storeContext

// Deadline implements context.Context.
func (c *storeCall) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := (*storeContext)(c).deadline()
	if theirs, ok := c.Context.Deadline(); ok && theirs.Before(deadline) {
		return theirs, true
	}
	return deadline, true
}

// Done implements context.Context.
func (c *storeCall) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 { // a goroutine of a call that is over
		over, free := context.WithCancel(c.Context)
		free()
		return over.Done()
	}
	if c.limit == nil {
		c.limit, c.free = context.WithDeadlineCause(c.Context, (*storeContext)(c).deadline(), errStoreTime)
	}
	return c.limit.Done()
}

// Err implements context.Context. A call that is not under way any more has
// ended: a store may find out later than its caller.
func (c *storeCall) Err() error {
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
func (c *storeCall) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit != nil {
		return c.limit.Value(key)
	}
	return c.Context.Value(key)
}

// limitCall returns the context for a call of the store that begins now, and
// what ends it when the call is over.
func limitCall(ctx context.Context, now time.Time) (call context.Context, end callEnd, err error) {
	direct, ok := ctx.(*storeContext)
	if ok {
		_, err = direct.enter(now)
		return (*storeCall)(direct), callEnd{spent: direct}, err
	}
	derived, ok := ctx.Value(storeContextKey{}).(*storeContext)
	if !ok {
		return ctx, callEnd{}, nil // not for a request
	}
	deadline, err := derived.enter(now)
	if err != nil {
		return nil, callEnd{}, err
	}
	call, free := context.WithDeadlineCause(ctx, deadline, errStoreTime)
	return call, callEnd{derived, free}, nil
}

// callEnd is what is to be done after a call of the store.
type callEnd struct {
	spent *storeContext
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

// detached is the context for what a client that leaves does not undo, and that
// asks a provider, too.
func (ex *exchange) detached() context.Context { return context.WithoutCancel(&ex.storage) }

// recording is detached for what waits for the store alone, and takes from
// storeTime until the end, which must be called once.
func (ex *exchange) recording() (ctx context.Context, end func()) {
	deadline, err := ex.storage.enter(time.Now())
	ctx, free := context.WithDeadlineCause(ex.detached(), deadline, errStoreTime)
	if err != nil { // it is over already
		return ctx, free
	}
	return ctx, func() { callEnd{&ex.storage, free}.at(time.Now()) }
}
