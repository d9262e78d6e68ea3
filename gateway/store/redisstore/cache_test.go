package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
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

// twoClocks are the clocks of Redis and of an instance, turned by hand.
type twoClocks struct {
	clock
	log         bytes.Buffer
	here, there time.Time
	trip        time.Duration // to Redis, and back again
}

func newTwoClocks() *twoClocks {
	c := &twoClocks{here: time.Unix(1_000_000, 0), there: time.Unix(1_000_000, 0), trip: 10 * time.Millisecond}
	c.local, c.logger = func() time.Time { return c.here }, slog.New(slog.NewTextHandler(&c.log, nil))
	return c
}

func (c *twoClocks) pass(d time.Duration) { c.here, c.there = c.here.Add(d), c.there.Add(d) }

// ask asks Redis over the network.
func (c *twoClocks) ask(t *testing.T) {
	t.Helper()
	must.Do(t, c.measure(t.Context(), func(context.Context) (time.Time, error) {
		c.pass(c.trip)
		told := c.there
		c.pass(c.trip)
		return told, nil
	}))
}

// wrong is by how much the clock differs from that of Redis.
func (c *twoClocks) wrong() time.Duration { return c.at(c.here).Sub(c.there).Abs() }

// TestClock measures the clock of Redis over a network: the difference is at
// most a round trip, whatever becomes of the clocks in between.
func TestClock(t *testing.T) {
	t.Parallel()
	c := newTwoClocks()
	if c.known() || !c.at(c.here).Equal(c.here) {
		t.Error("the clock is known before Redis was asked")
	}
	c.there = c.there.Add(-time.Minute)
	for _, step := range []struct {
		what   string
		change func()
		told   string
	}{
		{"at the start", func() {}, "differs from the clock of redis"},
		{"a while later", func() { c.pass(time.Hour) }, ""},
		{"with a slow answer", func() { c.trip = time.Second }, ""},
		{"with a fast answer", func() { c.trip = time.Millisecond }, ""},
		{"with clocks of different speed", func() { c.here = c.here.Add(500 * time.Millisecond) }, ""},
		{"after the clock of Redis was set back", func() { c.there = c.there.Add(-5 * time.Hour) },
			"redis_is_ahead_by=-5h0m0"},
		{"after a failover to a server that is ahead", func() { c.there = c.there.Add(time.Minute) },
			"redis_is_ahead_by=1m0"},
		{"after this machine was suspended", func() { c.there = c.there.Add(time.Hour) }, "redis_is_ahead_by=1h0m0"},
	} {
		step.change()
		c.log.Reset()
		c.ask(t)
		if wrong := c.wrong(); wrong > 2*c.trip {
			t.Errorf("%s: wrong by %v with a round trip of %v", step.what, wrong, 2*c.trip)
		}
		if told := c.log.String(); !strings.Contains(told, step.told) || (step.told == "") != (told == "") {
			t.Errorf("%s: the log says %q, want %q", step.what, told, step.told)
		}
	}
	before := c.wrong()
	c.pass(time.Minute)
	silent := func(context.Context) (time.Time, error) { return time.Time{}, errNoAnswer }
	if err := c.measure(t.Context(), silent); !errors.Is(err, errNoAnswer) {
		t.Errorf("without an answer: %v", err)
	}
	if c.wrong() != before || !c.known() {
		t.Error("without an answer the clock is lost")
	}
}
