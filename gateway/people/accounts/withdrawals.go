package accounts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// withdrawalLife is how long a withdrawal counts for an instance that is not reloaded.
const withdrawalLife = 365 * 24 * time.Hour

// Kinds of accounts, which may have the same names.
const (
	KindLocal = "local"
	KindBasic = "basic"
)

// withdrawal has the times, in nanoseconds of Unix time, at which reloads have withdrawn from one
// account: the account itself, when it was removed, disabled or given another password, or some of
// its roles. Each instance that shares the store applies the withdrawals that are later than its
// own configuration. So a user is out on all instances when one of them is reloaded.
type withdrawal struct {
	Gone  int64            `json:"gone,omitempty"` // 0: not
	Roles map[string]int64 `json:"roles,omitempty"`
	// Until is when the account ends, by the last instance that has recorded it; 0: it does not. Older
	// credentials of the account stay ended, also if no gateway ran at that time.
	Until int64 `json:"until,omitempty"`
}

// withdrawRole notes that a role was withdrawn.
func (w *withdrawal) withdrawRole(role string, at int64) {
	if w.Roles == nil {
		w.Roles = map[string]int64{}
	}
	w.Roles[role] = at
}

// Change is the change of the accounts of a kind by a reload. At a start, Before is nil.
type Change struct {
	Kind          string
	Before, After []Account
}

// decodeWithdrawals decodes the withdrawals, and no record as none.
func decodeWithdrawals(record []byte) (map[string]withdrawal, error) {
	all := map[string]withdrawal{}
	if record == nil {
		return all, nil
	}
	if err := json.Unmarshal(record, &all); err != nil || all == nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, cmp.Or(err, errors.New("null")))
	}
	return all, nil
}

// addWithdrawals adds the withdrawals of a change, and removes those that it takes back.
func (c *Changes) addWithdrawals(at time.Time, change Change) {
	before, after := byUsername(change.Before, at), byUsername(change.After, at)
	for name, old := range before {
		if now := after[name]; now == nil || version(now) != version(old) {
			c.withdraw(change.Kind, old, at, nil)
		}
	}
	for name, now := range after {
		old := before[name]
		switch {
		case now.Disabled:
			if old == nil || !old.Disabled {
				c.withdraw(change.Kind, now, at, nil)
			}
			continue
		case change.Before == nil:
			continue // a start gives nothing back: an older configuration may start last
		case old == nil || old.Disabled || version(now) != version(old):
			c.giveBack(change.Kind, now, nil)
			continue
		}
		if lost := without(old.Roles, now.Roles); len(lost) > 0 {
			c.withdraw(change.Kind, now, at, lost)
		}
		if got := without(now.Roles, old.Roles); len(got) > 0 {
			c.giveBack(change.Kind, now, got)
		}
	}
}

// withdraw notes that an account, or some of its roles, are withdrawn.
func (c *Changes) withdraw(kind string, a *Account, at time.Time, roles []string) {
	key := keyOf(kind, a)
	one := c.withdrawals[key]
	if roles == nil {
		one.Gone = at.UnixNano()
	}
	for _, role := range roles {
		one.withdrawRole(role, at.UnixNano())
	}
	c.withdrawals[key] = one
}

// giveBack notes that roles are not withdrawn any more; nil: nor is the account.
func (c *Changes) giveBack(kind string, a *Account, roles []string) {
	key := keyOf(kind, a)
	one, known := c.withdrawals[key]
	if !known {
		return
	}
	if roles == nil {
		one.Gone, one.Roles = 0, nil
	}
	for _, role := range roles {
		delete(one.Roles, role)
	}
	c.keep(key, one)
}

// keep keeps a withdrawal if it says something.
func (c *Changes) keep(key string, one withdrawal) {
	c.withdrawals[key] = one
	if one.Gone == 0 && len(one.Roles) == 0 && one.Until == 0 {
		delete(c.withdrawals, key)
	}
}

// hasEnded reports whether an account that is as it is since a time has ended later, by the record.
func (c *Changes) hasEnded(a *Account, since int64, now time.Time) bool {
	until := c.withdrawals[keyOf(KindLocal, a)].Until
	return until != 0 && since <= until && until <= now.UnixNano()
}

// recordEnds records when accounts end. all tells that there are no others.
func (c *Changes) recordEnds(a *Set, all bool) {
	if all {
		for key, one := range c.withdrawals {
			one.Until = 0
			c.keep(key, one)
		}
	}
	for account := range a.Everyone() {
		key := keyOf(KindLocal, account)
		one := c.withdrawals[key]
		one.Until = 0
		if end := endOf(account.Until); !end.IsZero() && end.Year() < 2200 { // later ones do not fit the number
			one.Until = 1
			if end.Unix() > 0 {
				one.Until = end.UnixNano()
			}
		}
		c.keep(key, one)
	}
}

// prune removes withdrawals that are too old.
func (c *Changes) prune(now time.Time) {
	old := now.Add(-withdrawalLife).UnixNano()
	maps.DeleteFunc(c.withdrawals, func(_ string, one withdrawal) bool {
		maps.DeleteFunc(one.Roles, func(_ string, at int64) bool { return at < old })
		return one.Gone < old && len(one.Roles) == 0 && one.Until == 0
	})
}

// Apply withdraws from users, who are of a kind, the accounts and roles that were withdrawn since
// their configuration was loaded. It changes the elements of users, and returns the names of the
// withdrawals, in order, for operators.
func (c *Changes) Apply(kind string, users []Account, loaded time.Time) (names []string) {
	since := loaded.UnixNano()
	if !c.hasSince(since) {
		return nil
	}
	for i := range users {
		user := &users[i]
		one := c.withdrawals[keyOf(kind, user)]
		if one.Gone >= since && !user.Disabled {
			user.Disabled = true
			names = append(names, kind+":"+user.Username)
		}
		lost := slices.DeleteFunc(slices.Clone(user.Roles), func(role string) bool { return one.Roles[role] < since })
		if len(lost) > 0 && !user.Disabled {
			user.Roles = without(user.Roles, lost)
			names = append(names, fmt.Sprintf("%s:%s %q", kind, user.Username, lost))
		}
	}
	slices.Sort(names)
	return names
}

// hasSince reports whether something was withdrawn since a time.
func (c *Changes) hasSince(since int64) bool {
	for _, one := range c.withdrawals {
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
	return kind + ":" + version(a)
}

// byUsername returns accounts as they are at a time, so that an end that comes is no change.
func byUsername(users []Account, at time.Time) map[string]*Account {
	all := make(map[string]*Account, len(users))
	for i := range users {
		one := &users[i]
		if !one.Until.IsZero() || one.RoleEnds != nil {
			now := one.At(at)
			one = &now
		}
		all[one.Username] = one
	}
	return all
}

// without returns the elements of list that are not in others.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(others, one) })
}
