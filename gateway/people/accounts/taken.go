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

// keepTaken is how long what was taken counts for an instance that is not reloaded.
const keepTaken = 365 * 24 * time.Hour

// Kinds of accounts, which may have the same names.
const (
	KindLocal = "local"
	KindBasic = "basic"
)

// taken is what reloads have taken from one account, with the times in nanoseconds of
// Unix time: the account itself, when it was removed, disabled or given another password,
// or some of its roles. Each instance that shares the store applies what is later than its
// own configuration. So a user is out on all instances when one of them is reloaded.
type taken struct {
	Gone  int64            `json:"gone,omitempty"` // 0: not
	Roles map[string]int64 `json:"roles,omitempty"`
}

// take notes that a role was taken.
func (t *taken) take(role string, at int64) {
	if t.Roles == nil {
		t.Roles = map[string]int64{}
	}
	t.Roles[role] = at
}

// Change is what a reload does to the accounts of a kind. At a start, Before is
// nil.
type Change struct {
	Kind          string
	Before, After []Account
}

// decodeTaken decodes what was taken, and no record as nothing.
func decodeTaken(record []byte) (map[string]taken, error) {
	all := map[string]taken{}
	if record == nil {
		return all, nil
	}
	if err := json.Unmarshal(record, &all); err != nil || all == nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, cmp.Or(err, errors.New("null")))
	}
	return all, nil
}

// note adds what a change takes away, and removes what it gives back.
func (c *Changes) note(at time.Time, change Change) {
	before, after := byUsername(change.Before), byUsername(change.After)
	for name, old := range before {
		if now := after[name]; now == nil || version(now) != version(old) {
			c.take(change.Kind, old, at, nil)
		}
	}
	for name, now := range after {
		old := before[name]
		switch {
		case now.Disabled:
			if old == nil || !old.Disabled {
				c.take(change.Kind, now, at, nil)
			}
			continue
		case change.Before == nil:
			continue // a start gives nothing back: an older configuration may start last
		case old == nil || old.Disabled || version(now) != version(old):
			delete(c.taken, keyOf(change.Kind, now))
			continue
		}
		if lost := without(old.Roles, now.Roles); len(lost) > 0 {
			c.take(change.Kind, now, at, lost)
		}
		if got := without(now.Roles, old.Roles); len(got) > 0 {
			c.giveBack(change.Kind, now, got)
		}
	}
}

// take notes that an account, or some of its roles, are taken.
func (c *Changes) take(kind string, a *Account, at time.Time, roles []string) {
	key := keyOf(kind, a)
	one := c.taken[key]
	if roles == nil {
		one.Gone = at.UnixNano()
	}
	for _, role := range roles {
		one.take(role, at.UnixNano())
	}
	c.taken[key] = one
}

// giveBack notes that roles are not taken any more.
func (c *Changes) giveBack(kind string, a *Account, roles []string) {
	key := keyOf(kind, a)
	one, known := c.taken[key]
	if !known {
		return
	}
	for _, role := range roles {
		delete(one.Roles, role)
	}
	if one.Gone == 0 && len(one.Roles) == 0 {
		delete(c.taken, key)
	}
}

// prune removes what is too old.
func (c *Changes) prune(now time.Time) {
	old := now.Add(-keepTaken).UnixNano()
	maps.DeleteFunc(c.taken, func(_ string, one taken) bool {
		maps.DeleteFunc(one.Roles, func(_ string, at int64) bool { return at < old })
		return one.Gone < old && len(one.Roles) == 0
	})
}

// Apply takes from users, who are of a kind, what was taken since their
// configuration was loaded. It changes the elements of users, and returns what it
// has taken, in order, for operators.
func (c *Changes) Apply(kind string, users []Account, loaded time.Time) (names []string) {
	since := loaded.UnixNano()
	if !c.any(since) {
		return nil
	}
	for i := range users {
		user := &users[i]
		one := c.taken[keyOf(kind, user)]
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

// any reports whether something was taken since a time.
func (c *Changes) any(since int64) bool {
	for _, one := range c.taken {
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
