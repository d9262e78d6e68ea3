// Package record keeps records in the store: their JSON, the hashes of secrets that lead
// to them, and a cache of values made of them.
package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/lru"
)

// CacheSize is the number of identities that a mechanism caches. A cached
// identity takes about 1 KiB, with its credential.
const CacheSize = 16384

// Cache remembers the value of a credential, such as a session identifier, so that
// a warm request hashes, decodes and verifies nothing. A value counts only while
// its basis holds.
type Cache[T any] struct {
	made *lru.Cache[string, *T] // by credential
}

// NewCache returns an empty cache.
func NewCache[T any]() Cache[T] {
	return Cache[T]{lru.New[string, *T](CacheSize)}
}

// Get returns the value of a credential, or nil.
func (c Cache[T]) Get(presented string) *T {
	made, _ := c.made.Get(presented)
	return made
}

// Keep remembers the value of a credential.
func (c Cache[T]) Keep(presented string, made *T) {
	c.made.Add(strings.Clone(presented), made) // a clone, because it is a part of the whole header
}

// Forget forgets the value of a credential.
func (c Cache[T]) Forget(presented string) { c.made.Remove(presented) }

// Basis are the records of which something was made. It holds while the store has the
// same bytes under their keys.
type Basis []Stored

// Stored is the content of the store under a key. Raw is nil if there was nothing.
type Stored struct {
	Key string
	Raw []byte
}

// Holds reports whether the store still has the same records. Without records, nothing
// is known to hold.
func (b Basis) Holds(ctx context.Context, s store.Store) (bool, error) {
	for _, r := range b {
		raw, err := Find(ctx, s, r.Key)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(raw, r.Raw) {
			return false, nil
		}
	}
	return len(b) > 0, nil
}

// Find returns the record of a key, or nil if there is none.
func Find(ctx context.Context, s store.Store, key string) ([]byte, error) {
	raw, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		kind, _, _ := strings.Cut(key, ":")
		return nil, fmt.Errorf("reading a record (%s): %w", kind, err)
	}
	return raw, nil
}

// Decode decodes a record of the store.
func Decode[T any](raw []byte) (*T, error) {
	decoded := new(T)
	if err := json.Unmarshal(raw, decoded); err != nil {
		return nil, fmt.Errorf("a record in the store is damaged: %w", err)
	}
	return decoded, nil
}

// Edited returns the change of a record that expires.
func Edited(to any, expires time.Time) (store.Edit, error) {
	value, err := json.Marshal(to)
	return store.Edit{Value: value, Expires: expires}, err
}

// Hash returns the SHA-256 of a secret in base64url, for use in store keys. A fast
// hash is enough for 256 random bits.
func Hash(secret []byte) string {
	sum := sha256.Sum256(secret)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ClockLeeway is how much the clocks of two instances may differ. Tokens have this leeway for
// iat and nbf, and none for exp.
const ClockLeeway = 5 * time.Second

// InFuture reports whether a time in a record is later than now, by more than the clocks of
// two instances may differ. Then the clock was set back.
func InFuture(recorded, now time.Time) bool { return recorded.Sub(now) > ClockLeeway }
