// Package guard is between the gateway and its store. It measures each
// call, marks failures as the store's own, bounds the time that one request
// waits for the store, and keeps a store closed until its accounts are known.
//
//	mechanisms ── Gate ── Store ── the store
//
// A Gate belongs to one configuration, a Store to the whole gateway. A Context
// belongs to one request.
//
// # Limits and threats
//
// No error becomes an answer: a call that fails, takes too long, or comes too
// early returns an *Error, never store.ErrNotFound. Callers answer it with 503.
package guard

import (
	"context"
	"errors"
	"time"

	"authgate/gateway/store"
)

// Error is a failure of the store, as opposed to a failure of the gateway.
type Error struct {
	Operation string // get, put, swap, take, delete, draw, walk, or a description
	Err       error
}

// Error implements error.
func (e *Error) Error() string { return "store: " + e.Operation + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Store measures the calls of a store that it does not answer from memory, ends those that take more time than
// their Context allows, and returns failures as *Error.
type Store struct {
	store   store.Store
	recall  func(key string) (value []byte, known bool)
	observe func(operation string, took time.Duration)
}

// New returns a Store that calls s, and then observe with the time of the call.
func New(s store.Store, observe func(operation string, took time.Duration)) *Store {
	recall := func(string) ([]byte, bool) { return nil, false }
	if r, ok := s.(store.Recaller); ok {
		recall = r.Recall
	}
	return &Store{store: s, recall: recall, observe: observe}
}

// done ends a call that began at start.
func (s *Store) done(operation string, start time.Time, end callEnd, err error) error {
	took := time.Since(start)
	end.at(start.Add(took))
	s.observe(operation, took)
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return err
	}
	return &Error{Operation: operation, Err: err}
}

// Walk implements store.Store. It is not for requests: it takes as long as the
// store needs.
func (s *Store) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	var visited error
	err := s.store.Walk(ctx, prefix, func(keys []string) error {
		visited = visit(keys)
		return visited
	})
	if err == nil || visited != nil {
		return err
	}
	return &Error{Operation: "walk", Err: err}
}

// Get implements store.Store. It does not measure answers from memory.
func (s *Store) Get(ctx context.Context, key string) (value []byte, err error) {
	if value, known := s.recall(key); known && ctx.Err() == nil {
		if value == nil {
			return nil, store.ErrNotFound
		}
		return value, nil
	}
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err == nil {
		value, err = s.store.Get(call, key)
		err = s.done("get", start, end, err)
	}
	return value, err
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return s.done("put", start, end, s.store.Put(call, key, value, expires))
}

// Swap implements store.Store.
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return s.done("swap", start, end, s.store.Swap(call, key, old, value, expires))
}

// Applies implements store.Applier.
func (s *Store) Applies() bool {
	a, ok := s.store.(store.Applier)
	return ok && a.Applies()
}

// Apply implements store.Applier. It counts as a swap.
func (s *Store) Apply(ctx context.Context, changes []store.Change) error {
	a, ok := s.store.(store.Applier)
	if !ok {
		return errors.ErrUnsupported
	}
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return s.done("swap", start, end, a.Apply(call, changes))
}

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, key string) (value []byte, err error) {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err == nil {
		value, err = s.store.Take(call, key)
		err = s.done("take", start, end, err)
	}
	return value, err
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return s.done("delete", start, end, s.store.Delete(call, key))
}

// Quotas returns the store as store.Quotas, nil if it is none.
func (s *Store) Quotas() store.Quotas {
	q, ok := s.store.(store.Quotas)
	if !ok {
		return nil
	}
	return guardedQuotas{s, q}
}

type guardedQuotas struct {
	*Store
	quotas store.Quotas
}

// Draw implements store.Quotas.
func (g guardedQuotas) Draw(
	ctx context.Context, key string, q store.Quota, d store.Draw,
) (drawn store.Drawn, err error) {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err == nil {
		drawn, err = g.quotas.Draw(call, key, q, d)
		err = g.done("draw", start, end, err)
	}
	return drawn, err
}
