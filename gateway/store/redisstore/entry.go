package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// An entry is stored as one string: the format, the expiry as 8 bytes
// big-endian, and then the value as it is.
const (
	format     = 1
	headerSize = 1 + 8
)

// never is the expiry of an entry that stays until it is deleted.
const never int64 = math.MaxInt64

// sweepDelay is how long after its expiry Redis removes an entry. Who asks
// for it meanwhile sees the expiry and takes it for dead, by the same clock
// that the expiry was made from; Redis only clears away.
const sweepDelay = time.Minute

var errForeign = errors.New("the value is not one that authgate wrote; give the gateway a key_prefix of its own")

// entry is what Redis or the cache holds under a key. The zero entry says
// that the key has no value.
type entry struct {
	value   []byte // never nil in an entry that exists
	expires int64  // Unix time in nanoseconds, or never
}

func (e entry) live(now int64) bool {
	return e.value != nil && (e.expires == never || now < e.expires)
}

// unixNano converts an expiry. What lies after 2262, the last year that an
// int64 can hold, does not expire, and what lies before 1970 is as old as that.
func unixNano(t time.Time) int64 {
	switch {
	case t.IsZero(), t.After(time.Unix(0, never)):
		return never
	case t.Before(time.Unix(0, 0)):
		return 0
	}
	return t.UnixNano()
}

// encode returns what is stored for a value.
func encode(value []byte, expires int64) string {
	stored := make([]byte, headerSize, headerSize+len(value))
	stored[0] = format
	binary.BigEndian.PutUint64(stored[1:], uint64(expires))
	return string(append(stored, value...))
}

// decode returns the entry that was stored, whose value is a part of it.
func decode(stored []byte) (entry, error) {
	if len(stored) < headerSize || stored[0] != format {
		return entry{}, errForeign
	}
	return entry{
		value:   stored[headerSize:len(stored):len(stored)],
		expires: int64(binary.BigEndian.Uint64(stored[1:])),
	}, nil
}

// instant returns a time in the notation of a stored expiry.
func instant(now int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(now, 0))))
}

// lifetime returns the milliseconds after which Redis is to remove an entry,
// or 0 for never. It is a length of time because the clock of the server need
// not agree with ours.
func lifetime(expires, now int64) int64 {
	if expires == never {
		return 0
	}
	return (time.Duration(expires-max(now, 0)) + sweepDelay).Milliseconds()
}
