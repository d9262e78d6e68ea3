package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

const (
	// renewTime is the time limit of one renewal: tokens, keys, userinfo and store.
	renewTime = 40 * time.Second
	// claimMargin is how much longer a claim lasts than a renewal. storeTime, a part of
	// it, is the time limit for storing the provider's answer.
	claimMargin, storeTime = 10 * time.Second, 5 * time.Second
	// renewPause is the pause after a renewal that failed. takenPause is the pause
	// when another instance renews the login.
	renewPause, takenPause = 10 * time.Second, time.Second
	// renewPatience is how long a request waits for a renewal when the tokens have
	// expired. Then it continues with the profile that is known.
	renewPatience = 3 * time.Second
	// renewLeast is the shortest time between two renewals of a login.
	// renewalsAtOnce is the maximum number of renewals at the same time.
	renewLeast, renewalsAtOnce = 2 * time.Second, 64
	// renewSoon is when tokens are renewed that came without all that makes a profile.
	renewSoon = 30 * time.Second
	// renewUnknown is when tokens are renewed whose expiry is unknown.
	renewUnknown = 5 * time.Minute
)

// errRenewing: another instance is renewing the login.
var errRenewing = errors.New("being renewed already")

// renewAt returns when tokens that end at expires are due: after three quarters of their
// time, so that roles are updated before the tokens expire.
func renewAt(now, expires time.Time) time.Time {
	if expires.IsZero() {
		return now.Add(renewUnknown)
	}
	return now.Add(max(expires.Sub(now)/4*3, renewLeast))
}

// renew implements owner. Tokens that are due are refreshed at the provider, once for all
// requests and open streams. A request waits for that only if the tokens have expired.
func (u *Users) renew(ctx context.Context, login *Login, patient bool) bool {
	d, now := login.Delegated, u.logins.now()
	if !d.due(now) {
		return false
	}
	if until, paused := u.pauses.Get(login.ID); paused && u.options.Now().Before(until) {
		return false
	}
	if !patient {
		u.renewBeside(login)
		return false
	}
	done := u.beginRenewal(login)
	if d.Expires.IsZero() || now.Before(d.Expires) {
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

// beginRenewal begins a renewal of the login, unless one is in progress. done is ready after
// it.
func (u *Users) beginRenewal(login *Login) (done <-chan singleflight.Result) {
	return u.renewals.DoChan(login.ID, func() (any, error) {
		u.renewOnce(login)
		return nil, nil
	})
}

// renewBeside renews the login while its streams go on. They are checked often, so only
// the first check begins a renewal.
func (u *Users) renewBeside(login *Login) {
	if _, begun := u.beside.LoadOrStore(login.ID, true); begun {
		return
	}
	go func() {
		defer u.beside.Delete(login.ID)
		<-u.beginRenewal(login)
	}()
}

// renewOnce renews the login. After a failure it sets a pause.
func (u *Users) renewOnce(login *Login) {
	defer func() {
		if panicked := recover(); panicked != nil { // no request would recover from it
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
	case errors.Is(err, errRenewing):
		u.pauses.Add(login.ID, u.options.Now().Add(takenPause))
	default:
		u.pauses.Add(login.ID, u.options.Now().Add(renewPause))
		u.options.Report(login, false, err)
	}
}

// claim calls do unless another instance is doing the same. Two uses of one refresh token
// look like theft to the provider.
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
		// Not with ctx, which may have ended. If this fails, the claim expires. Swap
		// does not delete the claim of another instance.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = u.logins.store.Swap(ctx, key, own, nil, time.Unix(1, 0))
	}()
	return do()
}

// refresh gets new tokens for the login as it is in the store now. Another instance may
// have renewed it.
func (u *Users) refresh(ctx context.Context, sid string) error {
	login, raw, err := u.logins.load(ctx, sid)
	if errors.Is(err, auth.ErrRejected) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	d := login.Delegated
	if d == nil || !d.due(u.logins.now()) {
		return nil
	}
	p, ok := u.options.Providers[d.Provider]
	if !ok || p.Issuer() != d.Issuer {
		return nil // the provider is not configured any more
	}
	tokens, err := u.Tokens(login)
	if err != nil {
		return err
	}
	// The read may be older than the claim. If another instance has used the refresh
	// token since then, a second use would end the login.
	err = u.logins.store.Swap(ctx, loginPrefix+sid, raw, raw, login.ends())
	if errors.Is(err, store.ErrConflict) {
		return nil // the next request reads the new record
	}
	if err != nil {
		return fmt.Errorf("checking a login before its renewal: %w", err)
	}
	asked := u.logins.now()
	grant, failed := p.Refresh(ctx, tokens, d.User)
	return u.accept(ctx, p, login, &answer{grant, failed, asked})
}

// answer is the answer of a provider to a renewal.
type answer struct {
	grant  *provider.Grant // nil: no tokens; may come beside an error
	failed error
	asked  time.Time
}

// accept stores the provider's answer, or ends the login because of it.
func (u *Users) accept(ctx context.Context, p Provider, login *Login, a *answer) error {
	// The provider may have taken all of the time, and its answer must be stored.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	failed, d := a.failed, login.Delegated
	if errors.Is(failed, provider.ErrEnded) {
		if failed = u.endRenewed(ctx, login, failed); failed == nil {
			return nil
		}
	}
	if a.grant == nil {
		return failed
	}
	if !a.grant.Said.Nothing() {
		describe := func(known provider.Said) (provider.Profile, provider.Said) {
			if known.Nothing() { // an earlier version has stored the user
				known = a.grant.Before
			}
			return p.Profile(d.User, a.grant.Said, known)
		}
		failed = errors.Join(failed, u.saveProfile(ctx, d, a.asked, describe))
	}
	// Store the tokens even after a failure: without the new refresh token the login is lost.
	return errors.Join(failed, u.replace(ctx, login, a.grant.Tokens, failed != nil))
}

// endRenewed ends a login because of the provider's answer. If the store fails, the error is both.
func (u *Users) endRenewed(ctx context.Context, login *Login, answer error) error {
	ended, err := u.logins.End(ctx, login.ID)
	if err != nil {
		return errors.Join(answer, err)
	}
	if ended != nil { // nil: another instance has ended it
		u.options.Report(login, true, answer)
	}
	return nil
}

// replace stores new tokens in the record of a login in the place of its own, unless the
// login has ended or another instance has stored newer ones. With soon they are renewed
// again shortly, because not all of the profile is known and stored.
func (u *Users) replace(ctx context.Context, login *Login, tokens provider.Tokens, soon bool) error {
	used := login.Delegated.Tokens
	err := store.Update(ctx, u.logins.store, loginPrefix+login.ID, func(raw []byte) (store.Edit, error) {
		if raw == nil {
			return store.Edit{}, nil
		}
		now, err := decodeLogin(login.ID, raw)
		if err != nil || now.Delegated == nil || !bytes.Equal(now.Delegated.Tokens, used) {
			return store.Edit{}, err
		}
		if err := u.keepTokens(now, tokens); err != nil {
			return store.Edit{}, err
		}
		if soon {
			now.Delegated.RenewAt = u.logins.now().Add(renewSoon)
		}
		return record.Edited(now, now.ends())
	})
	if err != nil {
		err = fmt.Errorf("storing the provider's tokens: %w", err)
	}
	return err
}
