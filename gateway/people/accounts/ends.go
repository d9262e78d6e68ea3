package accounts

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// WrittenRole is a role as YAML has it: the name, or a mapping.
type WrittenRole struct {
	Name   string
	Ending *Role
}

// Role is a role of an account. Until is when it ends; zero: never.
type Role struct {
	Name  string    `yaml:"name"`
	Until time.Time `yaml:"until"`
}

// endless is the first year in which nothing ends.
const endless = 9999

// ParseTime reads an end: a time of RFC 3339, with an offset.
func ParseTime(text string) (at time.Time, err error) {
	text = strings.ToUpper(text) // t and z are the same as T and Z
	if err := at.UnmarshalText([]byte(text)); err != nil || isLax(text) {
		return time.Time{}, errors.New("expected a time with an offset, like 2026-12-04T18:00:00Z or " +
			"2026-12-04T19:00:00+01:00")
	}
	if at.IsZero() {
		at = at.Add(1) // the year 1 has ended, and zero is no end
	}
	return at, nil
}

// isLax reports whether a time in upper case that package time reads is none of RFC 3339: the hour has one digit,
// a comma is before the fraction, or the offset has 24 hours or 60 minutes.
func isLax(text string) bool {
	return text[len("2026-12-04T8")] == ':' || strings.HasSuffix(text, ":60") ||
		slices.ContainsFunc([]string{",", "+24:", "-24:"}, func(lax string) bool { return strings.Contains(text, lax) })
}

// Declare adds the types of ends and roles to the options of a reader of files.
func Declare(o *strictyaml.Options) {
	role := reflect.TypeFor[WrittenRole]()
	if o.Parse == nil {
		o.Parse = map[reflect.Type]func(path, value string) (any, error){}
	}
	if o.Either == nil {
		o.Either = map[reflect.Type]string{}
	}
	o.Parse[reflect.TypeFor[time.Time]()] = func(_, value string) (any, error) { return ParseTime(value) }
	o.Either[role] = "a role, or one with its end like {name: admin, until: 2026-12-04T18:00:00Z}"
	o.Listed = map[reflect.Type]bool{role: true}
}

// endOf returns an end that may come, or zero: the year 9999 is no end.
func endOf(until time.Time) time.Time {
	if until.Year() >= endless || until.UTC().Year() >= endless {
		return time.Time{}
	}
	return until
}

// hasEnded reports whether an end has come.
func hasEnded(until, now time.Time) bool {
	end := endOf(until)
	return !end.IsZero() && !now.Before(end)
}

// Settle sets the roles and their ends by those that are written.
func Settle(users []Account) {
	for i := range users {
		a := &users[i]
		if a.WrittenRoles == nil {
			continue
		}
		roles := make([]Role, len(a.WrittenRoles))
		for n, written := range a.WrittenRoles {
			roles[n].Name = written.Name
			if written.Ending != nil {
				roles[n] = *written.Ending
			}
		}
		a.setRoles(roles)
		a.WrittenRoles = nil
	}
}

// setRoles sets the roles and their ends.
func (a *Account) setRoles(roles []Role) {
	a.Roles, a.RoleEnds = nil, nil
	for _, role := range roles {
		a.Roles = append(a.Roles, role.Name)
		if role.Until.IsZero() {
			continue
		}
		if a.RoleEnds == nil {
			a.RoleEnds = map[string]time.Time{}
		}
		a.RoleEnds[role.Name] = role.Until
	}
}

// rolesWritten returns the roles with their ends.
func (a *Account) rolesWritten() []Role {
	roles := make([]Role, len(a.Roles))
	for i, name := range a.Roles {
		roles[i] = Role{name, a.RoleEnds[name]}
	}
	return roles
}

// RolesText returns the roles with their ends, as YAML has them.
func (a Account) RolesText() string { return style{}.value(reflect.ValueOf(a.rolesWritten())) }

// GiveRoles gives the account those roles in the place of others. The ones that it has keep their ends. Those
// that it does not have, or not any more, end at until; zero: never.
func (a *Account) GiveRoles(names []string, until, now time.Time) {
	roles := make([]Role, len(names))
	for i, name := range names {
		roles[i] = Role{name, until}
		if end := a.RoleEnds[name]; slices.Contains(a.Roles, name) && !hasEnded(end, now) {
			roles[i].Until = end
		}
	}
	a.setRoles(roles)
}

// End returns when the account ends, zero if it does not.
func (a *Account) End() time.Time { return endOf(a.Until) }

// Ended reports whether the account has ended at a time. Then it is as if disabled.
func (a *Account) Ended(now time.Time) bool { return hasEnded(a.Until, now) }

// Current returns the roles that have not ended at a time, and when they and the account end.
func (a *Account) Current(now time.Time) (roles []string, ends policy.Ends) {
	if a.Until.IsZero() && a.RoleEnds == nil {
		return a.Roles, ends
	}
	roles, ends = []string{}, policy.Ends{Account: endOf(a.Until).UTC(), Roles: map[string]time.Time{}}
	for _, role := range a.Roles {
		if end := endOf(a.RoleEnds[role]); end.IsZero() {
			roles = append(roles, role)
		} else if now.Before(end) {
			roles, ends.Roles[role] = append(roles, role), end.UTC()
		}
	}
	return roles, ends
}

// At returns the account as it is at a time, in which nothing ends any more later.
func (a Account) At(now time.Time) Account {
	a.Disabled = a.Disabled || a.Ended(now)
	a.Roles, _ = a.Current(now)
	a.Until, a.RoleEnds = time.Time{}, nil
	return a
}

// PutOff reports whether an account whose end has come here ends later, or never, by the record: another
// instance has a newer configuration.
func (a *Set) PutOff(c *Changes, username string) bool {
	account, ok := a.Find(username)
	if !ok {
		return false
	}
	until := c.withdrawals[keyOf(KindLocal, account)].Until
	return until == 0 || until > a.now().UnixNano()
}

// End is the end of an account, or of one of its roles.
type End struct {
	At       time.Time
	Username string
	Role     string // empty: the account ends
}

// endsOf returns the ends of accounts that may come, in order.
func endsOf(users []Account) (all []End) {
	for i := range users {
		a := &users[i]
		until := endOf(a.Until)
		if a.Disabled {
			continue
		}
		for _, role := range a.Roles {
			if at := endOf(a.RoleEnds[role]); !at.IsZero() && (until.IsZero() || at.Before(until)) {
				all = append(all, End{at, a.Username, role})
			}
		}
		if !until.IsZero() {
			all = append(all, End{until, a.Username, ""})
		}
	}
	slices.SortStableFunc(all, func(a, b End) int { return a.At.Compare(b.At) })
	return all
}

// Ends returns the ends after one time and until another, the latter included, in order.
func (a *Set) Ends(after, until time.Time) (all []End) {
	for _, end := range a.ends {
		if end.At.After(after) && !end.At.After(until) {
			all = append(all, end)
		}
	}
	return all
}
