package redisstore

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	cacheShards = 64
	// shardVersions is the number of version counters of a shard. If two keys
	// share a counter, the worst result is that an answer is not cached.
	shardVersions = 128
	// entryOverhead is about how many bytes a cached entry takes beside its
	// key and value.
	entryOverhead = 200
)

// cache holds answers of Redis, entries and absent keys, so that a read of a warm
// key costs a map lookup.
//
// Redis pushes the key of each entry that changes after it was read, on the
// connection on which it was read. The client calls forget for a push before it
// processes anything that Redis sent later on that connection. After a miss, a
// reader notes the version, asks Redis, and calls fill, which stores the answer
// only if the version is unchanged. So a push that comes between the answer and
// fill is not lost.
//
// A write returns after its key was dropped here, even if the push has not come,
// so that a store always sees its own writes.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu       sync.Mutex
	versions [shardVersions]uint64
	present  lru
	// absent is separate from present so that a flood of unknown keys, which
	// any client can cause, evicts no entry.
	absent lru
}

// newCache returns a cache for about entries entries of about bytes bytes in
// total, and for as many absent keys.
func newCache(entries, bytes int) (*cache, error) {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		for _, l := range []*lru{&c.shards[i].present, &c.shards[i].absent} {
			if err := l.init(max(1, entries/cacheShards), bytes/cacheShards); err != nil {
				return nil, fmt.Errorf("a cache of %d entries: %w", entries, err)
			}
		}
	}
	return c, nil
}

// lookup returns the cached entry of key. If there is none, the caller asks
// Redis and passes version to fill with the answer.
func (c *cache) lookup(key string) (e entry, known bool, version uint64) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, known = s.present.entries.Get(key); !known {
		_, known = s.absent.entries.Get(key)
	}
	return e, known, s.versions[slot]
}

// fill caches an answer of Redis, unless the key was dropped since version.
func (c *cache) fill(key string, e entry, version uint64) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions[slot] != version {
		return
	}
	key = strings.Clone(key) // it may share the memory of a large string
	s.remove(key)
	if e.value == nil {
		s.absent.add(key, e)
	} else {
		s.present.add(key, e)
	}
}

// forget drops key, so that its next reader asks Redis.
func (c *cache) forget(key string) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[slot]++
	s.remove(key)
}

// forgetAll drops all keys.
func (c *cache) forgetAll() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for slot := range s.versions {
			s.versions[slot]++
		}
		s.present.entries.Purge()
		s.absent.entries.Purge()
		s.mu.Unlock()
	}
}

// place returns the shard of key and the index of its version there.
func (c *cache) place(key string) (*cacheShard, uint64) {
	hash := maphash.String(c.seed, key)
	return &c.shards[hash%cacheShards], hash / cacheShards % shardVersions
}

func (s *cacheShard) remove(key string) {
	s.present.entries.Remove(key)
	s.absent.entries.Remove(key)
}

// lru is an LRU cache that is bounded in entries and in bytes.
type lru struct {
	entries         *simplelru.LRU[string, entry]
	bytes, maxBytes int
}

func (l *lru) init(entries, bytes int) (err error) {
	l.maxBytes = bytes
	l.entries, err = simplelru.NewLRU(entries, func(key string, e entry) { l.bytes -= size(key, e) })
	return err
}

// add stores e under key, which must have no entry yet, unless e is too large.
func (l *lru) add(key string, e entry) {
	if size(key, e) > l.maxBytes {
		return
	}
	l.bytes += size(key, e)
	l.entries.Add(key, e)
	for l.bytes > l.maxBytes {
		l.entries.RemoveOldest()
	}
}

func size(key string, e entry) int { return len(key) + headerSize + len(e.value) + entryOverhead }
