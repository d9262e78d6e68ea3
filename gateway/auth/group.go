package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"authgate/gateway/store"
)

const (
	// maxGroup is how many live logins a group has; the oldest ends when one
	// more joins.
	maxGroup = 256
	// groupStripes is how many groups can change at once in one instance.
	groupStripes = 64
)

// groups keep together the logins that end together: those of one person,
// and those of one session at a provider.
type groups struct {
	logins *Logins
	// One instance does not get in its own way; others are seen by Swap.
	stripes [groupStripes]sync.Mutex
	seed    maphash.Seed
}

// group is the record of a group. Logins that have ended since may be in it.
type group struct {
	Ended   time.Time `json:"ended,omitzero"` // when all logins of it were ended
	Members []member  `json:"members,omitempty"`
}

type member struct {
	Login   string    `json:"sid"`
	Expires time.Time `json:"expires"`
}

func (m member) same(other member) bool { return m.Login == other.Login }

func newGroups(logins *Logins) *groups { return &groups{logins: logins, seed: maphash.MakeSeed()} }

// groupsOf are the keys of the groups that a login belongs to.
func groupsOf(v *Vouched) []string {
	person := personGroup(v.Provider, v.Issuer, v.User)
	if v.Session == "" {
		return []string{person, unnamedGroup(v.Provider, v.Issuer, v.User)}
	}
	return []string{person, sessionGroup(v.Provider, v.Issuer, v.Session)}
}

func personGroup(name, issuer, sub string) string  { return groupKey("sub", name, issuer, sub) }
func sessionGroup(name, issuer, sid string) string { return groupKey("sid", name, issuer, sid) }

// unnamedGroup holds those logins of a person for which the provider has
// named no session.
func unnamedGroup(name, issuer, sub string) string { return groupKey("unnamed", name, issuer, sub) }

func groupKey(parts ...string) string {
	return groupPrefix + hashed([]byte(strings.Join(parts, "\x00"))) // none of them holds a NUL
}

// join puts login into the group. It is an ErrRejected if the group was ended
// after started: who has signed out does not come back with an older attempt.
func (g *groups) join(ctx context.Context, key string, login *Login, started time.Time) error {
	var over []member
	var refused error
	err := g.change(ctx, key, func(now *group) error {
		refused = nil
		if !now.Ended.IsZero() && !started.After(now.Ended) {
			refused = &Rejection{Detail: DetailNotSignedIn, Reason: "signed out at the provider in the middle of the login"}
			if current := g.logins.now(); isAhead(now.Ended, current) {
				now.Ended = current // the clock was set back: the next attempt counts
				return nil
			}
			return errNothing
		}
		now.Members = slices.DeleteFunc(now.Members, func(m member) bool { return !login.Created.Before(m.Expires) })
		if len(now.Members) >= maxGroup {
			if err := g.forgetEnded(ctx, now); err != nil {
				return err
			}
		}
		now.Members = append(now.Members, member{Login: login.ID, Expires: login.Expires})
		over = now.Members[:max(0, len(now.Members)-maxGroup)]
		now.Members = now.Members[len(over):]
		return nil
	})
	if refused != nil && (err == nil || errors.Is(err, errNothing)) {
		return refused
	}
	if err != nil {
		return err
	}
	for _, m := range over {
		if _, err := g.logins.End(ctx, m.Login); err != nil {
			return err
		}
	}
	return nil
}

// forgetEnded takes the logins off the record that have ended.
func (g *groups) forgetEnded(ctx context.Context, now *group) error {
	var alive []member
	for _, m := range now.Members {
		switch _, err := g.logins.read(ctx, loginPrefix+m.Login); {
		case err == nil:
			alive = append(alive, m)
		case !errors.Is(err, ErrRejected):
			return err
		}
	}
	now.Members = alive
	return nil
}

// end ends all logins of the group, and returns those that were alive. A
// group that nobody has joined is left as it is unless note says that logins
// which are on their way must find it ended. After an error it can be called
// again: the members are taken off the record last.
func (g *groups) end(ctx context.Context, key string, note bool) ([]*Login, error) {
	ctx = store.Ending(ctx)
	var members []member
	err := g.change(ctx, key, func(now *group) error {
		members = now.Members
		if len(members) == 0 && !note {
			return errNothing
		}
		now.Ended = g.logins.now()
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ended []*Login
	for _, m := range members {
		login, err := g.logins.End(ctx, m.Login)
		if err != nil {
			return ended, err
		}
		if login != nil {
			ended = append(ended, login)
		}
	}
	return ended, g.change(ctx, key, func(now *group) error {
		now.Members = slices.DeleteFunc(now.Members, func(m member) bool { return slices.ContainsFunc(members, m.same) })
		return nil
	})
}

// errNothing: there is nothing to change.
var errNothing = errors.New("nothing to change")

// change applies edit to the record of a group, atomically.
func (g *groups) change(ctx context.Context, key string, edit func(*group) error) error {
	stripe := &g.stripes[maphash.String(g.seed, key)%groupStripes]
	stripe.Lock()
	defer stripe.Unlock()
	const attempts = 100 // each time that one fails, another instance succeeds
	for range attempts {
		raw, err := g.logins.store.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("reading a group of logins: %w", err)
		}
		now := &group{}
		if raw != nil {
			if now, err = decode[group](raw); err != nil {
				return err
			}
		}
		if err := edit(now); err != nil {
			return err
		}
		value, err := json.Marshal(now)
		if err != nil {
			return err
		}
		err = g.logins.store.Swap(ctx, key, raw, value, now.expires())
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("changing a group of logins: %w", err)
		}
	}
	return errors.New("changing a group of logins: others keep changing it")
}

// expires is when the record tells nothing any more.
func (g *group) expires() time.Time {
	last := g.Ended.Add(2 * AttemptLifetime) // once finished, the provider may take its time with the code
	for _, m := range g.Members {
		if m.Expires.After(last) {
			last = m.Expires
		}
	}
	return last
}
