package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// contenders is how many goroutines write one key at once.
const contenders = 50

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

func testOneSwapWins(t *testing.T, s Store, _ *clocktest.Clock) {
	current := []byte("generation 0")
	put(t, s, "key", string(current), never)
	for generation := range 10 {
		var winner atomic.Int64
		won := race(t, contenders, store.ErrConflict, func(i int) error {
			err := s.Swap(t.Context(), "key", current, fmt.Appendf(nil, "generation %d by %d", generation, i), never)
			if err == nil {
				winner.Store(int64(i))
			}
			return err
		})
		if won != 1 {
			t.Fatalf("generation %d: %d of %d Swaps succeeded, want 1", generation, won, contenders)
		}
		current = fmt.Appendf(nil, "generation %d by %d", generation, winner.Load())
		wantValue(t, s, "key", string(current))
	}
}

func testOneCreatorWins(t *testing.T, s Store, clock *clocktest.Clock) {
	for generation := range 10 {
		won := race(t, contenders, store.ErrConflict, func(i int) error {
			return s.Swap(t.Context(), "key", nil, []byte{byte(i)}, clock.Now().Add(1))
		})
		if won != 1 {
			t.Fatalf("generation %d: %d of %d creators succeeded, want 1", generation, won, contenders)
		}
		clock.Advance(1) // the next ones find an expired entry
	}
}

func testOneTakeWins(t *testing.T, s Store, _ *clocktest.Clock) {
	for generation := range 10 {
		want := fmt.Sprintf("generation %d", generation)
		put(t, s, "key", want, never)
		won := race(t, contenders, store.ErrNotFound, func(int) error {
			got, err := s.Take(t.Context(), "key")
			if err == nil && string(got) != want {
				t.Errorf("Take = %q, want %q", got, want)
			}
			return err
		})
		if won != 1 {
			t.Fatalf("generation %d: %d of %d Takes succeeded, want 1", generation, won, contenders)
		}
		wantNone(t, s, "key")
	}
}

// testNoUpdateIsLost increments one number by Swap from many goroutines.
func testNoUpdateIsLost(t *testing.T, s Store, _ *clocktest.Clock) {
	const workers, increments = 8, 25
	put(t, s, "number", "0", never)
	increment := func() error {
		for {
			old, err := s.Get(t.Context(), "number")
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(old))
			if err != nil {
				return err
			}
			err = s.Swap(t.Context(), "number", old, strconv.AppendInt(nil, int64(n+1), 10), never)
			if !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
	}
	race(t, workers, nil, func(int) error {
		for range increments {
			if err := increment(); err != nil {
				return err
			}
		}
		return nil
	})
	wantValue(t, s, "number", strconv.Itoa(workers*increments))
}

// testNoOlderValue has a writer count each key up. What a reader gets is not
// older than the last write that had returned, and than any value that another
// read had returned, before the read began.
func testNoOlderValue(t *testing.T, s Store, _ *clocktest.Clock) {
	const keys, readers, writes = 4, 4, 100
	var seen [keys]atomic.Int64 // the newest value known to be visible
	raise := func(key int, value int64) {
		for known := seen[key].Load(); known < value; known = seen[key].Load() {
			seen[key].CompareAndSwap(known, value)
		}
	}
	name := func(key int) string { return fmt.Sprintf("key %d", key) }
	for key := range keys {
		put(t, s, name(key), "0", never)
	}

	var writing, reading sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for key := range keys {
		writing.Go(func() {
			for n := int64(1); n <= writes; n++ {
				if err := s.Put(t.Context(), name(key), strconv.AppendInt(nil, n, 10), never); err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				raise(key, n)
			}
		})
	}
	for reader := range readers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(reader)))
			for ; ctx.Err() == nil; runtime.Gosched() { // lets the writers in
				key := random.IntN(keys)
				atLeast := seen[key].Load()
				value, err := s.Get(t.Context(), name(key))
				if err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				got, err := strconv.ParseInt(string(value), 10, 64)
				if err != nil || got < atLeast {
					t.Errorf("key %d: read %q after %d was visible", key, value, atLeast)
					return
				}
				raise(key, got)
			}
		})
	}
	writing.Wait()
	stop()
	reading.Wait()
	for key := range keys {
		wantValue(t, s, name(key), strconv.Itoa(writes))
	}
}

// testOwnWritesAreOwn gives each goroutine keys that only it writes, so that it
// knows their values. Each also reads keys of the others.
func testOwnWritesAreOwn(t *testing.T, s Store, _ *clocktest.Clock) {
	const owners, keys, steps = 16, 3, 100
	race(t, owners, nil, func(i int) error {
		o := &owner{
			store:  s,
			random: rand.New(rand.NewPCG(2, uint64(i))),
			model:  make(map[string][]byte),
		}
		for step := range steps {
			own := fmt.Sprintf("%d/%d", i, o.random.IntN(keys))
			if err := o.write(t.Context(), own, fmt.Appendf(nil, "%s step %d", own, step)); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if err := o.verify(t.Context(), own); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			foreign := fmt.Sprintf("%d/%d", o.random.IntN(owners), o.random.IntN(keys))
			value, err := s.Get(t.Context(), foreign)
			if err == nil && !bytes.HasPrefix(value, []byte(foreign+" ")) {
				return fmt.Errorf("key %s holds %q, a value of another key", foreign, value)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

// owner does random writes on keys of its own and knows their values.
type owner struct {
	store  store.Store
	random *rand.Rand
	model  map[string][]byte // nil: no live value
}

// write does one random operation, some of which must fail, and checks its
// result.
func (o *owner) write(ctx context.Context, key string, value []byte) error {
	current := o.model[key]
	var err, want error
	switch o.random.IntN(5) {
	case 0:
		err = o.store.Put(ctx, key, value, never)
		o.model[key] = value
	case 1:
		err = o.store.Delete(ctx, key)
		o.model[key] = nil
	case 2:
		err = o.store.Swap(ctx, key, current, value, never)
		o.model[key] = value
	case 3:
		err = o.store.Swap(ctx, key, []byte("never there"), value, never)
		want = store.ErrConflict
	case 4:
		var got []byte
		got, err = o.store.Take(ctx, key)
		if current == nil {
			want = store.ErrNotFound
		}
		if !bytes.Equal(got, current) {
			return fmt.Errorf("Take(%s) = %q, want %q", key, got, current)
		}
		o.model[key] = nil
	}
	if !errors.Is(err, want) {
		return fmt.Errorf("write to %s: error %v, want %v", key, err, want)
	}
	return nil
}

// verify compares what the store holds under key with what the owner knows.
func (o *owner) verify(ctx context.Context, key string) error {
	got, err := o.store.Get(ctx, key)
	if o.model[key] == nil {
		if !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("Get(%s) = %q, %v; want ErrNotFound", key, got, err)
		}
		return nil
	}
	if err != nil || !bytes.Equal(got, o.model[key]) {
		return fmt.Errorf("Get(%s) = %q, %v; want %q", key, got, err, o.model[key])
	}
	return nil
}
