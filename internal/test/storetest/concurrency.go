package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
)

// race calls compete in n goroutines that start together, and returns how many
// calls returned nil. An error other than loss fails the test.
func race(t *testing.T, n int, loss error, compete func(i int) error) int {
	t.Helper()
	var won atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			switch err := compete(i); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, loss):
				t.Errorf("goroutine %d: error %v, want %v", i, err, loss)
			}
		})
	}
	close(start)
	all.Wait()
	return int(won.Load())
}

// testOneWins has many goroutines change one key at once: one of them succeeds,
// and what it stored stays.
func testOneWins(t *testing.T, s Store, clock *clocktest.Clock) {
	var current atomic.Pointer[string] // what the last winner stored
	contest := func(what string, loss error, compete func(value string) error) {
		t.Helper()
		won := race(t, 50, loss, func(i int) error {
			value := fmt.Sprintf("%s by %d", what, i)
			err := compete(value)
			if err == nil {
				current.Store(&value)
			}
			return err
		})
		if won != 1 {
			t.Fatalf("%d of 50 %ss succeeded, want 1", won, what)
		}
	}
	create := func(value string) error {
		return s.Swap(t.Context(), "key", nil, []byte(value), clock.Now().Add(1))
	}
	for range 10 {
		contest("creation", store.ErrConflict, create)
		clock.Advance(1)
		contest("creation after expiry", store.ErrConflict, create)
		old := *current.Load()
		WantValue(t, s, "key", old)
		contest("swap", store.ErrConflict, func(value string) error {
			return s.Swap(t.Context(), "key", []byte(old), []byte(value), never)
		})
		old = *current.Load()
		WantValue(t, s, "key", old)
		contest("take", store.ErrNotFound, func(string) error {
			got, err := s.Take(t.Context(), "key")
			if err == nil && string(got) != old {
				return fmt.Errorf("took %q, want %q", got, old)
			}
			return err
		})
		WantNone(t, s, "key")
	}
}

// counting is a test in which each key has one writer, who counts it up by all
// kinds of writes.
type counting struct {
	store   store.Store
	ctx     context.Context
	visible [4]atomic.Int64 // for each key, the highest count that is known to be visible
}

func countKey(key int) string { return fmt.Sprintf("key %d", key) }

func count(key int, n int64) []byte { return fmt.Appendf(nil, "%d %d", key, n) }

// read reads a key. It returns an error if it gets a value of another key, or an
// older value than one that was visible before.
func (c *counting) read(key int, mayBeAbsent bool) error {
	atLeast := c.visible[key].Load()
	value, known := recall(c.store, countKey(key))
	var err error
	switch {
	case !known:
		value, err = c.store.Get(c.ctx, countKey(key))
	case value == nil:
		err = store.ErrNotFound
	}
	if mayBeAbsent && errors.Is(err, store.ErrNotFound) {
		return nil
	}
	var of int
	var n int64
	if _, malformed := fmt.Sscanf(string(value), "%d %d", &of, &n); err != nil || malformed != nil || of != key ||
		n < atLeast {
		return fmt.Errorf("key %d: read %q, %w after %d was visible", key, value, err, atLeast)
	}
	for known := c.visible[key].Load(); known < n; known = c.visible[key].Load() {
		c.visible[key].CompareAndSwap(known, n)
	}
	return nil
}

// write counts a key up to n, and reads what it wrote.
func (c *counting) write(key int, n int64) error {
	name, before, after := countKey(key), count(key, n-1), count(key, n)
	var err error
	switch n % 4 {
	case 0:
		err = c.store.Put(c.ctx, name, after, never)
	case 1:
		err = c.store.Swap(c.ctx, name, before, after, never)
	case 2:
		var taken []byte
		if taken, err = c.store.Take(c.ctx, name); err == nil && string(taken) != string(before) {
			err = fmt.Errorf("took %q, want %q", taken, before)
		}
		err = errors.Join(err, c.store.Swap(c.ctx, name, nil, after, never))
	case 3:
		err = c.store.Delete(c.ctx, name)
		if _, absent := c.store.Get(c.ctx, name); !errors.Is(absent, store.ErrNotFound) {
			err = errors.Join(err, fmt.Errorf("key %d was deleted: error %w, want ErrNotFound", key, absent))
		}
		err = errors.Join(err, c.store.Put(c.ctx, name, after, time.Time{}))
	}
	c.visible[key].Store(n)
	return errors.Join(err, c.read(key, false))
}

// testNoOlderValue has writers count, while others read.
func testNoOlderValue(t *testing.T, s Store, _ *clocktest.Clock) {
	ctx, stop := context.WithCancel(t.Context())
	c := &counting{store: s, ctx: t.Context()}
	var reading sync.WaitGroup
	for reader := range 4 {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(reader)))
			for ; ctx.Err() == nil; runtime.Gosched() { // lets the writers in
				if err := c.read(random.IntN(len(c.visible)), true); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	race(t, len(c.visible), nil, func(key int) error {
		for n := range int64(100) {
			if err := c.write(key, n); err != nil {
				return err
			}
		}
		return nil
	})
	stop()
	reading.Wait()
}
