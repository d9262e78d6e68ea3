package login

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login/journey"
	"authgate/gateway/store"
	"authgate/gateway/store/lru"
	"authgate/gateway/store/record"
	"authgate/gateway/store/seal"
	"authgate/policy"
)

// delegation is the part of a login that comes from a provider.
type delegation struct {
	Provider string `json:"provider"` // its name in the configuration
	Issuer   string `json:"issuer"`   // the provider's issuer at the time of the login
	User     string `json:"sub"`
	Session  string `json:"op_sid,omitempty"` // the provider's session identifier

	// RenewAt is when the provider's tokens must be refreshed, zero if they
	// cannot be refreshed. Expires is when they expire, zero if unknown.
	RenewAt time.Time `json:"renew_at,omitzero"`
	Expires time.Time `json:"tokens_expire,omitzero"`
	// Renewed is when the tokens were stored.
	Renewed time.Time `json:"renewed,omitzero"`
	Tokens  []byte    `json:"tokens,omitempty"` // provider.Tokens, encrypted
}

// Subject returns the subject of the person's identities.
func (d *delegation) Subject() string { return d.Provider + ":" + d.User }

// user is the record of a person at a provider: the newest profile, and its sources.
type user struct {
	Issuer  string           `json:"issuer"`
	Profile provider.Profile `json:"profile"`
	Said    provider.Said    `json:"said,omitzero"`
	Updated time.Time        `json:"updated"`        // when the provider was asked
	Until   time.Time        `json:"until,omitzero"` // a login that has lent something needs it until then
}

// Provider is an identity provider as delegated logins need it. Implementations are
// safe for concurrent use.
type Provider interface {
	// Issuer returns the issuer of the provider's tokens.
	Issuer() string
	// Refresh returns new tokens, and the provider's present claims about subject. An error that is
	// provider.ErrEnded ends the login; any other error does not. A grant that comes with an error
	// has the tokens, and the sources that were not silent.
	Refresh(ctx context.Context, t provider.Tokens, subject string) (*provider.Grant, error)
	// Profile describes subject by the present claims and those known before, and also returns the
	// claims to keep.
	Profile(subject string, now, known provider.Said) (provider.Profile, provider.Said)
}

// UsersOptions are the parts of Users. All are required.
type UsersOptions struct {
	Providers map[string]Provider // by name
	Lifetime  time.Duration       // of a delegated login
	// Remember is how long after the provider's last word about a user that is known, if
	// that is longer than Lifetime.
	Remember time.Duration
	Box      *seal.Box        // encrypts the providers' tokens
	Now      func() time.Time // the local clock, for pauses and the tokens' times
	// Report is called when a renewal has failed. ended tells whether the login
	// has ended.
	Report func(login *Login, ended bool, err error)
}

// Users keeps the people who sign in at a provider, and their logins. The provider's
// tokens are encrypted in the record of the login and stored nowhere else.
type Users struct {
	options   UsersOptions
	logins    *Logins
	renewals  singleflight.Group                                        // by sid
	beside    sync.Map                                                  // sids of renewals that streams have begun
	pauses    *lru.Cache[string, time.Time]                             // by sid: no renewal before this time
	slots     chan struct{}                                             // one for each renewal that is running
	loggedOut func(ctx context.Context, provider, subject string) error // see OnLogout
}

// OnLogout makes do be called for each user whom a provider has signed out. It must be called before
// the users are in use.
func (u *Users) OnLogout(do func(ctx context.Context, provider, subject string) error) {
	u.loggedOut = do
}

// NewUsers returns the users whose logins are in logins, which must not be in use yet.
func NewUsers(options UsersOptions, logins *Logins) *Users {
	u := &Users{
		options: options, logins: logins,
		pauses: lru.New[string, time.Time](record.CacheSize), slots: make(chan struct{}, renewalsAtOnce),
	}
	logins.users = u
	return u
}

// NewDelegatedSessions returns the mechanism for sessions of users.
func NewDelegatedSessions(users *Users) *Sessions {
	return newSessions(policy.OIDC, SessionOptions{Lifetime: users.options.Lifetime}, users, users.logins)
}

// Begin stores the user of grant, to which attempt has led, and records a new login from a device,
// with its handles. It comes in the place of the logins before the attempt. The error is an
// ErrRejected if the person has signed out at the provider since the attempt began.
func (u *Users) Begin(
	ctx context.Context, attempt *journey.Attempt, grant *provider.Grant, device Device, handles ...Handle,
) (*Login, error) {
	p, ok := u.options.Providers[attempt.Provider]
	if !ok {
		return nil, fmt.Errorf("provider %s: not configured", attempt.Provider)
	}
	now := u.logins.now()
	login := &Login{ID: rand.Text(), Created: now, Expires: now.Add(u.options.Lifetime), Device: device,
		Proof: grant.Proof}
	login.Delegated = &delegation{
		Provider: attempt.Provider, Issuer: p.Issuer(), User: grant.Profile.Subject, Session: grant.Session,
	}
	if err := u.keepTokens(login, grant.Tokens); err != nil {
		return nil, err
	}
	described := func(provider.Said) (provider.Profile, provider.Said) { return grant.Profile, grant.Said }
	if err := u.saveProfile(ctx, login.Delegated, now, described); err != nil {
		return nil, err
	}
	return u.logins.beginLogin(ctx, login, attempt.Started, attempt.Before, handles)
}

// saveProfile stores the provider's answer from the time asked, unless a newer one is stored.
// describe makes the profile and the claims to keep from the claims known now. The record outlives
// all current logins.
func (u *Users) saveProfile(
	ctx context.Context, d *delegation, asked time.Time,
	describe func(known provider.Said) (provider.Profile, provider.Said),
) error {
	err := store.Update(ctx, u.logins.store, userPrefix+d.Subject(), func(raw []byte) (store.Edit, error) {
		now := u.logins.now()
		next := user{Issuer: d.Issuer, Updated: asked}
		var before provider.Said
		if raw != nil {
			known, err := record.Decode[user](raw)
			if err != nil {
				return store.Edit{}, err
			}
			if known.Issuer == d.Issuer && known.Updated.After(asked) && !record.InFuture(known.Updated, now) {
				return store.Edit{}, nil
			}
			if known.Issuer == d.Issuer && known.Profile.Subject == d.User {
				before, next.Until = known.Said, known.Until
			}
		}
		next.Profile, next.Said = describe(before)
		return u.edited(&next)
	})
	if err != nil {
		err = fmt.Errorf("saving a user: %w", err)
	}
	return err
}

// edited returns the change of a user's record.
func (u *Users) edited(next *user) (store.Edit, error) {
	own := u.logins.now().Add(max(u.options.Lifetime, u.options.Remember))
	return record.Edited(next, later(own, next.Until))
}

// outlive keeps the record of a login's user until the login ends.
func (u *Users) outlive(ctx context.Context, login *Login) error {
	d, ends := login.Delegated, login.ends()
	err := store.Update(ctx, u.logins.store, userPrefix+d.Subject(), func(raw []byte) (store.Edit, error) {
		if raw == nil {
			return store.Edit{}, auth.ErrRejected
		}
		known, err := record.Decode[user](raw)
		if err != nil || !known.Until.Before(ends) || known.Issuer != d.Issuer {
			return store.Edit{}, err
		}
		known.Until = ends.Add(lentSlack)
		return u.edited(known)
	})
	if err != nil {
		err = fmt.Errorf("keeping a user: %w", err)
	}
	return err
}

// keepTokens encrypts the tokens into the login and sets when they are due.
func (u *Users) keepTokens(login *Login, tokens provider.Tokens) error {
	value, err := json.Marshal(tokens)
	if err != nil {
		return fmt.Errorf("storing the provider's tokens: %w", err)
	}
	d := login.Delegated
	d.Tokens = u.options.Box.Seal(value, loginPrefix+login.ID)
	now := u.logins.now()
	d.Renewed, d.Expires, d.RenewAt = now, tokens.Expires, time.Time{}
	if !tokens.Expires.IsZero() { // by the local clock, unlike the login's times
		d.Expires = now.Add(tokens.Expires.Sub(u.options.Now().Round(0)))
	}
	if tokens.Refresh != "" {
		d.RenewAt = renewAt(now, d.Expires)
	}
	return nil
}

// due reports whether the tokens must be refreshed. That is also so if the clock was
// set back since they were stored.
func (d *delegation) due(now time.Time) bool {
	return !d.RenewAt.IsZero() && (!now.Before(d.RenewAt) || record.InFuture(d.Renewed, now))
}

// Tokens returns the provider's tokens of a login.
func (u *Users) Tokens(login *Login) (provider.Tokens, error) {
	var tokens provider.Tokens
	if login.Delegated == nil {
		return tokens, errors.New("not a delegated login")
	}
	value, err := u.options.Box.Open(login.Delegated.Tokens, loginPrefix+login.ID)
	if err == nil {
		err = json.Unmarshal(value, &tokens)
	}
	if err != nil {
		return provider.Tokens{}, fmt.Errorf("opening the provider's tokens: %w", err)
	}
	return tokens, nil
}

// identify implements owner.
func (u *Users) identify(
	ctx context.Context, login *Login, expires time.Time,
) (*policy.Identity, []record.Stored, error) {
	d := login.Delegated
	if d == nil {
		return nil, nil, auth.ErrRejected
	}
	known, stored, err := u.findUser(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	id := known.Profile.Identity(d.Provider, policy.OIDC, login.ID, expires)
	id.SignedIn, id.Proof = login.Created, login.Proof
	return id, []record.Stored{stored}, nil
}

// findUser returns the user of d, and the record.
func (u *Users) findUser(ctx context.Context, d *delegation) (*user, record.Stored, error) {
	// A provider whose name has got another issuer is another provider.
	if p, ok := u.options.Providers[d.Provider]; !ok || p.Issuer() != d.Issuer {
		return nil, record.Stored{}, auth.ErrRejected
	}
	key := userPrefix + d.Subject()
	raw, err := u.logins.readRecord(ctx, key)
	if err != nil {
		return nil, record.Stored{}, err
	}
	known, err := record.Decode[user](raw)
	if err != nil {
		return nil, record.Stored{}, err
	}
	if known.Issuer != d.Issuer || known.Profile.Subject != d.User {
		return nil, record.Stored{}, auth.ErrRejected
	}
	return known, record.Stored{Key: key, Raw: raw}, nil
}

// Issuer returns the issuer of the provider of that name. It reports whether there is one.
func (u *Users) Issuer(name string) (issuer string, ok bool) {
	p, ok := u.options.Providers[name]
	if ok {
		issuer = p.Issuer()
	}
	return issuer, ok
}

// Known returns who a subject of a provider is, as far as it has said, and when it was
// asked. The identity has no mechanism, login or expiry. The error is ErrRejected if
// the subject is not known, or if the provider has another issuer now.
func (u *Users) Known(ctx context.Context, name, issuer, subject string) (*policy.Identity, time.Time, error) {
	known, _, err := u.findUser(ctx, &delegation{Provider: name, Issuer: issuer, User: subject})
	if err != nil {
		return nil, time.Time{}, err
	}
	return known.Profile.Identity(name, "", "", time.Time{}), known.Updated, nil
}
