package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"authgate/gateway/lru"
	"authgate/gateway/store"
)

// identityCacheSize is the number of identities that a mechanism caches. A cached
// identity takes about 1 KiB, with what was presented for it.
const identityCacheSize = 16384

// recall remembers what was made of what clients presented, such as a session
// identifier, so that a warm request hashes, decodes and verifies nothing. What it
// returns counts only while its basis holds.
type recall[T any] struct {
	made *lru.Cache[string, *T] // by what was presented
}

func newRecall[T any]() recall[T] {
	return recall[T]{lru.New[string, *T](identityCacheSize)}
}

// get returns what was made of what a client presents, or nil.
func (r recall[T]) get(presented string) *T {
	made, _ := r.made.Get(presented)
	return made
}

// keep remembers what was made.
func (r recall[T]) keep(presented string, made *T) {
	r.made.Add(strings.Clone(presented), made) // a clone, because it is a part of the whole header
}

// basis are the records of which something was made. It holds while the store has the
// same bytes under their keys.
type basis []record

// record is what the store held under a key. raw is nil if there was nothing.
type record struct {
	key string
	raw []byte
}

// holds reports whether the store still has the same records. Without records, nothing
// is known to hold.
func (l *Logins) holds(ctx context.Context, b basis) (bool, error) {
	for _, r := range b {
		raw, err := l.find(ctx, r.key)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(raw, r.raw) {
			return false, nil
		}
	}
	return len(b) > 0, nil
}

// find returns the record of a key, or nil if there is none.
func (l *Logins) find(ctx context.Context, key string) ([]byte, error) {
	raw, err := l.store.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		kind, _, _ := strings.Cut(key, ":")
		return nil, fmt.Errorf("reading a record (%s): %w", kind, err)
	}
	return raw, nil
}
