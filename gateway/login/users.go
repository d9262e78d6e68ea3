package login

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/gateway/seal"
	"authgate/gateway/store"
	"authgate/policy"
)

// Vouched is the part of a login that a provider vouches for.
type Delegation struct {
	Provider string `json:"provider"` // its name in the configuration
	Issuer   string `json:"issuer"`   // that the name stood for at the time
	User     string `json:"sub"`
	Session  string `json:"op_sid,omitempty"` // the provider's own sid

	// RenewAt is when the provider's tokens are due to be refreshed, zero
	// where that cannot be done; Expires is when they end, zero where that is
	// unknown.
	RenewAt time.Time `json:"renew_at,omitzero"`
	Expires time.Time `json:"tokens_expire,omitzero"`
	// Renewed is when these tokens were stored.
	Renewed time.Time `json:"renewed,omitzero"`
	Tokens  []byte    `json:"tokens,omitempty"` // provider.Tokens, sealed
}

// Subject is the subject of the identities of whom it is about.
func (v *Delegation) Subject() string { return v.Provider + ":" + v.User }

// user is the record of a person whom a provider vouches for: what the
// provider said last.
type user struct {
	Issuer  string           `json:"issuer"`
	Profile provider.Profile `json:"profile"`
	Updated time.Time        `json:"updated"` // when the provider was asked
}

// Provider is what delegated logins need of the provider that vouches for
// them. Implementations are safe for concurrent use.
type Provider interface {
	// Issuer is who signs the provider's tokens.
	Issuer() string
	// Refresh gets new tokens and what the provider says of subject today. An
	// error that is provider.ErrRefused ends the login, any other does not. A
	// grant beside an error has the new tokens alone.
	Refresh(ctx context.Context, t provider.Tokens, subject string) (*provider.Grant, error)
}

// UsersOptions are the parts that Users are made of; all are needed.
type UsersOptions struct {
	Providers map[string]Provider // by name
	Lifetime  time.Duration       // of a delegated login
	Box       *seal.Box           // seals the providers' tokens
	Now       func() time.Time    // the local clock: pauses and the tokens' times go by it
	// Report is told when a renewal failed, and whether that ended the login.
	Report func(login *Login, ended bool, err error)
}

// Users keeps the people whom providers vouch for, and their logins. The
// provider's tokens are sealed in the record of the login; nothing else knows
// them.
type Users struct {
	options  UsersOptions
	logins   *Logins
	renewals singleflight.Group            // by sid
	pauses   *lru.Cache[string, time.Time] // by sid: no renewal before
	slots    chan struct{}                 // renewals under way
}

// NewUsers returns the users whose logins are among logins.
func NewUsers(options UsersOptions, logins *Logins) *Users {
	pauses, err := lru.New[string, time.Time](identityCacheSize)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Users{options: options, logins: logins, pauses: pauses, slots: make(chan struct{}, renewalsAtOnce)}
}

// NewDelegatedSession returns the mechanism of sessions of users.
func NewDelegatedSessions(users *Users) *Sessions {
	return newSessions(policy.OIDC, SessionOptions{Lifetime: users.options.Lifetime}, users, users.logins)
}

// Begin saves or updates the user whom the provider vouches for, and records
// a new login with its handles. started is when the attempt
// to log in began: a logout at the provider since then is an ErrRejected.
func (u *Users) Begin(ctx context.Context, name string, grant *provider.Grant, started time.Time, handles ...Handle) (*Login, error) {
	p, ok := u.options.Providers[name]
	if !ok {
		return nil, fmt.Errorf("provider %s: not configured", name)
	}
	now := u.logins.now()
	login := &Login{ID: rand.Text(), Created: now, Expires: now.Add(u.options.Lifetime)}
	login.Delegated = &Delegation{
		Provider: name, Issuer: p.Issuer(), User: grant.Profile.Subject, Session: grant.Session,
	}
	if err := u.keep(login, grant.Tokens); err != nil {
		return nil, err
	}
	if err := u.save(ctx, login.Delegated, grant.Profile, now); err != nil {
		return nil, err
	}
	return u.logins.begin(ctx, login, started, handles)
}

// save records what the provider, asked at that time, says of somebody, unless
// it was asked again since. The record outlives every login that there is now.
func (u *Users) save(ctx context.Context, v *Delegation, profile provider.Profile, asked time.Time) error {
	value, err := json.Marshal(user{Issuer: v.Issuer, Profile: profile, Updated: asked})
	if err != nil {
		return fmt.Errorf("saving a user: %w", err)
	}
	key := userPrefix + v.Subject()
	const attempts = 10 // each time that one fails, somebody else has saved
	for range attempts {
		raw, err := u.logins.store.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("saving a user: %w", err)
		}
		if raw != nil {
			known, err := decode[user](raw)
			if err != nil {
				return fmt.Errorf("saving a user: %w", err)
			}
			if known.Issuer == v.Issuer && known.Updated.After(asked) && !isAhead(known.Updated, u.logins.now()) {
				return nil
			}
		}
		err = u.logins.store.Swap(ctx, key, raw, value, u.logins.now().Add(u.options.Lifetime))
		if !errors.Is(err, store.ErrConflict) {
			if err != nil {
				err = fmt.Errorf("saving a user: %w", err)
			}
			return err
		}
	}
	return errors.New("saving a user: others keep changing it")
}

// keep seals the tokens into the login, and notes when they are due.
func (u *Users) keep(login *Login, tokens provider.Tokens) error {
	value, err := json.Marshal(tokens)
	if err != nil {
		return fmt.Errorf("keeping the provider's tokens: %w", err)
	}
	v := login.Delegated
	v.Tokens = u.options.Box.Seal(value, loginPrefix+login.ID)
	now := u.logins.now()
	v.Renewed, v.Expires, v.RenewAt = now, tokens.Expires, time.Time{}
	if !tokens.Expires.IsZero() { // by the local clock
		v.Expires = now.Add(tokens.Expires.Sub(u.options.Now().Round(0)))
	}
	if tokens.Refresh != "" {
		v.RenewAt = renewAt(now, v.Expires)
	}
	return nil
}

// due reports whether the tokens are due to be refreshed, or the clock was set
// back since they were stored.
func (v *Delegation) due(now time.Time) bool {
	return !v.RenewAt.IsZero() && (!now.Before(v.RenewAt) || isAhead(v.Renewed, now))
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
func (u *Users) identify(ctx context.Context, login *Login, expires time.Time) (*policy.Identity, []record, error) {
	v := login.Delegated
	if v == nil {
		return nil, nil, auth.ErrRejected
	}
	// A name that stands for another issuer by now is another provider.
	if p, ok := u.options.Providers[v.Provider]; !ok || p.Issuer() != v.Issuer {
		return nil, nil, auth.ErrRejected
	}
	key := userPrefix + v.Subject()
	raw, err := u.logins.read(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	known, err := decode[user](raw)
	if err != nil {
		return nil, nil, err
	}
	if known.Issuer != v.Issuer || known.Profile.Subject != v.User {
		return nil, nil, auth.ErrRejected
	}
	return providerIdentity(v.Provider, &known.Profile, policy.OIDC, login.ID, expires), []record{{key, raw}}, nil
}

// vouchedIdentity is what somebody whom a provider vouches for looks like to
// policies and upstreams.
func providerIdentity(name string, p *provider.Profile, m policy.Mechanism, sid string, expires time.Time) *policy.Identity {
	return &policy.Identity{
		Username:  p.Username,
		Subject:   name + ":" + p.Subject,
		Name:      p.Name,
		Email:     p.Email,
		Roles:     p.Roles,
		Claims:    p.Claims,
		Mechanism: m,
		Provider:  name,
		Login:     sid,
		Expires:   expires,
	}
}
