package sqlitestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// TestWarmReadsStayInMemory takes the disk away: what is warm is answered
// all the same, and without an allocation.
func TestWarmReadsStayInMemory(t *testing.T) {
	clock := clocktest.New()
	s := openTest(t, Options{Now: clock.Now})
	put(t, s, "written", "value")
	wantAbsent(t, s, "asked for")
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "expiring", nil, clock.Now().Add(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.db.reader.Close(); err != nil {
		t.Fatal(err)
	}

	for range 3 {
		wantValue(t, s, "written", "value")
		wantAbsent(t, s, "asked for")
		wantAbsent(t, s, "deleted")
	}
	wantValue(t, s, "expiring", "")
	clock.Advance(1)
	wantAbsent(t, s, "expiring")
	clock.Advance(-1)
	wantAbsent(t, s, "expiring") // the dead stay dead, also when a clock is set back
	if _, err := s.Get(t.Context(), "cold"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get of a cold key without a disk: error %v, want one that says so", err)
	}

	ctx := t.Context()
	for _, key := range []string{"written", "asked for"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = s.Get(ctx, key) }); n != 0 {
			t.Errorf("Get(%q) allocates %v times", key, n)
		}
	}
}

// TestUnknownKeysEvictNothing floods the store with keys that are not there.
func TestUnknownKeysEvictNothing(t *testing.T) {
	t.Parallel()
	const entries = 10 * cacheShards
	s := openVolatile(t, Options{CacheEntries: entries})
	put(t, s, "session", "value")
	for i := range 4 * entries {
		wantAbsent(t, s, fmt.Sprintf("guess %d", i))
	}
	if err := s.db.reader.Close(); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "session", "value")

	var present, absent int
	for i := range s.cache.shards {
		present += s.cache.shards[i].present.Len()
		absent += s.cache.shards[i].absent.Len()
	}
	if present != 1 || absent > entries {
		t.Errorf("cache holds %d entries and %d absent keys, want 1 and at most %d", present, absent, entries)
	}
}

// TestCacheRefusesWhatACommitOvertook plays a cold read against a commit in
// the orders that they can fall into.
func TestCacheRefusesWhatACommitOvertook(t *testing.T) {
	t.Parallel()
	before, after := newEntry([]byte("before"), time.Time{}), newEntry([]byte("after"), time.Time{})
	const now = 1
	for _, test := range []struct {
		// look: a reader misses. begin, finish, fail: the writer commits.
		// evict: the cache is full. fill: the reader brings what the database
		// held before the commit.
		steps  string
		told   string // what the reader returns
		cached string // what the cache knows in the end, "" for nothing
	}{
		{"look fill", "before", "before"},
		{"look begin fill", "before", ""},
		{"begin look fill", "before", ""},
		{"look begin fill finish", "before", "after"},
		{"look begin finish fill", "after", "after"},
		{"begin look finish fill", "after", "after"},
		{"look begin finish evict fill", "before", ""},
		{"begin look finish evict fill", "before", ""},
		{"look begin fail fill", "before", ""},
		{"begin look fail fill", "before", ""},
		{"look fill begin fail", "before", ""},
		{"begin fail look fill", "before", "before"},
		{"begin finish begin fail look fill", "before", "before"},
	} {
		t.Run(test.steps, func(t *testing.T) {
			t.Parallel()
			c, err := newCache(cacheShards)
			if err != nil {
				t.Fatal(err)
			}
			changes := map[string]entry{"key": after}
			var version uint64
			for step := range strings.FieldsSeq(test.steps) {
				switch step {
				case "look":
					_, _, version = c.lookup("key", now)
				case "begin":
					c.begin(changes)
				case "finish", "fail":
					c.finish(changes, step == "finish")
				case "evict":
					c.evict("key")
				case "fill":
					if told := c.fill("key", before, now, version); string(told.value) != test.told {
						t.Errorf("the reader is told %q, want %q", told.value, test.told)
					}
				}
			}
			got, known, _ := c.lookup("key", now)
			if string(got.value) != test.cached || known != (test.cached != "") {
				t.Errorf("cached: %q (known: %t), want %q", got.value, known, test.cached)
			}
		})
	}
}

// evict forgets key, as a cache that is full may at any time.
func (c *cache) evict(key string) {
	s, _ := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present.Remove(key)
	s.absent.Remove(key)
}

// TestSweptEntriesLeaveTheCache sets the clock back after a sweep: what it
// removed from the disk must not live on in memory.
func TestSweptEntriesLeaveTheCache(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := openTest(t, Options{Now: clock.Now})
	if err := s.Put(t.Context(), "key", nil, clock.Now().Add(1)); err != nil {
		t.Fatal(err)
	}
	clock.Advance(1)
	if err := s.sweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Advance(-1)
	wantAbsent(t, s, "key")
}

// TestCacheCoherence lets writers and readers work on keys that all fall
// into one shard with room for one entry, so that nearly every read is cold
// and races with commits. Writers read back what was acknowledged; readers
// never see less than was visible when their read began.
func TestCacheCoherence(t *testing.T) {
	t.Parallel()
	const keys, readers, rounds = 4, 4, 200
	s := openVolatile(t, Options{CacheEntries: 1})
	names := sameShard(s.cache, keys)
	var visible [keys]atomic.Int64
	var done atomic.Bool
	var writing, reading sync.WaitGroup
	for key, name := range names {
		writing.Go(func() {
			for n := int64(1); n <= rounds; n++ {
				put(t, s, name, strconv.FormatInt(n, 10))
				visible[key].Store(n)
				wantValue(t, s, name, strconv.FormatInt(n, 10))
				if n%5 == 0 {
					if err := s.Delete(t.Context(), name); err != nil {
						t.Errorf("Delete: %v", err)
					}
					wantAbsent(t, s, name)
				}
			}
		})
	}
	for reader := range readers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(reader)))
			for ; !done.Load(); runtime.Gosched() { // lets the writers in
				key := random.IntN(keys)
				atLeast := visible[key].Load()
				value, err := s.Get(t.Context(), names[key])
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				got, malformed := strconv.ParseInt(string(value), 10, 64)
				if err != nil || malformed != nil || got < atLeast {
					t.Errorf("key %d: read %q, %v after %d was visible", key, value, err, atLeast)
					return
				}
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
}

// sameShard returns n keys that share a shard but no version counter.
func sameShard(c *cache, n int) []string {
	first, _ := c.place("key 0")
	slots := make(map[uint64]bool)
	var keys []string
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("key %d", i)
		if shard, slot := c.place(key); shard == first && !slots[slot] {
			slots[slot] = true
			keys = append(keys, key)
		}
	}
	return keys
}
