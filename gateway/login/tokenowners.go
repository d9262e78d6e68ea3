package login

import (
	"context"
	"errors"
	"strings"
	"time"

	"authgate/gateway/accounts"
	"authgate/gateway/auth"
	"authgate/policy"
)

// ErrNoTokenOwner: the user cannot have API tokens.
var ErrNoTokenOwner = errors.New("login: the user cannot have API tokens")

// TokenOwner is a user who can have API tokens: a local account, or a user of a
// provider, if UsersOptions.APITokens permits that.
type TokenOwner struct {
	list     string // the name of the owner's list of tokens
	identity *policy.Identity
	record   apiTokenRecord // of a token: only what tells whose it is
}

// Roles returns the roles of the owner.
func (o *TokenOwner) Roles() []string { return o.identity.Roles }

// accountOwner returns a local account as the owner of tokens.
func accountOwner(account *accounts.Account) *TokenOwner {
	return &TokenOwner{
		list:     account.Username,
		identity: account.Identity(policy.Bearer, "", time.Time{}),
		record:   apiTokenRecord{Username: account.Username, Version: account.Version(), Since: account.Changed()},
	}
}

// ServeUsers also gives API tokens to users of providers. It must be called before
// the tokens are in use.
func (a *APITokens) ServeUsers(users *Users) {
	if users.options.APITokens > 0 {
		a.users = users
	}
}

// MayOwn reports whether the user of an identity can have API tokens, as far as the
// configuration tells.
func (a *APITokens) MayOwn(id *policy.Identity) bool {
	if id.Provider == policy.LocalProvider {
		_, ok := a.accounts.Lookup(id.Username)
		return ok
	}
	return a.users != nil && a.users.options.Providers[id.Provider] != nil
}

// Owner returns the owner of an identity's API tokens. The error is ErrNoTokenOwner if
// the user cannot have any.
func (a *APITokens) Owner(ctx context.Context, id *policy.Identity) (*TokenOwner, error) {
	if !a.MayOwn(id) {
		return nil, ErrNoTokenOwner
	}
	if id.Provider == policy.LocalProvider {
		account, _ := a.accounts.Lookup(id.Username)
		return accountOwner(account), nil
	}
	sub, _ := strings.CutPrefix(id.Subject, id.Provider+":")
	owner := &TokenOwner{
		// No account has this name, because names do not begin with a space.
		list: " " + id.Subject,
		record: apiTokenRecord{
			Provider: id.Provider, Issuer: a.users.options.Providers[id.Provider].Issuer(), Subject: sub,
		},
	}
	identity, err := a.holder(ctx, &owner.record)
	if errors.Is(err, auth.ErrRejected) {
		return nil, ErrNoTokenOwner
	}
	owner.identity = identity
	return owner, err
}

// holder returns the identity of a token's owner, with all roles that the owner has now.
// It expires with the token, or when the owner stops to be known. The error is an
// ErrRejected if the owner is gone or not the same any more.
func (a *APITokens) holder(ctx context.Context, r *apiTokenRecord) (*policy.Identity, error) {
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
	known, _, err := a.users.known(ctx, &delegation{Provider: r.Provider, Issuer: r.Issuer, User: r.Subject})
	if err != nil {
		return nil, err
	}
	until := known.Updated.Add(a.users.options.APITokens)
	if !a.logins.now().Before(until) {
		return nil, auth.ErrRejected
	}
	if !r.Expires.IsZero() && r.Expires.Before(until) {
		until = r.Expires
	}
	return providerIdentity(r.Provider, &known.Profile, policy.Bearer, "", until), nil
}

// gone returns why the token has no owner any more.
func (r *apiTokenRecord) gone() string {
	if r.Provider != "" {
		return "its owner has not signed in at the provider for too long, or users there have no API tokens any more"
	}
	return "its account has changed, is disabled or does not exist"
}
