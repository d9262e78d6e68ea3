package store

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

const (
	// slotsOfChunk is the number of slots that are allocated together.
	slotsOfChunk = 64
	// leastCells is the size of the smallest index.
	leastCells = 16
	// never is the expiry of an entry that stays until it is deleted.
	never int64 = math.MaxInt64
)

// table is a map from keys to values with an expiry. A map of Go takes twice the
// memory, and cannot be walked in steps while it changes.
//
// The entries are in slots without gaps: the last one moves into the place of one
// that is removed. A walk from the last slot to the first therefore visits every
// entry that exists from its beginning to its end, also if entries come and go on
// the way. index finds the slot of a key by open addressing with linear probing.
// A cell holds a part of the key's hash, so that the index can grow without
// reading the keys.
type table struct {
	index  []uint64 // hash<<32 | number of the slot + 1; 0: free
	chunks []*[slotsOfChunk]slot
	length int
}

// slot is one entry. Its data are the length of the packed key as a uvarint, that key
// and the value: one allocation. They never change, because callers hold parts of
// them.
type slot struct {
	data    []byte
	expires int64 // Unix time in nanoseconds, or never
}

func (s *slot) key() []byte {
	length, n := binary.Uvarint(s.data)
	return s.data[n : n+int(length)]
}

func (s *slot) value() []byte {
	length, n := binary.Uvarint(s.data)
	return s.data[n+int(length) : len(s.data) : len(s.data)]
}

func (s *slot) expired(now int64) bool { return s.expires != never && now >= s.expires }

// expiry returns the time of the expiry, zero for never.
func (s *slot) expiry() time.Time {
	if s.expires == never {
		return time.Time{}
	}
	return time.Unix(0, s.expires)
}

// newSlot returns an entry with copies of key and value.
func newSlot(key, value []byte, expires int64) slot {
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(key)))
	data := make([]byte, 0, n+len(key)+len(value))
	data = append(append(append(data, head[:n]...), key...), value...)
	return slot{data: data, expires: expires}
}

// unixNano converts an expiry. A time after 2262, the last year that an int64 can
// hold, becomes never, and a time before 1970 becomes 1970.
func unixNano(t time.Time) int64 {
	switch {
	case t.IsZero(), t.After(time.Unix(0, never)):
		return never
	case t.Before(time.Unix(0, 0)):
		return 0
	}
	return t.UnixNano()
}

// slot returns the entry with a number from 0 to length-1.
func (t *table) slot(number int) *slot { return &t.chunks[number/slotsOfChunk][number%slotsOfChunk] }

// home returns the cell at which the search for a hash begins.
func (t *table) home(hash uint32) int { return int(uint64(hash) * uint64(len(t.index)) >> 32) }

// next returns the cell after cell.
func (t *table) next(cell int) int {
	if cell++; cell < len(t.index) {
		return cell
	}
	return 0
}

// find returns the entry of key, which may have expired, and the cell that leads
// to it. It returns nil if there is none.
func (t *table) find(hash uint32, key []byte) (found *slot, cell int) {
	if t.length == 0 {
		return nil, 0
	}
	for cell = t.home(hash); t.index[cell] != 0; cell = t.next(cell) {
		if uint32(t.index[cell]>>32) != hash {
			continue
		}
		if s := t.slot(number(t.index[cell])); bytes.Equal(s.key(), key) {
			return s, cell
		}
	}
	return nil, cell
}

// number returns the number of the slot that a cell leads to.
func number(cell uint64) int { return int(uint32(cell)) - 1 }

// add adds an entry whose key has none yet.
func (t *table) add(hash uint32, added slot) {
	if (t.length+1)*5 > len(t.index)*4 {
		t.resize(max(leastCells, len(t.index)+len(t.index)/8))
	}
	if t.length == len(t.chunks)*slotsOfChunk {
		t.chunks = append(t.chunks, new([slotsOfChunk]slot))
	}
	*t.slot(t.length) = added
	t.length++
	t.point(hash, t.length)
}

// point stores in the first free cell for hash the number of a slot, plus one.
func (t *table) point(hash uint32, to int) {
	cell := t.home(hash)
	for t.index[cell] != 0 {
		cell = t.next(cell)
	}
	t.index[cell] = uint64(hash)<<32 | uint64(to)
}

// remove removes the entry that a cell leads to. hash returns the hash of a key.
func (t *table) remove(hash func(key []byte) uint64, cell int) {
	gone, last := number(t.index[cell]), t.length-1
	if gone != last {
		moved := t.slot(last)
		for at := t.home(hashOf(hash(moved.key()))); ; at = t.next(at) {
			if number(t.index[at]) == last {
				t.index[at] = t.index[at]>>32<<32 | uint64(gone+1)
				break
			}
		}
		*t.slot(gone) = *moved
	}
	*t.slot(last) = slot{}
	t.length--
	if last%slotsOfChunk == 0 {
		t.chunks[len(t.chunks)-1] = nil
		t.chunks = t.chunks[:len(t.chunks)-1]
	}
	t.vacate(cell)
	if len(t.index) > leastCells && t.length*4 < len(t.index) {
		t.resize(max(leastCells, t.length*3/2))
	}
}

// vacate frees a cell, and moves those behind it that would not be found any more.
func (t *table) vacate(free int) {
	for cell := t.next(free); t.index[cell] != 0; cell = t.next(cell) {
		home := t.home(uint32(t.index[cell] >> 32))
		if t.distance(home, cell) >= t.distance(free, cell) {
			t.index[free] = t.index[cell]
			free = cell
		}
	}
	t.index[free] = 0
}

// distance returns how many cells to is behind from.
func (t *table) distance(from, to int) int {
	if to -= from; to < 0 {
		return to + len(t.index)
	}
	return to
}

// resize makes an index of so many cells.
func (t *table) resize(cells int) {
	old := t.index
	t.index = make([]uint64, cells)
	for _, cell := range old {
		if cell != 0 {
			t.point(uint32(cell>>32), int(uint32(cell)))
		}
	}
}

// hashOf returns the part of a key's hash that the index uses. The other part
// chooses the shard.
func hashOf(hash uint64) uint32 { return uint32(hash >> 32) }
