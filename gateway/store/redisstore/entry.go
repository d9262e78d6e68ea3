package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// An entry is stored as one string: the format, the expiry as 8 bytes in
// big-endian order, and the value.
const (
	format     = 1
	headerSize = 1 + 8
)

// never is the expiry of an entry that stays until it is deleted.
const never int64 = math.MaxInt64

// sweepDelay is how long after its expiry Redis removes an entry. A reader
// compares the expiry with the clock itself, so Redis only frees the memory.
const sweepDelay = time.Minute

var errForeign = errors.New("the value is not one that authgate wrote; give the gateway a key_prefix of its own")

// entry is the content of Redis or the cache under a key. The zero entry means
// that the key has no value.
type entry struct {
	value   []byte // never nil in an entry that exists
	expires int64  // Unix time in nanoseconds, or never
}

func (e entry) live(now int64) bool {
	return e.value != nil && (e.expires == never || now < e.expires)
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

// encode returns the string that is stored for a value.
func encode(value []byte, expires int64) string {
	stored := make([]byte, headerSize, headerSize+len(value))
	stored[0] = format
	binary.BigEndian.PutUint64(stored[1:], uint64(expires))
	return string(append(stored, value...))
}

// decode returns the stored entry. Its value shares the memory of stored.
func decode(stored []byte) (entry, error) {
	if len(stored) < headerSize || stored[0] != format {
		return entry{}, errForeign
	}
	return entry{
		value:   stored[headerSize:len(stored):len(stored)],
		expires: int64(binary.BigEndian.Uint64(stored[1:])),
	}, nil
}

// instant returns a time in the encoding of a stored expiry.
func instant(now int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(now, 0))))
}

// lifetime returns the milliseconds after which Redis removes an entry, or 0 for
// never. It is relative because the clock of the server may differ.
func lifetime(expires, now int64) int64 {
	if expires == never {
		return 0
	}
	return (time.Duration(expires-max(now, 0)) + sweepDelay).Milliseconds()
}
