package store

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestTableIsAMap compares a table with a map while it grows and shrinks, with
// hashes that all differ, and with hashes that nearly all collide.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	for name, mask := range map[string]uint64{"spread": ^uint64(0), "two hashes": 1 << 63, "at the end": 3 << 32} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var end uint64
			if name == "at the end" {
				end = 0xfffffffc << 32
			}
			hash := func(key []byte) uint64 { return maphash.Bytes(seed, key)&mask | end }
			compareWithMap(t, hash)
		})
	}
}

func compareWithMap(t *testing.T, hash func(key []byte) uint64) {
	random := rand.New(rand.NewPCG(1, 2))
	table, want := table{}, map[string]string{}
	for step, likely := range []int{9, 5, 1, 9, 0} { // of 10 steps, how many add
		for range 3000 {
			key := fmt.Sprint(random.IntN(400))
			value := fmt.Sprint(random.Int())
			found, cell := table.find(hashOf(hash([]byte(key))), []byte(key))
			_, known := want[key]
			switch {
			case known != (found != nil):
				t.Fatalf("find(%q) = %v, and the map has it: %v", key, found, known)
			case random.IntN(10) >= likely:
				if found != nil {
					table.remove(hash, cell)
				}
				delete(want, key)
			case found != nil:
				*found = newSlot([]byte(key), []byte(value), never)
				want[key] = value
			default:
				table.add(hashOf(hash([]byte(key))), newSlot([]byte(key), []byte(value), never))
				want[key] = value
			}
		}
		got := map[string]string{}
		for i := range table.length {
			s := table.slot(i)
			got[string(s.key())] = string(s.value())
		}
		if !maps.Equal(got, want) || len(got) != table.length {
			t.Fatalf("after phase %d: the table has %d entries and walks %d, the map has %d", step, table.length, len(got), len(want))
		}
	}
	for key := range want {
		_, cell := table.find(hashOf(hash([]byte(key))), []byte(key))
		table.remove(hash, cell)
	}
	if table.length != 0 || len(table.chunks) != 0 || len(table.index) > leastCells {
		t.Errorf("an empty table keeps %d entries, %d chunks and %d cells", table.length, len(table.chunks), len(table.index))
	}
}
