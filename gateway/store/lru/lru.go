// Package lru makes caches of a constant size. A cache that is full forgets the entry
// that was used least recently.
package lru

import (
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache is a cache whose methods may be called concurrently.
type Cache[K comparable, V any] = lru.Cache[K, V]

// New returns a Cache for at most size entries. It panics unless size is positive.
func New[K comparable, V any](size int) *Cache[K, V] {
	return made(lru.New[K, V](size))
}

// Unlocked is a cache whose callers keep its methods from running concurrently.
type Unlocked[K comparable, V any] = simplelru.LRU[K, V]

// NewUnlocked returns an Unlocked for at most size entries. It panics unless size is
// positive.
func NewUnlocked[K comparable, V any](size int) *Unlocked[K, V] {
	return made(simplelru.NewLRU[K, V](size, nil))
}

// made returns the cache. The only error of the library is a size that is not positive.
func made[C any](cache C, err error) C {
	if err != nil {
		panic(fmt.Sprintf("lru: %v", err))
	}
	return cache
}
