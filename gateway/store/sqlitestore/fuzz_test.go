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
		m := &machine{clock: clock, sqlite: sqlite, namespace: fmt.Sprintf("%d/", programs)}
		for step := 0; len(program) >= 3 && step < 64; step++ {
			op, operand, expiry := program[0], program[1], program[2]
			program = program[3:]
			want := m.run(t, memory, op, operand, expiry)
			if got := m.run(t, sqlite, op, operand, expiry); got != want {
				t.Fatalf("step %d (%d %d %d): sqlite says %s, memory says %s", step, op, operand, expiry, got, want)
			}
			m.control(t, op, operand)
		}
		for key := range byte(len(fuzzKeys)) {
			m.control(t, opEvict, key)
			if got, want := m.run(t, sqlite, opGet, key, 0), m.run(t, memory, opGet, key, 0); got != want {
				t.Fatalf("in the end, key %q: sqlite holds %s, memory holds %s", fuzzKeys[key], got, want)
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

// machine runs operations within a part of the key space of its own.
type machine struct {
	clock     *clocktest.Clock
	sqlite    *Store
	namespace string
}

// run does one operation on s and tells its result in words. The two low
// bits of operand select the key, the next ones the old and the new value.
func (m *machine) run(t *testing.T, s store.Store, op, operand, expiry byte) string {
	now := m.clock.Now()
	expires := []time.Time{
		{}, now.Add(-1), now, now.Add(1), now.Add(2), now.Add(time.Hour),
		time.Unix(0, 0), time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC),
	}[expiry%8]
	key := m.namespace + fuzzKeys[operand&3]
	old, value := fuzzValues[operand>>2&3], fuzzValues[operand>>4&3]
	var result any
	var err error
	switch op % operations {
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
	switch {
	case err == nil:
		return fmt.Sprintf("%#v", result)
	case errors.Is(err, store.ErrNotFound):
		return "not found"
	case errors.Is(err, store.ErrConflict):
		return "conflict"
	default:
		t.Fatalf("operation %d on %q: %v", op, key, err)
		return ""
	}
}

// control does what concerns both stores, or the SQLite store alone.
func (m *machine) control(t *testing.T, op, operand byte) {
	switch op % operations {
	case opAdvance:
		m.clock.Advance(time.Duration(operand % 4))
	case opEvict:
		m.sqlite.cache.evict(m.namespace + fuzzKeys[operand&3])
	case opSweep:
		if err := m.sqlite.sweepAll(t.Context()); err != nil {
			t.Fatalf("sweep: %v", err)
		}
	}
}
