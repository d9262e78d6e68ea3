package accounts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"authgate/gateway/store"
)

// changesKey is the store key of Changes. They are one record, which never expires.
const changesKey = "changes"

// Changes are how accounts have changed, as the store knows it.
type Changes struct {
	stored      []byte                // the record; nil: the store has none
	since       times                 // when each local account changed last; nil: nothing is known
	withdrawals map[string]withdrawal // by kind and version
}

// times has when each account changed last, in nanoseconds of Unix time. Only logins that
// began since then count. So when an account is removed, disabled or given another
// password, its logins stay ended even if it comes back unchanged.
type times map[fingerprint]int64

// fingerprint is the beginning of an account's version, which comes from its user
// name and its password hash. Two of a million accounts share one with a
// probability of 1 in 30 million, and then only the time of their change.
type fingerprint [8]byte

// mark is a version of an account, and since when the account has it.
type mark struct {
	version string
	since   *time.Time
}

// marks returns Version, and LoginVersion if it is another.
func (a *Account) marks() []mark {
	all := []mark{{a.version, &a.changed}}
	if a.proof != a.version {
		all = append(all, mark{a.proof, &a.proven})
	}
	return all
}

// fingerprintOf returns the fingerprint of a version, a base64 text.
func fingerprintOf(version string) (f fingerprint) {
	// A version of 16 bytes cannot fail. A shorter one gets the zero fingerprint.
	if sum, err := base64.RawURLEncoding.DecodeString(version); err == nil {
		copy(f[:], sum)
	}
	return f
}

// Reload describes a reload for RecordChanges.
type Reload struct {
	Now time.Time // by the clock of the store
	// Running are the accounts whose place the new ones take. At a start, it is nil.
	Running *Set
	// Rebuild tells that the configuration of Running stays. Then the record keeps accounts that
	// only other instances have. An account that it does not have stays as it is in Running,
	// because another instance may not know it.
	Rebuild bool
	Changes []Change  // to tell other instances
	Loaded  time.Time // when the configuration was loaded, by the clock of the store
}

// RecordChanges compares the accounts with the record in s, takes over when each changed last, and
// records new changes. It must be called once, before the accounts are used, unless HasTimes
// reports false after an error.
func (a *Set) RecordChanges(ctx context.Context, s store.Store, r Reload) error {
	if !r.Running.HasTimes() {
		r.Running = nil
	}
	var value []byte
	err := store.Update(ctx, s, changesKey, func(raw []byte) (store.Edit, error) {
		c, err := decodeChanges(raw)
		if err != nil {
			return store.Edit{}, err
		}
		c.since = a.setTimes(c, r)
		c.recordEnds(a, !r.Rebuild)
		for _, change := range r.Changes {
			c.addWithdrawals(r.Loaded, change)
		}
		c.prune(r.Now)
		if value, err = c.encode(); err != nil || bytes.Equal(value, raw) {
			return store.Edit{}, err
		}
		return store.Edit{Value: value}, nil
	})
	if err != nil {
		a.setTimesWithoutStore(r.Now, r.Running)
		return fmt.Errorf("storing how accounts have changed: %w", err)
	}
	a.recorded, a.ended = value, nil
	return nil
}

// setTimes gives the accounts the times of their last changes by those in the record,
// and returns the times that the record must have.
func (a *Set) setTimes(c *Changes, r Reload) times {
	before := c.since
	next := make(times, a.Len())
	if r.Rebuild {
		maps.Copy(next, before)
	}
	for _, account := range a.All() {
		for _, m := range account.marks() {
			f := fingerprintOf(m.version)
			since, known := before[f]
			if known && r.Running != nil && since <= r.Running.ended[f] {
				known = false // it has ended here since, which the record does not know yet
			}
			known = known && !c.hasEnded(account, since, r.Now)
			same, runs := r.Running.timeOf(account.Username, m.version)
			switch {
			case known:
			case runs && !r.Running.Stored():
				since = same.UnixNano()
			case runs && r.Rebuild && before != nil:
				*m.since = same
				continue
			default:
				since = r.Now.UnixNano()
			}
			*m.since = time.Unix(0, since)
			next[f] = since
		}
	}
	a.hasTimes, a.ended = true, times{}
	for f := range before {
		if _, stays := next[f]; !stays {
			a.ended[f] = r.Now.UnixNano()
		}
	}
	return next
}

// setTimesWithoutStore gives the accounts the times that they have in running. The ends of accounts
// stay in memory until the record has them.
func (a *Set) setTimesWithoutStore(now time.Time, running *Set) {
	if running == nil {
		return
	}
	if a.ended == nil {
		a.ended = times{}
	}
	for f, at := range running.ended {
		a.ended[f] = max(a.ended[f], at)
	}
	stays := make(map[fingerprint]bool, a.Len())
	for _, account := range a.All() {
		for _, m := range account.marks() {
			stays[fingerprintOf(m.version)] = true
			if a.hasTimes {
				continue
			}
			*m.since = now
			if same, ok := running.timeOf(account.Username, m.version); ok {
				*m.since = same
			}
		}
	}
	for _, account := range running.All() {
		for _, m := range account.marks() {
			if f := fingerprintOf(m.version); !stays[f] {
				a.ended[f] = now.UnixNano()
			}
		}
	}
	a.hasTimes = true
}

// HasTimes reports whether it is known when the accounts changed last: also if that could not
// be stored. Then Stored reports false, and RecordChanges of the next accounts stores it.
func (a *Set) HasTimes() bool { return a != nil && a.hasTimes }

// Stored reports whether the record in the store agrees with the accounts.
func (a *Set) Stored() bool { return a.HasTimes() && a.ended == nil }

// timeOf returns since when the account of that name has a version, or false if it has another.
func (a *Set) timeOf(username, version string) (time.Time, bool) {
	if account, ok := a.Lookup(username); ok {
		for _, m := range account.marks() {
			if m.version == version {
				return *m.since, true
			}
		}
	}
	return time.Time{}, false
}

// ReadChanges reads the record in s.
func ReadChanges(ctx context.Context, s store.Store) (*Changes, error) {
	record, err := readRecord(ctx, s)
	if err == nil {
		var c *Changes
		if c, err = decodeChanges(record); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("reading how accounts have changed: %w", err)
}

// readRecord returns the record of Changes in s, nil if there is none.
func readRecord(ctx context.Context, s store.Store) ([]byte, error) {
	record, err := s.Get(ctx, changesKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return record, err
}

// FollowChanges returns the changes in s, nil if they are those of the last Agree. If s has
// lost the record, it gets it again.
func (a *Set) FollowChanges(ctx context.Context, s store.Store) (*Changes, error) {
	record, err := readRecord(ctx, s)
	if err != nil {
		return nil, err
	}
	if agreed := a.agreed.Load(); agreed != nil && (*agreed == nil) == (record == nil) && bytes.Equal(*agreed, record) {
		return nil, nil
	}
	if known := a.lastRecord(); record == nil && known != nil {
		err := s.Swap(ctx, changesKey, nil, known, time.Time{})
		if errors.Is(err, store.ErrConflict) {
			return nil, nil // another instance was first; the next call compares
		}
		return nil, err
	}
	return decodeChanges(record)
}

// Agree tells that nothing in c changes the accounts: FollowChanges returns nil until the store has
// another record.
func (a *Set) Agree(c *Changes) { a.agreed.Store(&c.stored) }

// lastRecord returns the record that was seen last, nil if there was none.
func (a *Set) lastRecord() []byte {
	if agreed := a.agreed.Load(); agreed != nil && *agreed != nil {
		return *agreed
	}
	return a.recorded
}

// Disagrees reports whether an account that has not changed here has changed by c: the store
// has lost data, and another instance has begun anew. Then other instances accept other
// logins than this one, until it calls RecordChanges for a new Set.
func (a *Set) Disagrees(c *Changes) bool {
	if !a.Stored() {
		return false
	}
	for _, account := range a.All() {
		for _, m := range account.marks() {
			if since, known := c.since[fingerprintOf(m.version)]; known && since != m.since.UnixNano() {
				return true
			}
		}
	}
	return false
}

// changesMark begins a record of Changes.
const changesMark = "C1\n"

// encode returns the record: the mark, the withdrawals as a line of JSON, and the times. Equal
// changes are equal bytes.
func (c *Changes) encode() ([]byte, error) {
	line, err := json.Marshal(c.withdrawals) // with its keys in order
	if err != nil {
		return nil, err
	}
	return c.since.append(slices.Concat([]byte(changesMark), line, []byte("\n"))), nil
}

// append appends for each point in time, in order, the time, the number of accounts,
// and their fingerprints, in order. All numbers have 8 bytes. The times of 100,000
// accounts have 800 kB, so that the caches of the stores keep them.
func (t times) append(record []byte) []byte {
	all := slices.SortedFunc(maps.Keys(t), func(a, b fingerprint) int {
		return cmp.Or(cmp.Compare(t[a], t[b]), bytes.Compare(a[:], b[:]))
	})
	record = slices.Grow(record, 16+len(fingerprint{})*len(all))
	for len(all) > 0 {
		since := t[all[0]]
		n := slices.IndexFunc(all, func(f fingerprint) bool { return t[f] != since })
		if n < 0 {
			n = len(all)
		}
		record = binary.BigEndian.AppendUint64(record, uint64(since))
		record = binary.BigEndian.AppendUint64(record, uint64(n))
		for _, f := range all[:n] {
			record = append(record, f[:]...)
		}
		all = all[n:]
	}
	return record
}

var errDamaged = errors.New("a record in the store is damaged")

// decodeChanges decodes a record, and no record as nothing.
func decodeChanges(record []byte) (*Changes, error) {
	c := &Changes{stored: record, withdrawals: map[string]withdrawal{}}
	if record == nil {
		return c, nil
	}
	rest, marked := bytes.CutPrefix(record, []byte(changesMark))
	line, encoded, ended := bytes.Cut(rest, []byte("\n"))
	if !marked || !ended {
		return nil, errDamaged
	}
	var err error
	if c.withdrawals, err = decodeWithdrawals(line); err != nil {
		return nil, err
	}
	if c.since, err = decodeTimes(encoded); err != nil {
		return nil, err
	}
	return c, nil
}

// decodeTimes is the inverse of append.
func decodeTimes(rest []byte) (times, error) {
	t := make(times, len(rest)/8)
	for len(rest) > 0 {
		if len(rest) < 16 {
			return nil, errDamaged
		}
		since, n := int64(binary.BigEndian.Uint64(rest)), binary.BigEndian.Uint64(rest[8:])
		rest = rest[16:]
		if n > uint64(len(rest)/8) {
			return nil, errDamaged
		}
		for range n {
			t[fingerprint(rest[:8])] = since
			rest = rest[8:]
		}
	}
	return t, nil
}
