package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"authgate/gateway/store"
)

// withdrawalsKey is the store key of what reloads have withdrawn. It is one record,
// which never expires.
const withdrawalsKey = "withdrawals"

// keepWithdrawals is how long a withdrawal counts for an instance that is not
// reloaded.
const keepWithdrawals = 365 * 24 * time.Hour

// Kinds of accounts, which may have the same names.
const (
	KindLocal = "local"
	KindBasic = "basic"
)

// Withdrawals are what reloads have taken from accounts: the account itself, when it
// was removed, disabled or given another password, or some of its roles. Each
// instance that shares the store applies those that are later than its own
// configuration. So a user is out on all instances when one of them is reloaded.
type Withdrawals struct {
	raw []byte
	all map[string]withdrawal // by kind and version
}

// withdrawal is what was taken from one account, with the times in nanoseconds of
// Unix time.
type withdrawal struct {
	Gone  int64            `json:"gone,omitempty"` // 0: not
	Roles map[string]int64 `json:"roles,omitempty"`
}

// Change is what a reload does to the accounts of a kind. At a start, Before is
// nil.
type Change struct {
	Kind          string
	Before, After []Account
}

// ReadWithdrawals reads the withdrawals in s.
func ReadWithdrawals(ctx context.Context, s store.Store) (*Withdrawals, error) {
	raw, err := s.Get(ctx, withdrawalsKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("reading what was withdrawn from accounts: %w", err)
	}
	w, err := decodeWithdrawals(raw)
	if err != nil {
		return nil, fmt.Errorf("reading what was withdrawn from accounts: %w", err)
	}
	return w, nil
}

// decodeWithdrawals decodes a record, and no record as no withdrawals.
func decodeWithdrawals(raw []byte) (*Withdrawals, error) {
	w := &Withdrawals{raw: raw, all: map[string]withdrawal{}}
	if raw == nil {
		return w, nil
	}
	if err := json.Unmarshal(raw, &w.all); err != nil {
		return nil, fmt.Errorf("a record in the store is damaged: %w", err)
	}
	return w, nil
}

// Equal reports whether w and other are the same record. A nil *Withdrawals has
// none.
func (w *Withdrawals) Equal(other *Withdrawals) bool {
	return w != nil && other != nil && bytes.Equal(w.raw, other.raw)
}

// Restore stores w again in s, which has lost it.
func (w *Withdrawals) Restore(ctx context.Context, s store.Store) error {
	err := s.Swap(ctx, withdrawalsKey, nil, w.raw, time.Time{})
	if errors.Is(err, store.ErrConflict) {
		return nil // another instance was first
	}
	return err
}

// Missing reports whether the store had no record.
func (w *Withdrawals) Missing() bool { return w.raw == nil }

// UpdateWithdrawals records in s what a reload takes away, and removes what it gives
// back. at is when the new configuration was loaded, by the clock of s.
func UpdateWithdrawals(ctx context.Context, s store.Store, at time.Time, changes ...Change) error {
	err := store.Update(ctx, s, withdrawalsKey, func(raw []byte) (store.Edit, error) {
		w, err := decodeWithdrawals(raw)
		if err != nil {
			return store.Edit{}, err
		}
		for _, c := range changes {
			w.note(at, c)
		}
		w.prune(at)
		value, err := json.Marshal(w.all) // with its keys in order
		if err != nil || bytes.Equal(value, raw) {
			return store.Edit{}, err
		}
		return store.Edit{Value: value}, nil
	})
	if err != nil {
		err = fmt.Errorf("storing what was withdrawn from accounts: %w", err)
	}
	return err
}

// note adds what a change takes away, and removes what it gives back.
func (w *Withdrawals) note(at time.Time, c Change) {
	before, after := byUsername(c.Before), byUsername(c.After)
	for name, old := range before {
		if now := after[name]; now == nil || now.Hash.Encoded() != old.Hash.Encoded() {
			w.add(c.Kind, old, at, nil)
		}
	}
	for name, now := range after {
		old := before[name]
		switch {
		case now.Disabled:
			if old == nil || !old.Disabled {
				w.add(c.Kind, now, at, nil)
			}
			continue
		case c.Before == nil:
			continue // a start gives nothing back: an older configuration may start last
		case old == nil || old.Disabled || now.Hash.Encoded() != old.Hash.Encoded():
			delete(w.all, keyOf(c.Kind, now))
			continue
		}
		if lost := without(old.Roles, now.Roles); len(lost) > 0 {
			w.add(c.Kind, now, at, lost)
		}
		if got := without(now.Roles, old.Roles); len(got) > 0 {
			w.giveBack(c.Kind, now, got)
		}
	}
}

// add notes that an account, or some of its roles, are withdrawn.
func (w *Withdrawals) add(kind string, a *Account, at time.Time, roles []string) {
	key := keyOf(kind, a)
	one := w.all[key]
	if roles == nil {
		one.Gone = at.UnixNano()
	}
	for _, role := range roles {
		if one.Roles == nil {
			one.Roles = map[string]int64{}
		}
		one.Roles[role] = at.UnixNano()
	}
	w.all[key] = one
}

// giveBack notes that roles are not withdrawn any more.
func (w *Withdrawals) giveBack(kind string, a *Account, roles []string) {
	key := keyOf(kind, a)
	one, known := w.all[key]
	if !known {
		return
	}
	for _, role := range roles {
		delete(one.Roles, role)
	}
	if one.Gone == 0 && len(one.Roles) == 0 {
		delete(w.all, key)
	}
}

// prune removes what is too old.
func (w *Withdrawals) prune(now time.Time) {
	old := now.Add(-keepWithdrawals).UnixNano()
	maps.DeleteFunc(w.all, func(_ string, one withdrawal) bool {
		maps.DeleteFunc(one.Roles, func(_ string, at int64) bool { return at < old })
		return one.Gone < old && len(one.Roles) == 0
	})
}

// Apply takes from users, who are of a kind, what was withdrawn since their
// configuration was loaded. It changes the elements of users, and returns what it
// has taken, in order, for operators.
func (w *Withdrawals) Apply(kind string, users []Account, loaded time.Time) (taken []string) {
	since := loaded.UnixNano()
	if !w.any(since) {
		return nil
	}
	for i := range users {
		user := &users[i]
		one := w.all[keyOf(kind, user)]
		if one.Gone >= since && !user.Disabled {
			user.Disabled = true
			taken = append(taken, kind+":"+user.Username)
		}
		lost := slices.DeleteFunc(slices.Clone(user.Roles), func(role string) bool { return one.Roles[role] < since })
		if len(lost) > 0 && !user.Disabled {
			user.Roles = without(user.Roles, lost)
			taken = append(taken, fmt.Sprintf("%s:%s %q", kind, user.Username, lost))
		}
	}
	slices.Sort(taken)
	return taken
}

// any reports whether something was withdrawn since a time.
func (w *Withdrawals) any(since int64) bool {
	for _, one := range w.all {
		if one.Gone >= since {
			return true
		}
		for _, at := range one.Roles {
			if at >= since {
				return true
			}
		}
	}
	return false
}

func keyOf(kind string, a *Account) string {
	return kind + ":" + version(a.Username, a.Hash)
}

func byUsername(users []Account) map[string]*Account {
	all := make(map[string]*Account, len(users))
	for i := range users {
		all[users[i].Username] = &users[i]
	}
	return all
}

// without returns the elements of list that are not in others.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(others, one) })
}
