// Package store defines where the gateway keeps records that must outlive a
// request: logins, sessions, refresh tokens, revocations. The package also
// has Memory, the store that keeps its entries in the process.
//
// The contract is small on purpose: a map from keys to bytes whose entries
// expire. Sessions, rotation and revocation are written once, above it, and
// every implementation must pass the same suite, package storetest.
//
// A store is opened by a function of its own package, which returns a concrete
// type with a method Close. The code that opens a store closes it. All other
// code gets a Store, and finds out its further abilities with a type
// assertion: Recaller, Applier, Clock, Pinger, Quotas.
//
// # Limits and threats
//
// A store holds no usable credential: callers make the keys that stand for a
// secret from its hash. A store that cannot answer returns an error; it never
// returns ErrNotFound because it could not look. Callers answer such an error
// with 503 and never decide on it.
package store

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Errors that callers distinguish with errors.Is. Any other error means that
// the store could not do the operation (disk full, server unreachable, context
// ended), and that the outcome of a write is unknown.
var (
	// ErrNotFound means that the key has no live entry.
	ErrNotFound = errors.New("store: not found")
	// ErrConflict means that Swap found another value than the expected one.
	ErrConflict = errors.New("store: conflict")
)

// Store is a map from keys to values whose entries expire.
//
// Keys and values are any bytes. An empty value is a value: Get returns it as
// an empty slice that is not nil, which Swap accepts as the old value. An entry
// is dead from the instant that its expiry is reached. An entry with a zero
// expiry stays until it is deleted.
//
// All methods may be called concurrently. After a write has returned nil, every
// later call sees it, and it is as durable as the implementation promises. Swap
// and Take are atomic with regard to all other writes of the same key.
//
// A call whose context has already ended changes nothing and returns the
// context's error. A write whose context ends on the way returns that error,
// too, and may or may not have happened.
//
// Callers may reuse the slices that they passed once the call has returned.
// They must not modify the slices that they get: many readers may share them.
type Store interface {
	// Get returns the live value of key, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)

	// Put sets key to value until expires. A value that has already expired
	// removes the entry.
	Put(ctx context.Context, key string, value []byte, expires time.Time) error

	// Swap replaces old by value. If the live value of key is not old, byte
	// for byte, Swap changes nothing and returns ErrConflict. A nil old means
	// that key must have no live value. As with Put, a value that has already
	// expired removes the entry.
	Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error

	// Take returns the live value of key and deletes it, or returns
	// ErrNotFound. Of many concurrent calls exactly one gets the value.
	Take(ctx context.Context, key string) ([]byte, error)

	// Delete removes key. It returns nil if there is no such key.
	Delete(ctx context.Context, key string) error

	// Walk calls visit with the keys that begin with prefix, some at a time, so
	// that the memory it needs does not depend on how many there are. An entry
	// that is live from the beginning to the end of the walk is visited, maybe
	// more than once. Others may be, also when they have expired. An error of
	// visit ends the walk, and Walk returns it.
	Walk(ctx context.Context, prefix string, visit func(keys []string) error) error
}

// WalkSize is about how many keys Walk passes to visit at a time.
const WalkSize = 512

// KindOf returns the kind of a key: its beginning, up to and including the first
// colon. A key without a colon has the kind "".
func KindOf(key string) string { return key[:strings.IndexByte(key, ':')+1] }

// Recaller is implemented by stores that hold answers in memory.
type Recaller interface {
	// Recall returns the result of Get, if the store has it in memory: the value,
	// or nil if there is no such entry. Otherwise known is false, and Get finds
	// out: the store may be closed.
	Recall(key string) (value []byte, known bool)
}

// Applier is implemented by stores that can make several changes in one write.
type Applier interface {
	// Applies reports whether the store can: it may be in front of one that cannot.
	Applies() bool
	// Apply makes all changes, or none if a value is not the expected one, which is ErrConflict. It is for changes
	// that end something; see Ending. A store that does not apply returns errors.ErrUnsupported.
	Apply(ctx context.Context, changes []Change) error
}

// Change is one of several changes.
type Change struct {
	Key  string
	Old  []byte // the expected value, as in Swap
	Any  bool   // any value is as expected
	Edit        // a nil value is an empty one, as in Swap
}

// Pinger is implemented by stores that can lose the connection to the place
// where their entries are. The readiness check calls it.
type Pinger interface {
	// Ping returns nil if a read and a write would succeed now.
	Ping(ctx context.Context) error
}

// Clock is implemented by stores that several instances share and that have a
// clock of their own, so that the instances agree on the time.
type Clock interface {
	// Now returns the store's time, without a monotonic reading. It needs no
	// round trip.
	Now() time.Time
}

// ClockOf returns the clock of s, or local if s is not a Clock. Times that are
// stored in s, or compared with stored times, must come from this clock.
//
// The returned times have no monotonic reading. Stored times have none either,
// so that the two compare by the wall clock, even after it was set. To measure
// elapsed time within one process, use a local clock.
func ClockOf(s Store, local func() time.Time) func() time.Time {
	if c, ok := s.(Clock); ok {
		return c.Now
	}
	return func() time.Time { return local().Round(0) }
}
