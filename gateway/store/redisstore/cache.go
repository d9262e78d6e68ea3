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
	// shardVersions is the number of version counters of a shard. Keys that
	// share a counter cost each other nothing worse than a missed chance to
	// be cached.
	shardVersions = 128
	// entryOverhead is about what a cached entry takes beside its bytes.
	entryOverhead = 200
)

// cache holds answers of Redis, both values and that a key has none, so that
// a read of a warm key costs a map lookup.
//
// Redis pushes the key of each entry that changes after it was read, on the
// connection that it was read on, and forget is called before anything that
// Redis sent later on that connection is looked at. A reader that misses
// notes the version, asks Redis, and calls fill, which keeps the answer only
// if nothing was forgotten under that version since: so a push that overtakes
// a reader on its way to the cache still counts.
//
// A write is acknowledged after its key was forgotten here, whether the push
// has come or not; so who wrote reads what was written.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu       sync.Mutex
	versions [shardVersions]uint64
	present  lru
	// absent is apart from present so that a flood of unknown keys, which
	// anyone can send, evicts nothing but its like.
	absent lru
}

// newCache returns a cache of about entries values of about bytes in total,
// and of as many absent keys.
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

// lookup returns what is cached under key. If nothing is known, the caller
// asks Redis and hands version to fill along with the answer.
func (c *cache) lookup(key string) (e entry, known bool, version uint64) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, known = s.present.entries.Get(key); !known {
		_, known = s.absent.entries.Get(key)
	}
	return e, known, s.versions[slot]
}

// fill caches what Redis answered, unless the key was forgotten since version.
func (c *cache) fill(key string, e entry, version uint64) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions[slot] != version {
		return
	}
	key = strings.Clone(key) // it may be a small part of something large
	s.remove(key)
	if e.value == nil {
		s.absent.add(key, e)
	} else {
		s.present.add(key, e)
	}
}

// forget makes the next reader of key ask Redis.
func (c *cache) forget(key string) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[slot]++
	s.remove(key)
}

// forgetAll makes the next reader of any key ask Redis.
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

// lru is bounded by the number of its entries and by their bytes.
type lru struct {
	entries         *simplelru.LRU[string, entry]
	bytes, maxBytes int
}

func (l *lru) init(entries, bytes int) (err error) {
	l.maxBytes = bytes
	l.entries, err = simplelru.NewLRU(entries, func(key string, e entry) { l.bytes -= size(key, e) })
	return err
}

// add stores e under key, which has no entry yet, unless it is too large.
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
