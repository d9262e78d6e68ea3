package login

import (
	"context"
	"errors"
	"slices"

	"authgate/gateway/auth"
)

// Yield makes a login give way to a new one in its browser. It ends, and is returned. But what a
// login of the user with that subject has lent goes on: such a login loses what it has itself, its
// sessions and tokens, and stays for what it has lent. goOn are the sids of the logins that go
// on, which the new login must inherit; see Inherit.
func (l *Logins) Yield(ctx context.Context, sid, subject string) (ended *Login, goOn []string, err error) {
	before, _, err := l.load(ctx, sid)
	if errors.Is(err, auth.ErrRejected) {
		return nil, nil, nil
	}
	if err == nil && before.Subject() == subject && len(before.Lent)+len(before.Inherited) > 0 {
		return l.yield(ctx, sid)
	}
	ended, err = l.End(ctx, sid) // a damaged record too
	return ended, nil, err
}

// yield is Yield for a login that has lent or inherited something.
func (l *Logins) yield(ctx context.Context, sid string) (ended *Login, goOn []string, err error) {
	login, err := l.amend(ctx, sid, func(login *Login) (made, left []string, err error) {
		goOn, login.Inherited = append(slices.Clone(login.Inherited), sid), nil
		left = slices.Clone(login.Handles)
		for _, a := range login.Attached {
			left = append(left, a.Key)
		}
		login.Handles, login.Attached, login.Yielded = nil, nil, true
		return nil, left, nil
	})
	switch {
	case errors.Is(err, auth.ErrRejected):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	now := l.now()
	if slices.ContainsFunc(login.Lent, func(one lent) bool { return now.Before(one.Expires) }) {
		return nil, goOn, nil
	}
	ended, err = l.End(ctx, sid)
	return ended, goOn[:len(goOn)-1], err
}

// Inherit makes a login end those that have yielded to it when it ends.
func (l *Logins) Inherit(ctx context.Context, login *Login, yielded []string) error {
	if len(yielded) == 0 {
		return nil
	}
	_, err := l.amend(ctx, login.ID, func(now *Login) (made, left []string, err error) {
		now.Inherited = append(now.Inherited, yielded...)
		now.Inherited = now.Inherited[max(0, len(now.Inherited)-maxLent):]
		return nil, nil, nil
	})
	return amended(err)
}

// Inherits reports whether a login has inherited the one with that sid.
func (l *Logins) Inherits(ctx context.Context, login, sid string) (bool, error) {
	current, _, err := l.load(ctx, login)
	if errors.Is(err, auth.ErrRejected) {
		return false, nil
	}
	return err == nil && slices.Contains(current.Inherited, sid), err
}

// endInherited ends what a login has inherited, whose record was raw until now. If that fails, the
// login gets its record back, so that it can be ended again.
func (l *Logins) endInherited(ctx context.Context, login *Login, raw []byte) error {
	for _, older := range login.Inherited {
		if _, err := l.end(ctx, older, l.groups.leave); err != nil {
			return errors.Join(err, l.store.Put(ctx, loginPrefix+login.ID, raw, login.ends()))
		}
	}
	return nil
}
