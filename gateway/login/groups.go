package login

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

const (
	// maxGroup is the maximum number of valid logins in a group. If one more
	// joins, the oldest ends.
	maxGroup = 256
	// groupTime is the time limit of one change of a group.
	groupTime = 2 * time.Second
	// readsAtOnce is how many members of a group are read in parallel.
	readsAtOnce = 64
)

// groups keeps the logins that end together: the logins of one account, of one
// person at a provider, and of one session at a provider.
type groups struct {
	logins *Logins
	// An instance changes a group by one write at a time. Changes that wait are
	// made together by the next write. Swap detects the writes of other instances.
	mu      sync.Mutex
	waiting map[string][]*groupChange // by key; has an entry for each group that is being changed
}

// groupChange is a change that waits. The caller may read err after done is closed.
type groupChange struct {
	edit func(*group) error
	err  error
	done chan struct{}
}

// group is the record of a group. Its members may have ended.
type group struct {
	Ended   time.Time `json:"ended,omitzero"` // when all its logins were last ended
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

// groupsOf returns the keys of the groups that a login belongs to.
func groupsOf(login *Login) []string {
	d := login.Delegated
	if d == nil {
		return []string{groupKey("account", login.Username)}
	}
	person := personGroup(d.Provider, d.Issuer, d.User)
	if d.Session == "" {
		return []string{person, unnamedGroup(d.Provider, d.Issuer, d.User)}
	}
	return []string{person, sessionGroup(d.Provider, d.Issuer, d.Session)}
}

func personGroup(name, issuer, sub string) string  { return groupKey("sub", name, issuer, sub) }
func sessionGroup(name, issuer, sid string) string { return groupKey("sid", name, issuer, sid) }

// unnamedGroup is the group of a person's logins for which the provider has given no
// session identifier.
func unnamedGroup(name, issuer, sub string) string { return groupKey("unnamed", name, issuer, sub) }

func groupKey(parts ...string) string {
	return groupPrefix + record.Hash([]byte(strings.Join(parts, "\x00"))) // no part has a NUL
}

// enter adds login to its groups. The error is an ErrRejected if one of them was ended
// after started, so that a person who has signed out is not signed in by an older
// login attempt.
func (g *groups) enter(ctx context.Context, login *Login, started time.Time) error {
	var all errgroup.Group
	for _, key := range groupsOf(login) {
		all.Go(func() error { return g.join(ctx, key, login, started) })
	}
	return all.Wait()
}

// leave removes login from its groups.
func (g *groups) leave(ctx context.Context, login *Login) {
	var all errgroup.Group
	for _, key := range groupsOf(login) {
		all.Go(func() error {
			return g.change(ctx, key, func(now *group) error { return now.remove(login.ID) })
		})
	}
	_ = all.Wait() // a member that has ended is harmless; forgetEnded removes it
}

// remove removes a member.
func (g *group) remove(sid string) error {
	before := len(g.Members)
	g.Members = slices.DeleteFunc(g.Members, func(m member) bool { return m.Login == sid })
	if len(g.Members) == before {
		return errNothing
	}
	return nil
}

// departure returns the changes by which login leaves its groups, but for those that cannot be read.
func (g *groups) departure(ctx context.Context, login *Login) (changes []store.Change) {
	for _, key := range groupsOf(login) {
		raw, now, err := g.readGroup(ctx, key)
		if err != nil || now.remove(login.ID) != nil {
			continue
		}
		if edit, err := now.edited(); err == nil {
			changes = append(changes, store.Change{Key: key, Old: raw, Edit: edit})
		}
	}
	return changes
}

// join adds login to one group.
func (g *groups) join(ctx context.Context, key string, login *Login, started time.Time) error {
	refused := false
	err := g.change(ctx, key, func(now *group) error {
		if refused = !now.Ended.IsZero() && !started.After(now.Ended); refused {
			if current := g.logins.now(); record.InFuture(now.Ended, current) {
				now.Ended = current // the clock was set back: accept the next attempt
				return nil
			}
			return errNothing
		}
		now.Members = slices.DeleteFunc(now.Members, func(m member) bool { return !login.Created.Before(m.Expires) })
		now.Members = append(now.Members, member{Login: login.ID, Expires: login.Expires})
		return nil
	})
	// After another error the change may still be in progress, and refused changes.
	if (err == nil || errors.Is(err, errNothing)) && refused {
		return &auth.Rejection{
			Detail: auth.DetailNotSignedIn, Reason: "all logins of the person were ended during the login",
		}
	}
	return err
}

// outlive keeps login in one group until it ends.
func (g *groups) outlive(ctx context.Context, key string, login *Login) error {
	ends := login.ends()
	err := g.change(ctx, key, func(now *group) error {
		at := slices.IndexFunc(now.Members, func(m member) bool { return m.Login == login.ID })
		if at < 0 || !now.Members[at].Expires.Before(ends) {
			return errNothing // without a member, the login is being ended
		}
		now.Members = slices.Clone(now.Members)
		now.Members[at].Expires = ends.Add(lentSlack)
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// makeRoom ends the oldest logins of a group that has too many. A login ends before it
// is removed from the record, so every valid login is counted even after a failure.
func (g *groups) makeRoom(ctx context.Context, now *group) error {
	if len(now.Members) <= maxGroup {
		return nil
	}
	if err := g.forgetEnded(ctx, now); err != nil {
		return err
	}
	over := max(0, len(now.Members)-maxGroup)
	var oldest []string
	for _, m := range now.Members[:over] {
		oldest = append(oldest, m.Login)
	}
	now.Members = now.Members[over:]
	return g.logins.endAll(ctx, oldest, ending{}) // they leave by this change, which others would wait for
}

// members returns the logins of a group. Some of these logins may have ended.
func (g *groups) members(ctx context.Context, key string) ([]member, error) {
	_, now, err := g.readGroup(ctx, key)
	if err != nil {
		return nil, err
	}
	return now.Members, nil
}

// readGroup returns the record of a group, and the group.
func (g *groups) readGroup(ctx context.Context, key string) (raw []byte, now *group, err error) {
	if raw, err = record.Find(ctx, g.logins.store, key); err != nil {
		return nil, nil, fmt.Errorf("reading a group of logins: %w", err)
	}
	now, err = decodeGroup(raw)
	return raw, now, err
}

// forgetEnded removes the members that have ended.
func (g *groups) forgetEnded(ctx context.Context, now *group) error {
	alive := make([]bool, len(now.Members))
	var all errgroup.Group
	for first := range min(readsAtOnce, len(alive)) { // one for several members: most answers come from memory
		all.Go(func() error {
			for i := first; i < len(alive); i += readsAtOnce {
				raw, err := record.Find(ctx, g.logins.store, loginPrefix+now.Members[i].Login)
				if err != nil {
					return err
				}
				alive[i] = raw != nil
			}
			return nil
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

// endLogins ends all logins of the group but one, if but is not empty, and returns those
// that were valid. With mark, it also marks a group without members, so that logins
// that are beginning find it ended. After an error end can be called again, because it
// removes the members last.
func (g *groups) endLogins(ctx context.Context, key string, mark bool, but string) ([]*Login, error) {
	ctx = store.Ending(ctx)
	var members []member
	err := g.change(ctx, key, func(now *group) error {
		members = slices.DeleteFunc(slices.Clone(now.Members), func(m member) bool { return m.Login == but })
		if len(members) == 0 && !mark {
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
		login, err := g.logins.endLogin(ctx, m.Login, ending{})
		if err != nil {
			return ended, err
		}
		if login != nil {
			ended = append(ended, login)
		}
	}
	return ended, g.change(ctx, key, func(now *group) error {
		ended := func(m member) bool { return slices.ContainsFunc(members, m.same) }
		now.Members = slices.DeleteFunc(now.Members, ended)
		return nil
	})
}

// errNothing: the edit changes nothing.
var errNothing = errors.New("nothing to change")

// change applies edit to the record of a group atomically, together with other
// changes that wait. It returns the error of edit; an edit that fails must not change
// the group. If ctx ends first, edit may or may not be applied.
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

// work makes the changes of a group until none is waiting.
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
		// Not with the context of one caller, because that caller may leave.
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

// apply makes all changes of a batch in one write. A change that fails gets its error
// and does not stop the others.
func (g *groups) apply(ctx context.Context, key string, batch []*groupChange) error {
	err := store.Update(ctx, g.logins.store, key, func(raw []byte) (store.Edit, error) {
		now, err := decodeGroup(raw)
		if err != nil {
			return store.Edit{}, err
		}
		changed := false
		for _, c := range batch {
			c.err = c.edit(now)
			changed = changed || c.err == nil
		}
		if !changed {
			return store.Edit{}, nil
		}
		if err := g.makeRoom(ctx, now); err != nil {
			return store.Edit{}, err
		}
		return now.edited()
	})
	if err != nil {
		err = fmt.Errorf("changing a group of logins: %w", err)
	}
	return err
}

// The record of a group is a byte for its form, when the group was ended, and for each member the sid and
// when it expires. A login reads and writes the record whole, so it is short, and quick to read.
const (
	groupForm    = 1
	timeLength   = 8
	headLength   = 1 + timeLength
	memberLength = sidLength + timeLength
)

// decodeGroup decodes the record of a group, and no record as a group without members.
func decodeGroup(raw []byte) (*group, error) {
	if raw == nil {
		return &group{}, nil
	}
	if len(raw)%memberLength != headLength || raw[0] != groupForm {
		return record.Decode[group](raw) // versions up to 0.1.1 wrote JSON
	}
	now := &group{Ended: decodeTime(raw[1:])}
	now.Members = make([]member, 0, len(raw)/memberLength+1) // one more is to join
	for rest := string(raw[headLength:]); rest != ""; rest = rest[memberLength:] {
		now.Members = append(now.Members, member{rest[:sidLength], decodeTime([]byte(rest[sidLength:memberLength]))})
	}
	return now, nil
}

// edited returns the change that stores the group.
func (g *group) edited() (store.Edit, error) {
	value := make([]byte, 0, headLength+len(g.Members)*memberLength)
	value = appendTime(append(value, groupForm), g.Ended)
	for _, m := range g.Members {
		if len(m.Login) != sidLength {
			return record.Edited(g, g.expires()) // gateways make no such sid, and JSON holds any
		}
		value = appendTime(append(value, m.Login...), m.Expires)
	}
	return store.Edit{Value: value, Expires: g.expires()}, nil
}

// appendTime appends a time in nanoseconds, and 0 for none. A time after 2262, the last year that an int64 can
// hold, becomes the last instant of it.
func appendTime(to []byte, at time.Time) []byte {
	switch last := time.Unix(0, math.MaxInt64); {
	case at.IsZero():
		return binary.BigEndian.AppendUint64(to, 0)
	case at.After(last):
		at = last
	}
	return binary.BigEndian.AppendUint64(to, uint64(at.UnixNano()))
}

// decodeTime returns what appendTime has appended.
func decodeTime(from []byte) time.Time {
	if at := binary.BigEndian.Uint64(from); at != 0 {
		return time.Unix(0, int64(at)).UTC()
	}
	return time.Time{}
}

// expires returns when the record is of no more use.
func (g *group) expires() time.Time {
	last := g.Ended.Add(2 * journey.AttemptLifetime) // an attempt can end late, and the provider's answers take time
	for _, m := range g.Members {
		if m.Expires.After(last) {
			last = m.Expires
		}
	}
	return last
}
