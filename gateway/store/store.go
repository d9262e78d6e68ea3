// Package store is the one place where the gateway keeps what must outlive a
// request: logins, sessions, refresh families, revoked tokens.
//
// The contract is deliberately small, a map from key to bytes whose entries
// expire, so that sessions, rotation and revocation are written once above it
// and every back end is held to the same conformance suite (storetest).
//
// # Limits and threats
//
// A store holds no usable credential: keys that stand for a secret are made
// from its hash by the caller. A store that cannot answer says so with an
// error; it never answers "not found" because it could not look. Callers turn
// such an error into 503, never into a decision.
package store

import (
	"context"
	"errors"
	"time"
)

// Errors that callers tell apart with errors.Is. Any other error means that
// the store could not do what was asked (disk full, server gone, context
// ended) and that the outcome of a write is unknown.
var (
	// ErrNotFound: there is no live entry under the key.
	ErrNotFound = errors.New("store: not found")
	// ErrConflict: Swap found another value than the one expected.
	ErrConflict = errors.New("store: conflict")
)

// Store is a map from keys to values whose entries expire.
//
// All methods may be called concurrently. A write that returned nil is
// durable to the degree the implementation promises, and is seen by every
// later call; Swap and Take are atomic with regard to every other write of
// the same key. An entry is dead from the instant its expiry is reached. A
// zero expiry keeps the entry until it is deleted.
//
// Keys and values are any bytes. An empty value is a value: it is returned
// as an empty slice that is not nil, so that it can be handed to Swap again.
//
// Callers own the slices they pass once the call returns, and must not
// modify the slices they are given: an implementation may hand the same
// bytes to many readers.
//
// A call whose context has already ended changes nothing and returns the
// context's error. A write whose context ends on the way returns that error
// too, and may or may not have happened.
type Store interface {
	// Get returns the live value of key, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)

	// Put sets key to value until expires. A value that has already expired
	// removes the entry.
	Put(ctx context.Context, key string, value []byte, expires time.Time) error

	// Swap replaces old by value. It returns ErrConflict, and changes
	// nothing, when the live value of key is not old byte for byte. A nil
	// old demands that key has no live value. As with Put, a value that has
	// already expired removes the entry.
	Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error

	// Take returns the live value of key and deletes it, or ErrNotFound.
	// Of many concurrent calls exactly one gets the value.
	Take(ctx context.Context, key string) ([]byte, error)

	// Delete removes key. A key that is not there is no error.
	Delete(ctx context.Context, key string) error

	// Close releases what the store holds. Calls after Close fail, except
	// for Close itself, which then does nothing.
	Close() error
}

// Counter is implemented by stores that can count their live entries cheaply.
type Counter interface {
	// Count returns the number of live entries whose key starts with prefix.
	Count(ctx context.Context, prefix string) (int, error)
}

// Clock is implemented by stores that several instances share and that have a
// clock of their own, so that the instances agree on the time.
type Clock interface {
	// Now returns the store's time, without a monotonic reading. It costs no
	// round trip.
	Now() time.Time
}

// ClockOf returns the clock of s: what is stored there, and what is compared
// with it, goes by this clock. A store that is no Clock goes by local.
//
// The times have no monotonic reading. A time that comes back from a store has
// none either, and the two compare as the wall clock shows them, also after the
// wall clock was set. Measure elapsed time in one process by a local clock.
func ClockOf(s Store, local func() time.Time) func() time.Time {
	if c, ok := s.(Clock); ok {
		return c.Now
	}
	return func() time.Time { return local().Round(0) }
}

// Pinger is implemented by stores that can lose contact with what holds
// their entries; readiness asks it.
type Pinger interface {
	// Ping returns nil if a read and a write would succeed now.
	Ping(ctx context.Context) error
}
