package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// TestWarmReadsStayInMemory takes the disk away: what is warm is answered all the
// same, and without an allocation.
func TestWarmReadsStayInMemory(t *testing.T) {
	clock := clocktest.New()
	s := openTest(t, Options{Now: clock.Now})
	storetest.Put(t, s, "written", "value")
	storetest.Put(t, s, "expiring", "", clock.Now().Add(1))
	storetest.WantNone(t, s, "asked for")
	wantError(t, "Delete", s.Delete(t.Context(), "deleted"), nil)
	wantError(t, "Close", s.db.reader.Close(), nil)

	for range 3 {
		storetest.WantValue(t, s, "written", "value")
		storetest.WantNone(t, s, "asked for")
		storetest.WantNone(t, s, "deleted")
	}
	storetest.WantValue(t, s, "expiring", "")
	clock.Advance(1)
	storetest.WantNone(t, s, "expiring")
	clock.Advance(-1)
	storetest.WantNone(t, s, "expiring") // the dead stay dead, also when a clock is set back
	_, err := s.Get(t.Context(), "cold")
	wantFailure(t, "Get of a cold key without a disk", err)

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
	s := openTest(t, Options{CacheEntries: entries})
	storetest.Put(t, s, "session", "value")
	for i := range 4 * entries {
		storetest.WantNone(t, s, fmt.Sprintf("guess %d", i))
	}
	wantError(t, "Close", s.db.reader.Close(), nil)
	storetest.WantValue(t, s, "session", "value")

	var present, absent int
	for i := range s.cache.shards {
		present += s.cache.shards[i].present.Len()
		absent += s.cache.shards[i].absent.Len()
	}
	if present != 1 || absent > entries {
		t.Errorf("cache holds %d entries and %d absent keys, want 1 and at most %d", present, absent, entries)
	}
}

// TestCacheRefusesWhatACommitOvertook plays a cold read against a commit in the
// orders that they can fall into.
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
		c, err := newCache(cacheShards)
		wantError(t, "newCache", err, nil)
		changes := map[string]entry{"key": after}
		var version uint64
		for step := range strings.FieldsSeq(test.steps) {
			switch step {
			case "look":
				_, _, version = c.lookup("key", now)
			case "begin":
				c.beginCommit(changes)
			case "finish", "fail":
				c.finish(changes, step == "finish")
			case "evict":
				c.evict("key")
			case "fill":
				if told := c.fill("key", before, now, version); string(told.value) != test.told {
					t.Errorf("%s: the reader is told %q, want %q", test.steps, told.value, test.told)
				}
			}
		}
		got, known, _ := c.lookup("key", now)
		if string(got.value) != test.cached || known != (test.cached != "") {
			t.Errorf("%s: cached: %q (known: %t), want %q", test.steps, got.value, known, test.cached)
		}
	}
}

// TestCacheFollowsCommits: during a commit the cache has the old value, and its
// version is odd. A cold read that the commit overtook is not cached.
func TestCacheFollowsCommits(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	storetest.Put(t, s, "key", "old")
	conn := must.Get(s.db.writer.Conn(t.Context()))(t)
	var during entry
	var version uint64
	wantError(t, "Raw", conn.Raw(func(driver any) error {
		driver.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			during, _, version = s.cache.lookup("key", 1)
			return 0
		})
		return nil
	}), nil)
	wantError(t, "Close", conn.Close(), nil)
	old, _, before := s.cache.lookup("key", 1)
	storetest.Put(t, s, "key", "new")
	if string(during.value) != "old" || version%2 == 0 {
		t.Errorf("during the commit the cache has %q, version %d; want the old value, and an odd version",
			during.value, version)
	}
	s.cache.evict("key")
	s.cache.fill("key", old, 1, before)
	storetest.WantValue(t, s, "key", "new")
}

// meddling is a context that does something when its end is asked for.
type meddling struct {
	context.Context
	meddle func()
}

// Done implements context.Context.
func (m meddling) Done() <-chan struct{} {
	m.meddle()
	return m.Context.Done()
}

// TestColdReadIsOvertaken changes an entry several times during a cold read: what
// the read found is not cached.
func TestColdReadIsOvertaken(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	var mu sync.Mutex // SQLite asks in the background too
	changes, over := 0, false
	_, err := s.Get(meddling{t.Context(), func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		changes++
		storetest.Put(t, s, "key", fmt.Sprint(changes))
		s.cache.evict("key")
	}}, "key")
	mu.Lock()
	defer mu.Unlock()
	over = true
	if changes == 0 || err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("%d changes, %v", changes, err)
	}
	storetest.WantValue(t, s, "key", fmt.Sprint(changes))
}

// evict forgets key, as a cache that is full may at any time.
func (c *cache) evict(key string) {
	s, _ := c.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present.Remove(key)
	s.absent.Remove(key)
}

// TestSweptEntriesLeaveTheCache sets the clock back after a sweep: what it removed
// from the disk must not live on in memory.
func TestSweptEntriesLeaveTheCache(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := openTest(t, Options{Now: clock.Now})
	storetest.Put(t, s, "key", "", clock.Now().Add(1))
	clock.Advance(1)
	wantError(t, "sweep", s.sweepAll(t.Context(), noRest), nil)
	clock.Advance(-1)
	storetest.WantNone(t, s, "key")
}

// noRest continues a sweep at once.
func noRest(time.Duration) error { return nil }

// FuzzLikeMemory reads its input as a program of store operations and runs it
// on a memory store and on a SQLite store side by side. Every result must be
// the same, and so must be what they hold in the end, read cold.
func FuzzLikeMemory(f *testing.F) {
	f.Add([]byte("put, then get"))
	f.Add([]byte{opPut, 0, 0, opGet, 0, 0, opTake, 0, 0, opGet, 0, 0})
	f.Add([]byte{opSwap, 0, 0, opSwap, 0b100, 0, opSwap, 0b1000, 0, opWalk, 0, 0})
	f.Add([]byte{opPut, 1, 3, opAdvance, 1, 0, opGet, 1, 0, opSwap, 1, 0, opSweep, 0, 0, opGet, 1, 0})
	f.Add([]byte{opPut, 2, 1, opPut, 3, 2, opEvict, 2, 0, opGet, 2, 0, opDelete, 3, 0, opWalk, 3, 0})
	f.Add([]byte{opPut, 1, 3, opPut, 2, 0, opWalk, 0, 0, opAdvance, 1, 0, opWalk, 0, 0})

	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	f.Cleanup(func() { _ = memory.Close() })
	sqlite := openTest(f, Options{Now: clock.Now})

	programs := 0
	f.Fuzz(func(t *testing.T, program []byte) {
		programs++
		key := func(selector byte) string { return fmt.Sprintf("%d:%s", programs, fuzzKeys[selector%4]) }
		for step := 0; len(program) >= 3 && step < 64; step++ {
			op, operand, expiry := program[0]%operations, program[1], program[2]
			program = program[3:]
			switch op {
			case opAdvance:
				clock.Advance(time.Duration(operand % 4))
			case opEvict:
				sqlite.cache.evict(key(operand))
			case opSweep:
				wantError(t, "sweep", sqlite.sweepAll(t.Context(), noRest), nil)
			}
			want := perform(t, memory, clock.Now(), op, key(operand), operand, expiry)
			if got := perform(t, sqlite, clock.Now(), op, key(operand), operand, expiry); got != want {
				t.Fatalf("step %d (%d %d %d): sqlite says %s, memory says %s", step, op, operand, expiry, got, want)
			}
		}
		for selector := range byte(len(fuzzKeys)) {
			sqlite.cache.evict(key(selector))
			want := perform(t, memory, clock.Now(), opGet, key(selector), 0, 0)
			if got := perform(t, sqlite, clock.Now(), opGet, key(selector), 0, 0); got != want {
				t.Fatalf("in the end, key %q: sqlite holds %s, memory holds %s", key(selector), got, want)
			}
		}
	})
}

const (
	opGet = iota
	opPut
	opSwap
	opTake
	opDelete
	opWalk
	opAdvance // the clock
	opEvict   // a key from the cache
	opSweep   // the disk
	operations
)

var (
	fuzzKeys   = []string{"", "a", "a\xff", "a\xff\x00"}
	fuzzValues = [][]byte{nil, {}, []byte("x"), []byte("x\x00")}
)

// perform does one operation on s and tells its result in words. Bits of operand
// select the old and the new value, and expiry selects an instant.
func perform(t *testing.T, s store.Store, now time.Time, op byte, key string, operand, expiry byte) string {
	expires := []time.Time{
		{}, now.Add(-1), now, now.Add(1), now.Add(2), now.Add(time.Hour),
		time.Unix(0, 0), time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC),
	}[expiry%8]
	old, value := fuzzValues[operand>>2&3], fuzzValues[operand>>4&3]
	var result any
	var err error
	switch op {
	case opGet:
		result, err = s.Get(t.Context(), key)
	case opPut:
		err = s.Put(t.Context(), key, value, expires)
	case opSwap:
		err = s.Swap(t.Context(), key, old, value, expires)
	case opTake:
		result, err = s.Take(t.Context(), key)
	case opDelete:
		err = s.Delete(t.Context(), key)
	case opWalk:
		result = storetest.Keys(t, s, key)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
		t.Fatalf("operation %d on %q: %v", op, key, err)
	}
	return fmt.Sprintf("%#v, %v", result, err)
}
