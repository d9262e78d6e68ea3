package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/gateway/store"
)

const (
	// renewTime bounds one renewal: tokens, keys, userinfo and the store.
	renewTime = 40 * time.Second
	// claimMargin is how much longer a claim lasts than the renewal can.
	claimMargin = 10 * time.Second
	// renewPause is how long a login is left alone after a renewal that
	// failed, takenPause after finding that somebody else is at it.
	renewPause, takenPause = 10 * time.Second, time.Second
	// renewPatience is how long a request waits for a renewal once the
	// tokens have expired; then it goes on with what is known.
	renewPatience = 3 * time.Second
	// renewLeast is the shortest time between renewals of a login, and
	// renewalsAtOnce how many there are at a time.
	renewLeast, renewalsAtOnce = 2 * time.Second, 64
	// renewSoon is when tokens are renewed that came without a profile.
	renewSoon = 30 * time.Second
	// renewUnknown is when tokens are renewed that don't say how long they
	// are good.
	renewUnknown = 5 * time.Minute
)

// errRenewing: another request, or another instance, is renewing the login.
var errRenewing = errors.New("being renewed already")

// renewAt is when tokens that end at expires are due: after three quarters of
// the time they have, so that roles are fresh before the tokens end.
func renewAt(now, expires time.Time) time.Time {
	if expires.IsZero() {
		return now.Add(renewUnknown)
	}
	return now.Add(max(expires.Sub(now)/4*3, renewLeast))
}

// renew implements owner: tokens that are due are refreshed at the provider,
// once for all requests, beside them while the old ones are good.
func (u *Users) renew(ctx context.Context, login *Login) bool {
	v, now := login.Delegated, u.logins.now()
	if !v.due(now) {
		return false
	}
	if until, paused := u.pauses.Get(login.ID); paused && u.options.Now().Before(until) {
		return false
	}
	done := u.renewals.DoChan(login.ID, func() (any, error) {
		u.renewOnce(login)
		return nil, nil
	})
	if v.Expires.IsZero() || now.Before(v.Expires) {
		return false
	}
	patience := time.NewTimer(renewPatience)
	defer patience.Stop()
	select {
	case <-done:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return false
}

// renewOnce renews the login, and pauses after a failure.
func (u *Users) renewOnce(login *Login) {
	defer func() {
		if panicked := recover(); panicked != nil { // beside a request, nobody else would catch it
			u.pauses.Add(login.ID, u.options.Now().Add(renewPause))
			u.options.Report(login, false, fmt.Errorf("panic: %v", panicked))
		}
	}()
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	default:
		u.pauses.Add(login.ID, u.options.Now().Add(takenPause))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTime)
	defer cancel()
	err := u.claim(ctx, login.ID, func() error { return u.refresh(ctx, login.ID) })
	switch {
	case err == nil:
		return
	case errors.Is(err, errRenewing):
		u.pauses.Add(login.ID, u.options.Now().Add(takenPause))
		return
	case errors.Is(err, provider.ErrRefused):
		ended, failed := u.logins.End(ctx, login.ID)
		if failed == nil {
			if ended != nil { // else somebody was faster
				u.options.Report(login, true, err)
			}
			return
		}
		err = errors.Join(err, failed)
	}
	u.pauses.Add(login.ID, u.options.Now().Add(renewPause))
	u.options.Report(login, false, err)
}

// claim runs do unless another instance does so at this time: a refresh token
// that is used twice is taken for stolen.
func (u *Users) claim(ctx context.Context, sid string, do func() error) error {
	key, own := renewPrefix+sid, newSecret()
	err := u.logins.store.Swap(ctx, key, nil, own, u.logins.now().Add(renewTime+claimMargin))
	if errors.Is(err, store.ErrConflict) {
		return errRenewing
	}
	if err != nil {
		return fmt.Errorf("claiming a renewal: %w", err)
	}
	defer func() {
		// Not with ctx, which may have ended; what stays expires. A claim that
		// is another's by now is not given back.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = u.logins.store.Swap(ctx, key, own, nil, time.Unix(1, 0))
	}()
	return do()
}

// refresh gets new tokens for the login as it stands in the store, which
// another instance may have renewed meanwhile.
func (u *Users) refresh(ctx context.Context, sid string) error {
	key := loginPrefix + sid
	raw, err := u.logins.read(ctx, key)
	if errors.Is(err, auth.ErrRejected) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	login, err := decodeLogin(sid, raw)
	if err != nil {
		return err
	}
	v := login.Delegated
	if v == nil || !v.due(u.logins.now()) {
		return nil
	}
	p, ok := u.options.Providers[v.Provider]
	if !ok || p.Issuer() != v.Issuer {
		return nil // nobody vouches for it any more
	}
	tokens, err := u.Tokens(login)
	if err != nil {
		return err
	}
	// What was read may be older than the claim, and a refresh token that another
	// instance has used ends the login.
	err = u.logins.store.Swap(ctx, key, raw, raw, login.Expires)
	if errors.Is(err, store.ErrConflict) {
		return nil // the next request sees what it is now
	}
	if err != nil {
		return fmt.Errorf("looking at a login before its renewal: %w", err)
	}
	asked := u.logins.now()
	grant, refused := p.Refresh(ctx, tokens, v.User)
	if grant == nil {
		return refused
	}
	err = refused
	if err == nil {
		err = u.save(ctx, v, grant.Profile, asked)
	}
	// Whatever else has failed: without the new refresh token the login is lost.
	return errors.Join(err, u.replace(ctx, login, raw, grant.Tokens, err != nil))
}

// replace puts new tokens into the record of a login, unless it has ended.
// With soon they are renewed again shortly, because what came with them is not
// known or not kept.
func (u *Users) replace(ctx context.Context, login *Login, raw []byte, tokens provider.Tokens, soon bool) error {
	if err := u.keep(login, tokens); err != nil {
		return err
	}
	if soon {
		login.Delegated.RenewAt = u.logins.now().Add(renewSoon)
	}
	value, err := json.Marshal(login)
	if err != nil {
		return fmt.Errorf("keeping the provider's tokens: %w", err)
	}
	err = u.logins.store.Swap(ctx, loginPrefix+login.ID, raw, value, login.Expires)
	if errors.Is(err, store.ErrConflict) {
		return nil // it has ended
	}
	if err != nil {
		return fmt.Errorf("keeping the provider's tokens: %w", err)
	}
	return nil
}
