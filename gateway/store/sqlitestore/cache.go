package sqlitestore

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	cacheShards = 64
	// shardVersions is the number of version counters of a shard. If two keys
	// share a counter, the worst result is that an answer is not cached.
	shardVersions = 128
)

// never is the expiry of an entry that stays until it is deleted.
const never int64 = 0

// entry is the content of the database or the cache under a key. The zero entry
// means that the key has no value.
type entry struct {
	value   []byte // never nil in an entry that exists
	expires int64  // Unix time in nanoseconds, or never
}

func (e entry) live(now int64) bool {
	return e.value != nil && (e.expires == never || now < e.expires)
}

// unixNano converts an expiry. Times outside the range of an int64 (1678 to 2262)
// become its first or last instant.
func unixNano(t time.Time) int64 {
	switch {
	case t.IsZero():
		return never
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case t.UnixNano() == never:
		return -1 // the Unix epoch, long past, must not be read as never
	}
	return t.UnixNano()
}

// cache holds answers of the database, entries and absent keys, so that a read
// of a warm key costs a map lookup.
//
// It differs from the database only while a commit runs, and no reader sees an
// older value after a newer one:
//
//   - Before a commit, begin makes the version of each changed key odd. After
//     it, finish stores the new entries and makes the versions even. Only then do
//     the writes return.
//   - After a miss, a reader notes the version, reads the database, and calls
//     fill, which stores the answer only if the version is even and unchanged. A
//     read that overlaps a commit is answered but not cached.
//   - If the key is in the cache when fill is called, the reader returns the
//     cached entry. Otherwise it could return a commit that others do not see yet.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu       sync.Mutex
	versions [shardVersions]uint64 // odd: a write to a key of this slot is being committed
	present  *simplelru.LRU[string, entry]
	// absent is separate from present so that a flood of unknown keys, which
	// any client can cause, evicts no entry.
	absent *simplelru.LRU[string, struct{}]
}

// newCache returns a cache of about entries values and as many absent keys.
func newCache(entries int) (*cache, error) {
	c := &cache{seed: maphash.MakeSeed()}
	each := max(1, entries/cacheShards)
	for i := range c.shards {
		present, err := simplelru.NewLRU[string, entry](each, nil)
		if err != nil {
			return nil, fmt.Errorf("cache of %d entries: %w", entries, err)
		}
		absent, err := simplelru.NewLRU[string, struct{}](each, nil)
		if err != nil {
			return nil, fmt.Errorf("cache of %d absent keys: %w", entries, err)
		}
		c.shards[i].present, c.shards[i].absent = present, absent
	}
	return c, nil
}

// lookup returns the cached entry of key. If there is none, the caller reads
// the database and passes version to fill with the answer.
func (c *cache) lookup(key string, now int64) (e entry, known bool, version uint64) {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known = s.lookup(key, now)
	return e, known, s.versions[slot]
}

// fill caches the database's answer to a read that followed the lookup that
// returned version, unless a write came between. It returns the entry to use.
func (c *cache) fill(key string, e entry, now int64, version uint64) entry {
	s, slot := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if cached, known := s.lookup(key, now); known {
		return cached
	}
	if committing := version%2 == 1; !committing && s.versions[slot] == version {
		s.store(key, e)
	}
	return e
}

// beginCommit marks the keys as being committed.
func (c *cache) beginCommit(changes map[string]entry) {
	for key := range changes {
		s, slot := c.place(key)
		s.mu.Lock()
		s.versions[slot] |= 1
		s.mu.Unlock()
	}
}

// finish ends the commit that beginCommit began. If the commit failed, the
// cache drops the keys, so that the next read asks the database for the
// outcome.
func (c *cache) finish(changes map[string]entry, committed bool) {
	for key, e := range changes {
		s, slot := c.place(key)
		s.mu.Lock()
		s.versions[slot] += s.versions[slot] % 2
		if committed {
			s.store(key, e)
		} else {
			s.present.Remove(key)
			s.absent.Remove(key)
		}
		s.mu.Unlock()
	}
}

// forget empties the cache. Answers that were read before are not cached.
func (c *cache) forget() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for slot := range s.versions {
			s.versions[slot] += 2
		}
		s.present.Purge()
		s.absent.Purge()
		s.mu.Unlock()
	}
}

// place returns the shard of key and the index of its version there.
func (c *cache) place(key string) (*cacheShard, uint64) {
	hash := maphash.String(c.seed, key)
	return &c.shards[hash%cacheShards], hash / cacheShards % shardVersions
}

func (s *cacheShard) lookup(key string, now int64) (entry, bool) {
	if e, ok := s.present.Get(key); ok {
		if e.live(now) {
			return e, true
		}
		// It stays dead if the clock is set back.
		s.store(key, entry{})
		return entry{}, true
	}
	_, ok := s.absent.Get(key)
	return entry{}, ok
}

func (s *cacheShard) store(key string, e entry) {
	if e.value == nil {
		s.present.Remove(key)
		s.absent.Add(key, struct{}{})
		return
	}
	s.absent.Remove(key)
	s.present.Add(key, e)
}
