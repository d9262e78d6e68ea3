package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"authgate/gateway/store"
)

// Store keys of the two records that builds before 26 November 2026 have in the place of
// Changes. One release reads them: also while instances of both kinds share a store.
const (
	oldTimesKey = "accounts"
	oldTakenKey = "withdrawals"
)

// records are what a store has of Changes, nil for what it does not have.
type records struct{ now, oldTimes, oldTaken []byte }

func (r *records) equal(other records) bool {
	return bytes.Equal(r.now, other.now) && (r.now == nil) == (other.now == nil) &&
		bytes.Equal(r.oldTimes, other.oldTimes) && bytes.Equal(r.oldTaken, other.oldTaken)
}

// readRecords reads the old records first: what an instance takes over from them is then
// in the new one.
func readRecords(ctx context.Context, s store.Store) (r records, err error) {
	if r, err = readOld(ctx, s); err == nil {
		r.now, err = get(ctx, s, changesKey)
	}
	return r, err
}

func readOld(ctx context.Context, s store.Store) (r records, err error) {
	if r.oldTimes, err = get(ctx, s, oldTimesKey); err == nil {
		r.oldTaken, err = get(ctx, s, oldTakenKey)
	}
	return r, err
}

// get returns the value of a key, nil if there is none.
func get(ctx context.Context, s store.Store, key string) ([]byte, error) {
	value, err := s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// decode returns the changes of all records. Beside the new record, the old ones can only
// end more: they make an account change later, and take more from it.
func (r records) decode() (*Changes, error) {
	c, err := decodeChanges(r.now)
	if err != nil {
		return nil, err
	}
	c.stored = r
	since, err := decodeOldTimes(r.oldTimes)
	if err != nil {
		return nil, err
	}
	if r.now == nil {
		c.since = since
	}
	for f, at := range c.since {
		c.since[f] = max(at, since[f])
	}
	old, err := decodeTaken(r.oldTaken)
	if err != nil {
		return nil, err
	}
	for key, one := range old {
		c.taken[key] = c.taken[key].with(one)
		if version, local := strings.CutPrefix(key, KindLocal+":"); local && c.since[fingerprintOf(version)] <= one.Gone {
			delete(c.since, fingerprintOf(version)) // it has ended; if it is back, it has changed
		}
	}
	return c, nil
}

// with returns what was taken by t or by other.
func (t taken) with(other taken) taken {
	both := taken{Gone: max(t.Gone, other.Gone)}
	for _, roles := range []map[string]int64{t.Roles, other.Roles} {
		for role, at := range roles {
			both.take(role, max(at, both.Roles[role]))
		}
	}
	return both
}

// oldTimesMark begins a record of times.
const oldTimesMark = "E1\n"

// decodeOldTimes decodes a record of times, of which there are two kinds, and no record
// as nil.
func decodeOldTimes(record []byte) (times, error) {
	if len(record) == 0 {
		return nil, nil
	}
	if encoded, ok := bytes.CutPrefix(record, []byte(oldTimesMark)); ok {
		return decodeTimes(encoded)
	}
	var old map[string]struct {
		Version string    `json:"version"`
		Since   time.Time `json:"since"`
	}
	if err := json.Unmarshal(record, &old); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	t := make(times, len(old))
	for _, one := range old {
		t[fingerprintOf(one.Version)] = one.Since.UnixNano()
	}
	return t, nil
}
