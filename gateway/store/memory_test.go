package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
)

// held returns how many entries are in memory, dead ones included.
func (m *Memory) held() int {
	held := 0
	for i := range m.shards {
		m.shards[i].mu.RLock()
		held += len(m.shards[i].entries)
		m.shards[i].mu.RUnlock()
	}
	return held
}

// wantHeld fails the test unless so many entries are in memory, dead ones
// included.
func (m *Memory) wantHeld(t *testing.T, want int) {
	t.Helper()
	if got := m.held(); got != want {
		t.Fatalf("%d entries in memory, want %d", got, want)
	}
}

func TestMemorySweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(nil)
		const each = 1000
		for i := range each {
			for _, expires := range []time.Time{time.Now().Add(30 * time.Second), time.Now().Add(90 * time.Second), {}} {
				must.Do(t, m.Put(t.Context(), fmt.Sprint(expires, i), nil, expires))
			}
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{
			{59 * time.Second, 3 * each}, // dead already, not yet swept
			{2 * time.Second, 2 * each},  // the steps have pauses
			{time.Minute, each},
			{time.Hour, each},
		} {
			time.Sleep(step.wait) // moves the clock of the bubble
			synctest.Wait()
			m.wantHeld(t, step.want)
		}
		must.Do(t, m.Close()) // without which the bubble does not end
		m.wantHeld(t, 0)
	})
}

// The sweeper rests after each shard, without a lock. Entries that come and go during
// the rests hide none from it.
func TestMemorySweepSteps(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	m := NewMemory(clock.Now)
	defer m.Close()
	const each = 10000
	for i := range each {
		must.Do(t, m.Put(t.Context(), fmt.Sprint("live:", i), nil, time.Time{}))
		must.Do(t, m.Put(t.Context(), fmt.Sprint("dead:", i), nil, clock.Now().Add(time.Second)))
	}
	clock.Advance(time.Second)
	rests, held := 0, m.held()
	must.Do(t, m.sweepAll(func(time.Duration) error {
		now := m.held() // would not return if the sweeper had a shard locked
		if removed := held - now; removed > each/10 {
			t.Errorf("a step removes %d entries, want those of one shard", removed)
		}
		must.Do(t, m.Put(t.Context(), fmt.Sprint("new:", rests), nil, time.Time{}))
		must.Do(t, m.Delete(t.Context(), fmt.Sprint("live:", rests)))
		held = m.held()
		rests++
		return nil
	}))
	if rests < memoryShards/2 {
		t.Errorf("%d rests, want one after most of %d shards", rests, memoryShards)
	}
	m.wantHeld(t, each)
	ended := errors.New("the store is closing")
	if err := m.sweepAll(func(time.Duration) error { return ended }); !errors.Is(err, ended) {
		t.Errorf("the sweep ends with %v, want the error of the rest", err)
	}
}

// The sweep of a small store is one step without a rest, which would wake the process.
func TestMemorySweepOfFew(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	m := NewMemory(clock.Now)
	defer m.Close()
	for i := range memorySweepStep - 1 {
		must.Do(t, m.Put(t.Context(), fmt.Sprint(i), nil, clock.Now().Add(1)))
	}
	clock.Advance(1)
	must.Do(t, m.sweepAll(func(time.Duration) error {
		t.Error("the sweeper rests")
		return nil
	}))
	m.wantHeld(t, 0)
}

// A walk leaves out what has expired, although it is not swept yet.
func TestMemoryWalksLiveEntries(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	m := NewMemory(clock.Now)
	defer m.Close()
	must.Do(t, m.Put(t.Context(), "s:1", nil, clock.Now().Add(1)))
	must.Do(t, m.Put(t.Context(), "s:2", nil, clock.Now().Add(2)))
	clock.Advance(1)
	var all []string
	must.Do(t, m.Walk(t.Context(), "s:", func(keys []string) error { all = append(all, keys...); return nil }))
	if len(all) != 1 || all[0] != "s:2" {
		t.Errorf("a walk visits %q", all)
	}
}

// TestRest takes the larger part of the time for others, and ends with its context.
func TestRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]time.Duration{0: leastRest, 10 * time.Millisecond: 70 * time.Millisecond} {
			start := time.Now()
			if err := Rest(t.Context(), took); err != nil || time.Since(start) != want {
				t.Errorf("Rest after %v: %v, %v; want %v", took, time.Since(start), err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Rest(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("Rest with an ended context: %v", err)
		}
	})
}
