package login

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/store/record"
)

// A new login replaces those that its browser has. An old login ends, unless OAuth grants depend
// on it. Then it loses its sessions and tokens and keeps only the grants (it has yielded), and ends
// together with the new login, which has inherited it. The new login is recorded first, so that
// the end of each old login is in the record of another.

// lends reports whether others still have something by a login, or want to know of its end.
func (login *Login) lends(now time.Time) bool {
	return len(login.Clients) > 0 ||
		slices.ContainsFunc(login.Lent, func(one lent) bool { return now.Before(one.Expires) })
}

// inherit reads the records of the logins that heir replaces, nil if they have ended, and
// decides which of them it inherits.
func (l *Logins) inherit(ctx context.Context, heir *Login, replaces []string) ([][]byte, error) {
	raws := make([][]byte, len(replaces))
	var reads errgroup.Group
	for i, sid := range replaces {
		reads.Go(func() (err error) {
			raws[i], err = record.Find(ctx, l.store, loginPrefix+sid)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	for i, sid := range replaces {
		older, err := decodeLogin(sid, raws[i])
		if err != nil || older.Subject() != heir.Subject() {
			continue // it has ended, or its record is damaged, or it is of another user
		}
		heir.Inherited = append(heir.Inherited, older.Inherited...)
		if older.lends(l.now()) {
			heir.Inherited = append(heir.Inherited, sid)
		}
	}
	over := max(0, len(heir.Inherited)-maxLent)
	err := l.endYielded(ctx, heir.Inherited[:over], true) // what heir did not name would not end with it
	heir.Inherited = heir.Inherited[over:]
	return raws, err
}

// replace makes the logins that heir replaces, with those records, end or yield.
func (l *Logins) replace(ctx context.Context, heir *Login, replaces []string, raws [][]byte) error {
	ended := make([]*Login, len(replaces))
	var all errgroup.Group
	for i, sid := range replaces {
		all.Go(func() (err error) {
			ended[i], err = l.yield(ctx, heir, sid, raws[i])
			return err
		})
	}
	err := all.Wait()
	heir.Replaced = slices.DeleteFunc(ended, func(one *Login) bool { return one == nil })
	return err
}

// yield ends a login whose record was raw, or makes it yield if heir has inherited it.
func (l *Logins) yield(ctx context.Context, heir *Login, sid string, raw []byte) (ended *Login, err error) {
	var own []string
	ended, err = l.endLogin(ctx, sid, ending{raw: raw, leaves: true, unless: func(login *Login) bool {
		if own = nil; login.Subject() != heir.Subject() {
			return false
		}
		login.Inherited = nil // heir has them now
		if !slices.Contains(heir.Inherited, sid) {
			return false
		}
		own = login.own()
		login.Handles, login.Attached, login.Yielded = nil, nil, true
		return true
	}})
	if err == nil {
		l.forget(ctx, own)
	}
	return ended, err
}

// endYielded ends those of the logins that have yielded.
func (l *Logins) endYielded(ctx context.Context, sids []string, leaves bool) error {
	return l.endAll(ctx, sids, ending{leaves: leaves, unless: func(login *Login) bool { return !login.Yielded }})
}

// endAll ends logins, side by side.
func (l *Logins) endAll(ctx context.Context, sids []string, how ending) error {
	var all errgroup.Group
	all.SetLimit(readsAtOnce)
	for _, sid := range sids {
		all.Go(func() error {
			_, err := l.endLogin(ctx, sid, how)
			return err
		})
	}
	return all.Wait()
}

// Inherits reports whether a login has inherited the one with that sid.
func (l *Logins) Inherits(ctx context.Context, login, sid string) (bool, error) {
	current, _, err := l.load(ctx, login)
	if errors.Is(err, auth.ErrRejected) {
		return false, nil
	}
	return err == nil && slices.Contains(current.Inherited, sid), err
}
