package apitokens

import (
	"context"
	"errors"
	"strings"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/policy"
)

// ErrNoOwner: the user cannot have API tokens.
var ErrNoOwner = errors.New("apitokens: the user cannot have API tokens")

// Owner is a user who can have API tokens: a local account, or a user of a
// provider, if ServeUsers permits that.
type Owner struct {
	list     string // the name of the owner's list of tokens
	identity *policy.Identity
	record   tokenRecord // of a token: only what tells whose it is
}

// Roles returns the roles of the owner.
func (o *Owner) Roles() []string { return o.identity.Roles }

// accountOwner returns a local account as the owner of tokens.
func accountOwner(account *accounts.Account) *Owner {
	return &Owner{
		list:     account.Username,
		identity: account.Identity(policy.Bearer, "", time.Time{}),
		record:   tokenRecord{Username: account.Username, Version: account.Version(), Since: account.Changed()},
	}
}

// ServeUsers also gives API tokens to users of providers. They work so long after the
// provider's last word about a user; 0: users have none. It must be called before the
// tokens are in use.
func (a *Set) ServeUsers(users *login.Users, spoken time.Duration) {
	if spoken > 0 {
		a.users, a.spoken = users, spoken
	}
}

// MayOwn reports whether the user of an identity can have API tokens, as far as the
// configuration tells.
func (a *Set) MayOwn(id *policy.Identity) bool {
	if id.Provider == policy.LocalProvider {
		_, ok := a.accounts.Lookup(id.Username)
		return ok
	}
	if a.users == nil {
		return false
	}
	_, ok := a.users.Issuer(id.Provider)
	return ok
}

// Owner returns the owner of an identity's API tokens. The error is ErrNoOwner if
// the user cannot have any.
func (a *Set) Owner(ctx context.Context, id *policy.Identity) (*Owner, error) {
	if !a.MayOwn(id) {
		return nil, ErrNoOwner
	}
	if id.Provider == policy.LocalProvider {
		account, _ := a.accounts.Lookup(id.Username)
		return accountOwner(account), nil
	}
	issuer, _ := a.users.Issuer(id.Provider)
	sub, _ := strings.CutPrefix(id.Subject, id.Provider+":")
	owner := &Owner{
		// No account has this name, because names do not begin with a space.
		list:   " " + id.Subject,
		record: tokenRecord{Provider: id.Provider, Issuer: issuer, Subject: sub},
	}
	identity, err := a.holder(ctx, &owner.record)
	if errors.Is(err, auth.ErrRejected) {
		return nil, ErrNoOwner
	}
	owner.identity = identity
	return owner, err
}

// holder returns the identity of a token's owner, with all roles that the owner has now.
// It expires with the token, or when the owner stops to be known. The error is an
// ErrRejected if the owner is gone or not the same any more.
func (a *Set) holder(ctx context.Context, r *tokenRecord) (*policy.Identity, error) {
	if r.Provider == "" {
		account, ok := r.owner(a.accounts)
		if !ok {
			return nil, auth.ErrRejected
		}
		return account.Identity(policy.Bearer, "", r.Expires), nil
	}
	if a.users == nil {
		return nil, auth.ErrRejected
	}
	identity, asked, err := a.users.Known(ctx, r.Provider, r.Issuer, r.Subject)
	if err != nil {
		return nil, err
	}
	until := asked.Add(a.spoken)
	if !a.now().Before(until) {
		return nil, auth.ErrRejected
	}
	if !r.Expires.IsZero() && r.Expires.Before(until) {
		until = r.Expires
	}
	identity.Mechanism, identity.Expires = policy.Bearer, until
	return identity, nil
}

// gone returns why the token has no owner any more.
func (r *tokenRecord) gone() string {
	if r.Provider != "" {
		return "its owner has not signed in at the provider for too long, or users there have no API tokens any more"
	}
	return "its account has changed, is disabled or does not exist"
}
