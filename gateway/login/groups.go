package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
	"authgate/gateway/store"
)

const (
	// maxGroup is how many live logins a group has; the oldest ends when one
	// more joins.
	maxGroup = 256
	// groupTime bounds one change of a group, for all who wait for it.
	groupTime = 2 * time.Second
	// lookedAtAtOnce is how many members of a group are looked at side by side.
	lookedAtAtOnce = 64
)

// groups keep together the logins that end together: those of one account, of
// one person at a provider, and of one session there.
type groups struct {
	logins *Logins
	// One instance makes the changes of a group one after the other, those that
	// wait for it in one go; it learns of other instances by Swap.
	mu      sync.Mutex
	waiting map[string][]*groupChange // by key, for groups that are being changed
}

// groupChange is a change of a group on its way to the store. The field err is
// its caller's once done is closed.
type groupChange struct {
	edit func(*group) error
	err  error
	done chan struct{}
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

func newGroups(logins *Logins) *groups {
	return &groups{logins: logins, waiting: map[string][]*groupChange{}}
}

// groupsOf are the keys of the groups that a login belongs to.
func groupsOf(login *Login) []string {
	v := login.Delegated
	if v == nil {
		return []string{groupKey("account", login.Username)}
	}
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

// enter puts login into all of its groups. It is an ErrRejected if one of them
// was ended after started: who has signed out does not come back with an older
// attempt.
func (g *groups) enter(ctx context.Context, login *Login, started time.Time) error {
	var all errgroup.Group
	for _, key := range groupsOf(login) {
		all.Go(func() error { return g.join(ctx, key, login, started) })
	}
	return all.Wait()
}

// leave takes login out of all of its groups.
func (g *groups) leave(ctx context.Context, login *Login) {
	var all errgroup.Group
	for _, key := range groupsOf(login) {
		all.Go(func() error {
			return g.change(ctx, key, func(now *group) error {
				before := len(now.Members)
				now.Members = slices.DeleteFunc(now.Members, func(m member) bool { return m.Login == login.ID })
				if len(now.Members) == before {
					return errNothing
				}
				return nil
			})
		})
	}
	_ = all.Wait() // a member that has ended does no harm, and goes when there are too many
}

// join puts login into one group.
func (g *groups) join(ctx context.Context, key string, login *Login, started time.Time) error {
	refused := false
	err := g.change(ctx, key, func(now *group) error {
		if refused = !now.Ended.IsZero() && !started.After(now.Ended); refused {
			if current := g.logins.now(); isAhead(now.Ended, current) {
				now.Ended = current // the clock was set back: the next attempt counts
				return nil
			}
			return errNothing
		}
		now.Members = slices.DeleteFunc(now.Members, func(m member) bool { return !login.Created.Before(m.Expires) })
		now.Members = append(now.Members, member{Login: login.ID, Expires: login.Expires})
		return nil
	})
	if refused && (err == nil || errors.Is(err, errNothing)) {
		return &auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: "signed out at the provider in the middle of the login"}
	}
	return err
}

// makeRoom ends the oldest logins of a group that has too many. They end before
// they are taken off the record, so that a failure leaves none that is not
// counted.
func (g *groups) makeRoom(ctx context.Context, now *group) error {
	if len(now.Members) <= maxGroup {
		return nil
	}
	if err := g.forgetEnded(ctx, now); err != nil {
		return err
	}
	over := max(0, len(now.Members)-maxGroup)
	var all errgroup.Group
	all.SetLimit(lookedAtAtOnce)
	for _, m := range now.Members[:over] {
		all.Go(func() error {
			_, err := g.logins.end(ctx, m.Login)
			return err
		})
	}
	now.Members = now.Members[over:]
	return all.Wait()
}

// forgetEnded takes the logins off the record that have ended.
func (g *groups) forgetEnded(ctx context.Context, now *group) error {
	alive := make([]bool, len(now.Members))
	var all errgroup.Group
	all.SetLimit(lookedAtAtOnce)
	for i, m := range now.Members {
		all.Go(func() error {
			_, err := g.logins.read(ctx, loginPrefix+m.Login)
			if errors.Is(err, auth.ErrRejected) {
				return nil
			}
			alive[i] = err == nil
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	var members []member
	for i, m := range now.Members {
		if alive[i] {
			members = append(members, m)
		}
	}
	now.Members = members
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
		members = slices.Clone(now.Members)
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
		login, err := g.logins.end(ctx, m.Login)
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

// change applies edit to the record of a group, atomically, together with what
// others want to change there at this time. It returns the error of edit, after
// which edit must have changed nothing. If ctx ends first, edit may be applied
// or not.
func (g *groups) change(ctx context.Context, key string, edit func(*group) error) error {
	mine := &groupChange{edit: edit, done: make(chan struct{})}
	g.mu.Lock()
	others, busy := g.waiting[key]
	g.waiting[key] = append(others, mine)
	g.mu.Unlock()
	if !busy {
		go g.work(key)
	}
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return fmt.Errorf("changing a group of logins: %w", context.Cause(ctx))
	}
}

// work makes the changes of a group until none waits.
func (g *groups) work(key string) {
	for {
		g.mu.Lock()
		batch := g.waiting[key]
		if len(batch) == 0 {
			delete(g.waiting, key)
			g.mu.Unlock()
			return
		}
		g.waiting[key] = nil
		g.mu.Unlock()
		// Not with the context of one of them, who may leave.
		ctx, cancel := context.WithTimeout(context.Background(), groupTime)
		err := g.apply(ctx, key, batch)
		cancel()
		for _, c := range batch {
			if c.err == nil {
				c.err = err
			}
			close(c.done)
		}
	}
}

// apply makes the changes of a group in one write. A change that fails has its
// error in it and does not keep the others from being made.
func (g *groups) apply(ctx context.Context, key string, batch []*groupChange) error {
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
		changed := false
		for _, c := range batch {
			c.err = c.edit(now)
			changed = changed || c.err == nil
		}
		if !changed {
			return nil
		}
		if err := g.makeRoom(ctx, now); err != nil {
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
