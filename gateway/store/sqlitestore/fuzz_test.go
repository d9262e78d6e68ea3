package sqlitestore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// FuzzLikeMemory reads its input as a program of store operations and runs it
// on a memory store and on a SQLite store side by side. Every result must be
// the same, and so must be what they hold in the end, read cold.
func FuzzLikeMemory(f *testing.F) {
	f.Add([]byte("put, then get"))
	f.Add([]byte{opPut, 0, 0, opGet, 0, 0, opTake, 0, 0, opGet, 0, 0})
	f.Add([]byte{opSwap, 0, 0, opSwap, 0b100, 0, opSwap, 0b1000, 0, opCount, 0, 0})
	f.Add([]byte{opPut, 1, 3, opAdvance, 1, 0, opGet, 1, 0, opSwap, 1, 0, opSweep, 0, 0, opGet, 1, 0})
	f.Add([]byte{opPut, 2, 1, opPut, 3, 2, opEvict, 2, 0, opGet, 2, 0, opDelete, 3, 0, opCount, 3, 0})

	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	f.Cleanup(func() { _ = memory.Close() })
	sqlite := openTest(f, Options{Now: clock.Now})

	programs := 0
	f.Fuzz(func(t *testing.T, program []byte) {
		programs++
		key := func(selector byte) string { return fmt.Sprintf("%d/%s", programs, fuzzKeys[selector%4]) }
		for step := 0; len(program) >= 3 && step < 64; step++ {
			op, operand, expiry := program[0]%operations, program[1], program[2]
			program = program[3:]
			switch op {
			case opAdvance:
				clock.Advance(time.Duration(operand % 4))
			case opEvict:
				sqlite.cache.evict(key(operand))
			case opSweep:
				wantError(t, "sweep", sqlite.sweepAll(t.Context()), nil)
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
	opCount
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
	case opCount:
		result, err = s.(store.Counter).Count(t.Context(), key)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
		t.Fatalf("operation %d on %q: %v", op, key, err)
	}
	return fmt.Sprintf("%#v, %v", result, err)
}
