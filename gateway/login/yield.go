package login

import (
	"context"
	"errors"
	"slices"

	"authgate/gateway/auth"
	"authgate/gateway/record"
)

// Yield makes a login give way to a new one in its browser. It ends, and is returned. But what a
// login of the user with that subject has lent goes on: such a login loses what it has itself, its
// sessions and tokens, and stays for what it has lent. goOn are the sids of the logins that go
// on, which the new login must inherit; see Inherit.
func (l *Logins) Yield(ctx context.Context, sid, subject string) (ended *Login, goOn []string, err error) {
	lends := false
	login, err := l.amend(ctx, sid, func(login *Login) (made, left []string, err error) {
		now := l.now()
		if goOn = nil; login.Subject() != subject {
			return nil, nil, nil
		}
		goOn = login.Inherited
		lends = slices.ContainsFunc(login.Lent, func(one lent) bool { return now.Before(one.Expires) })
		if login.Inherited = nil; !lends {
			return nil, nil, nil
		}
		goOn = append(goOn, sid)
		left = slices.Clone(login.Handles)
		for _, a := range login.Attached {
			left = append(left, a.Key)
		}
		login.Handles, login.Attached, login.Yielded = nil, nil, true
		return nil, left, nil
	})
	if errors.Is(err, auth.ErrRejected) {
		return nil, nil, nil
	}
	if err == nil && !(lends && login.Yielded) {
		ended, err = l.End(ctx, sid)
	}
	return ended, goOn, err
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

// endInherited ends what a login has inherited. It comes before the end of the login, which alone
// knows them.
func (l *Logins) endInherited(ctx context.Context, sid string) error {
	raw, err := record.Find(ctx, l.store, loginPrefix+sid)
	if err != nil || raw == nil {
		return err
	}
	login, err := decodeLogin(sid, raw)
	if err != nil {
		return nil // damaged: it ends all the same
	}
	for _, older := range login.Inherited {
		if _, err := l.end(ctx, older, l.groups.leave); err != nil {
			return err
		}
	}
	return nil
}
