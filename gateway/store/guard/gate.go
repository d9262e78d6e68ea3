package guard

import (
	"context"
	"errors"
	"time"

	"authgate/gateway/store"
)

// errClosed is why calls of a closed Gate fail.
var errClosed = errors.New("it has not answered since the gateway started, so the gateway cannot tell which logins " +
	"are valid")

// Gate is the store as the mechanisms of one configuration use it. While it is
// closed, every call fails, and so does each request that needs a login.
//
// A gate stays closed only where the gateway has started without its store,
// and does not know since when the accounts are as they are. Another
// configuration, whose gate is open, takes its place later: the gate of a
// configuration that runs never changes.
type Gate struct {
	store store.Store
	open  bool // set before the configuration runs
}

// NewGate returns a closed gate to s.
func NewGate(s store.Store) *Gate { return &Gate{store: s} }

// Open lets all calls through. It must not be called concurrently with others.
func (g *Gate) Open() { g.open = true }

// IsOpen reports whether calls get through.
func (g *Gate) IsOpen() bool { return g.open }

// Check returns the error of an operation while the gate is closed, else nil.
func (g *Gate) Check(operation string) error {
	if !g.open {
		return &Error{Operation: operation, Err: errClosed}
	}
	return nil
}

// Walk implements store.Store.
func (g *Gate) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if err := g.Check("walk"); err != nil {
		return err
	}
	return g.store.Walk(ctx, prefix, visit)
}

// Applies implements store.Applier.
func (g *Gate) Applies() bool {
	a, ok := g.store.(store.Applier)
	return ok && a.Applies()
}

// Apply implements store.Applier.
func (g *Gate) Apply(ctx context.Context, changes []store.Change) error {
	if err := g.Check("swap"); err != nil {
		return err
	}
	if a, ok := g.store.(store.Applier); ok {
		return a.Apply(ctx, changes)
	}
	return errors.ErrUnsupported
}

// Get implements store.Store.
func (g *Gate) Get(ctx context.Context, key string) ([]byte, error) {
	if err := g.Check("get"); err != nil {
		return nil, err
	}
	return g.store.Get(ctx, key)
}

// Put implements store.Store.
func (g *Gate) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := g.Check("put"); err != nil {
		return err
	}
	return g.store.Put(ctx, key, value, expires)
}

// Swap implements store.Store.
func (g *Gate) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if err := g.Check("swap"); err != nil {
		return err
	}
	return g.store.Swap(ctx, key, old, value, expires)
}

// Take implements store.Store.
func (g *Gate) Take(ctx context.Context, key string) ([]byte, error) {
	if err := g.Check("take"); err != nil {
		return nil, err
	}
	return g.store.Take(ctx, key)
}

// Delete implements store.Store.
func (g *Gate) Delete(ctx context.Context, key string) error {
	if err := g.Check("delete"); err != nil {
		return err
	}
	return g.store.Delete(ctx, key)
}
