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

// epochsKey is the store key of the epochs of all accounts. They are one record,
// which never expires.
const epochsKey = "accounts"

// epochs has the beginning of each account's epoch, in nanoseconds of Unix time.
// An epoch is a period in which an account does not change. Only logins that began
// in the account's current epoch count. So when an account is removed, disabled or
// given another password, its logins stay ended even if it comes back unchanged.
type epochs map[fingerprint]int64

// fingerprint is the beginning of an account's version, which comes from its user
// name and its password hash. Two of a million accounts share one with a
// probability of 1 in 30 million, and then only their epochs.
type fingerprint [8]byte

func (a *Account) fingerprint() fingerprint { return fingerprintOf(a.version) }

// fingerprintOf returns the fingerprint of a version, a base64 text.
func fingerprintOf(version string) (f fingerprint) {
	// A version of 16 bytes cannot fail. A shorter one gets the zero fingerprint.
	if sum, err := base64.RawURLEncoding.DecodeString(version); err == nil {
		copy(f[:], sum)
	}
	return f
}

// UpdateEpochs compares the accounts with the epochs in s, begins new epochs for
// those that have changed, and stores the result. It must be called once, before
// the accounts are used, unless Known reports false after an error. now is the time by
// the clock of s.
func (a *Set) UpdateEpochs(ctx context.Context, s store.Store, now time.Time) error {
	return a.storeEpochs(ctx, s, now, nil, false)
}

// ReplaceEpochs is UpdateEpochs for accounts that take the place of the accounts running.
// If s does not answer, those that stay the same keep their epochs.
func (a *Set) ReplaceEpochs(ctx context.Context, s store.Store, now time.Time, running *Set) error {
	return a.storeEpochs(ctx, s, now, running, false)
}

// AdoptEpochs is UpdateEpochs for the accounts of the configuration that runs with
// the accounts running. The record keeps the epochs of accounts that only other
// instances have. An account that is not in it keeps the epoch that it has in
// running, because another instance may not know it.
func (a *Set) AdoptEpochs(ctx context.Context, s store.Store, now time.Time, running *Set) error {
	return a.storeEpochs(ctx, s, now, running, true)
}

// Known reports whether the accounts have their epochs: also if these could not be
// stored. Then Stored reports false, and ReplaceEpochs of the next accounts stores them.
func (a *Set) Known() bool { return a != nil && a.known }

// Stored reports whether the record in the store agrees with the accounts.
func (a *Set) Stored() bool { return a.Known() && a.ended == nil }

func (a *Set) storeEpochs(ctx context.Context, s store.Store, now time.Time, running *Set, adopt bool) error {
	if !running.Known() {
		running = nil
	}
	var value []byte
	err := store.Update(ctx, s, epochsKey, func(raw []byte) (store.Edit, error) {
		today, err := a.compareEpochs(raw, now, running, adopt)
		if err != nil {
			return store.Edit{}, err
		}
		if value = today.encode(); bytes.Equal(value, raw) {
			return store.Edit{}, nil
		}
		return store.Edit{Value: value}, nil
	})
	if err != nil {
		a.keepEpochs(now, running)
		return fmt.Errorf("storing the account epochs: %w", err)
	}
	a.epochs.Store(&value)
	a.ended = nil
	return nil
}

// keepEpochs continues without the store: what has ended stays in memory until the record
// knows it.
func (a *Set) keepEpochs(now time.Time, running *Set) {
	if running == nil {
		return
	}
	if a.ended == nil {
		a.ended = epochs{}
	}
	for f, at := range running.ended {
		a.ended[f] = max(a.ended[f], at)
	}
	stays := make(map[fingerprint]bool, a.Len())
	for _, account := range a.All() {
		stays[account.fingerprint()] = true
		if a.known {
			continue
		}
		account.epoch = now
		if same, ok := running.unchanged(account); ok {
			account.epoch = same.epoch
		}
	}
	for _, account := range running.All() {
		if f := account.fingerprint(); !stays[f] {
			a.ended[f] = now.UnixNano()
		}
	}
	a.known = true
}

// unchanged returns the account of the same name and version.
func (a *Set) unchanged(account *Account) (*Account, bool) {
	same, ok := a.Lookup(account.Username)
	return same, ok && same.version == account.version
}

// FollowEpochs compares the accounts with the epochs in s, which may have lost data.
// If there are none, it stores those of the accounts again. It reports whether an
// account that has not changed has another epoch there: then other instances accept
// other logins than this one, until it calls UpdateEpochs for a new Set. It does
// not decode a record that is the one of the last call, and does nothing for accounts
// that are not stored.
func (a *Set) FollowEpochs(ctx context.Context, s store.Store) (moved bool, err error) {
	if !a.Stored() {
		return false, nil
	}
	raw, err := readEpochs(ctx, s)
	if err != nil {
		return false, err
	}
	if known := a.epochs.Load(); raw == nil && known != nil {
		err := s.Swap(ctx, epochsKey, nil, *known, time.Time{})
		if errors.Is(err, store.ErrConflict) {
			return false, nil // another instance was first; the next call compares
		}
		return false, err
	}
	if known := a.epochs.Load(); known != nil && bytes.Equal(*known, raw) {
		return false, nil
	}
	stored, err := decodeEpochs(raw)
	if err != nil {
		return false, fmt.Errorf("reading the account epochs: %w", err)
	}
	for _, account := range a.All() {
		if since, known := stored[account.fingerprint()]; known && since != account.epoch.UnixNano() {
			return true, nil
		}
	}
	a.epochs.Store(&raw)
	return false, nil
}

// readEpochs returns the record of the epochs, nil if there is none.
func readEpochs(ctx context.Context, s store.Store) ([]byte, error) {
	raw, err := s.Get(ctx, epochsKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("reading the account epochs: %w", err)
	}
	return raw, nil
}

// compareEpochs gives the accounts their epochs by the record in the store, and returns
// those that the record must have.
func (a *Set) compareEpochs(raw []byte, now time.Time, running *Set, adopt bool) (epochs, error) {
	before, err := decodeEpochs(raw)
	if err != nil {
		return nil, err
	}
	today := make(epochs, a.Len())
	if adopt {
		maps.Copy(today, before)
	}
	for _, account := range a.All() {
		f := account.fingerprint()
		since, known := before[f]
		if known && running != nil && since <= running.ended[f] {
			known = false // it has ended here since, which the record does not know yet
		}
		same, runs := running.unchanged(account)
		switch {
		case known:
		case runs && !running.Stored():
			since = same.epoch.UnixNano()
		case runs && adopt && before != nil:
			account.epoch = same.epoch
			continue
		default:
			since = now.UnixNano()
		}
		account.epoch = time.Unix(0, since)
		today[f] = since
	}
	a.known, a.ended = true, epochs{}
	for f := range before {
		if _, stays := today[f]; !stays {
			a.ended[f] = now.UnixNano()
		}
	}
	return today, nil
}

// epochsMark begins a record of epochs.
const epochsMark = "E1\n"

// encode returns the record: the mark, and for each point in time, in order, the
// time, the number of accounts, and their fingerprints, in order. All numbers have
// 8 bytes. A record of 100,000 accounts has 800 kB, so that the caches of the
// stores keep it. Equal epochs are equal bytes.
func (e epochs) encode() []byte {
	all := slices.SortedFunc(maps.Keys(e), func(a, b fingerprint) int {
		return cmp.Or(cmp.Compare(e[a], e[b]), bytes.Compare(a[:], b[:]))
	})
	record := append(make([]byte, 0, len(epochsMark)+16+len(fingerprint{})*len(all)), epochsMark...)
	for len(all) > 0 {
		since := e[all[0]]
		n := slices.IndexFunc(all, func(f fingerprint) bool { return e[f] != since })
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

var errDamagedEpochs = errors.New("a record in the store is damaged")

// decodeEpochs decodes a record, and no record as no epochs.
func decodeEpochs(record []byte) (epochs, error) {
	if len(record) == 0 {
		return nil, nil
	}
	rest, ok := bytes.CutPrefix(record, []byte(epochsMark))
	if !ok {
		return decodeOldEpochs(record)
	}
	e := make(epochs, len(rest)/8)
	for len(rest) > 0 {
		if len(rest) < 16 {
			return nil, errDamagedEpochs
		}
		since, n := int64(binary.BigEndian.Uint64(rest)), binary.BigEndian.Uint64(rest[8:])
		rest = rest[16:]
		if n > uint64(len(rest)/8) {
			return nil, errDamagedEpochs
		}
		for range n {
			e[fingerprint(rest[:8])] = since
			rest = rest[8:]
		}
	}
	return e, nil
}

// decodeOldEpochs decodes a record of the first kind: JSON, with the version of
// each account by its user name.
func decodeOldEpochs(record []byte) (epochs, error) {
	var old map[string]struct {
		Version string    `json:"version"`
		Since   time.Time `json:"since"`
	}
	if err := json.Unmarshal(record, &old); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamagedEpochs, err)
	}
	e := make(epochs, len(old))
	for _, one := range old {
		e[fingerprintOf(one.Version)] = one.Since.UnixNano()
	}
	return e, nil
}
