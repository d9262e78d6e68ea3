package login

import (
	"context"
	"errors"
	"strings"

	"authgate/gateway/identity/auth"
)

// UserLogin is a live login as operators see it.
type UserLogin struct {
	User string // the local account, or PROVIDER:username
	LiveLogin
}

// Each calls f for each live login of all users, in no order, one call at a time. An
// error of f ends it. Each holds a few hundred logins in memory at a time. A login can
// be visited twice; see store.Store.
func (o *Overview) Each(ctx context.Context, f func(*UserLogin) error) error {
	return o.Logins.store.Walk(ctx, loginPrefix, func(keys []string) error {
		logins, err := gather(keys, func(key string) (*UserLogin, error) {
			return o.userLogin(ctx, strings.TrimPrefix(key, loginPrefix))
		})
		if err != nil {
			return err
		}
		for _, l := range logins {
			if err := f(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// userLogin describes a login for operators. The error is ErrNoLogin if it is not live.
func (o *Overview) userLogin(ctx context.Context, sid string) (*UserLogin, error) {
	raw, err := o.Logins.readRecord(ctx, loginPrefix+sid)
	if errors.Is(err, auth.ErrRejected) {
		return nil, ErrNoLogin
	}
	if err != nil {
		return nil, err
	}
	login, err := decodeLogin(sid, raw)
	if err != nil || !o.counts(login) {
		return nil, ErrNoLogin // a damaged record opens nothing
	}
	live, err := o.describeLogin(ctx, login)
	if err != nil {
		return nil, err
	}
	user := login.Username
	if d := login.Delegated; d != nil {
		id, _, err := o.Users.identify(ctx, login, live.Expires)
		if errors.Is(err, auth.ErrRejected) {
			return nil, ErrNoLogin
		}
		if err != nil {
			return nil, err
		}
		user = d.Provider + ":" + id.Username
	}
	return &UserLogin{user, live}, nil
}
