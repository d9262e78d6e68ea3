package login

import (
	"context"
	"errors"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
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
		logins, err := o.lookAll(ctx, keys)
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

// lookAll returns what operators see of the live logins among those with these keys.
func (o *Overview) lookAll(ctx context.Context, keys []string) ([]*UserLogin, error) {
	var mu sync.Mutex
	var logins []*UserLogin
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	for _, key := range keys {
		reads.Go(func() error {
			l, err := o.userLogin(ctx, strings.TrimPrefix(key, loginPrefix))
			if errors.Is(err, ErrNoLogin) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			logins = append(logins, l)
			return nil
		})
	}
	return logins, reads.Wait()
}

// userLogin returns what operators see of a login. The error is ErrNoLogin if it is not
// live.
func (o *Overview) userLogin(ctx context.Context, sid string) (*UserLogin, error) {
	raw, err := o.Logins.read(ctx, loginPrefix+sid)
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
	live, err := o.lookAt(ctx, login)
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
	return &UserLogin{user, *live}, nil
}
