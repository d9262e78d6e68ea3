package redisstore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"authgate/gateway/must"
)

// TestCacheRefusesWhatWasOvertaken plays a cold read against a push in the
// orders that they can fall into.
func TestCacheRefusesWhatWasOvertaken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		// look: a reader misses. fill: it brings its answer. push: the key
		// was changed. end: the connection ended.
		steps  string
		cached bool // whether the answer is in the cache in the end
	}{
		{"look fill", true},
		{"look push fill", false},
		{"look end fill", false},
		{"look fill push", false},
		{"look fill end", false},
		{"push look fill", true},
		{"look push look fill", true},
	} {
		for _, answer := range []entry{{value: []byte("value"), expires: never}, {}} {
			c := must.Get(newCache(cacheShards, 1<<20))(t)
			var version uint64
			for step := range strings.FieldsSeq(test.steps) {
				switch step {
				case "look":
					_, _, version = c.lookup("key")
				case "fill":
					c.fill("key", answer, version)
				case "push":
					c.forget("key")
				case "end":
					c.forgetAll()
				}
			}
			got, known, _ := c.lookup("key")
			if known != test.cached || known && !bytes.Equal(got.value, answer.value) {
				t.Errorf("%s: cached %q: %t, want %t", test.steps, answer.value, known, test.cached)
			}
		}
	}
}

// TestCacheIsBounded fills it with more than it may hold, both ways.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const entries, limit = 10 * cacheShards, 1 << 20
	for name, value := range map[string][]byte{"small": {}, "large": make([]byte, 4096), "absent": nil} {
		c := must.Get(newCache(entries, limit))(t)
		c.fill("session", entry{value: []byte("kept"), expires: never}, 0)
		for i := range 10 * entries {
			c.fill(fmt.Sprintf("key %d", i), entry{value: value, expires: never}, 0)
		}
		c.fill("huge", entry{value: make([]byte, limit), expires: never}, 0)
		count, held := 0, 0
		for i := range c.shards {
			for _, l := range []*lru{&c.shards[i].present, &c.shards[i].absent} {
				before := held
				for _, key := range l.entries.Keys() {
					e, _ := l.entries.Peek(key)
					count, held = count+1, held+size(key, e)
				}
				if held-before != l.bytes {
					t.Fatalf("%s: a shard of %d bytes believes to hold %d", name, held-before, l.bytes)
				}
			}
		}
		if count == 0 || count > entries+1 || held > limit+limit/cacheShards {
			t.Errorf("%s: %d entries of %d bytes, want at most %d of %d", name, count, held, entries, limit)
		}
		if _, known, _ := c.lookup("huge"); known {
			t.Error("a value larger than a shard is cached")
		}
		if e, _, _ := c.lookup("session"); name == "absent" && e.value == nil {
			t.Error("unknown keys evicted an entry")
		}
		c.forgetAll()
		for i := range c.shards {
			if s := &c.shards[i]; s.present.bytes != 0 || s.absent.bytes != 0 {
				t.Fatalf("%s: an empty cache believes to hold bytes", name)
			}
		}
	}
}
