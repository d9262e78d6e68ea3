package apitokens

import (
	"context"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/policy"
)

// Bearers is the mechanism for all bearer tokens. It decides about every token that says
// that it is an API token. No other mechanism sees such a token, and no other issuer.
type Bearers struct {
	inFront
	others *login.BearerTokens
	lent   func(text string) bool
}

// NewBearers returns the mechanism for API tokens and other bearer tokens. lent reports whether a
// text contains a secret of OAuth clients.
func NewBearers(tokens *Set, others *login.BearerTokens, lent func(text string) bool) *Bearers {
	return &Bearers{inFront{others, tokens}, others, lent}
}

// Shared returns the mechanism for routes whose application has bearer tokens of its own;
// see login.SharedBearer.
func (b *Bearers) Shared() auth.Authenticator {
	return inFront{login.SharedBearer{BearerTokens: b.others}, b.tokens}
}

// Revoke is login.BearerTokens.Revoke. It does not revoke an API token.
func (b *Bearers) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	if auth.IsAPIToken(token) {
		return nil, auth.ErrRejected
	}
	return b.others.Revoke(ctx, token)
}

// ContainsOwn is login.BearerTokens.ContainsOwn, also for API tokens and the secrets of OAuth clients.
func (b *Bearers) ContainsOwn(authorization string) bool {
	return b.others.ContainsOwn(authorization, func(text string) bool {
		return holdsWhole(text) || b.lent(text)
	})
}

// holdsWhole reports whether a text has an API token without a mistake in it.
func holdsWhole(text string) bool {
	for {
		at := strings.Index(text, auth.APITokenMark)
		if at < 0 {
			return false
		}
		text = text[at:]
		if len(text) >= length && whole(text[:length]) {
			return true
		}
		text = text[len(auth.APITokenMark):]
	}
}

// inFront is API tokens as bearer tokens, in front of the mechanism for all others.
type inFront struct {
	auth.Authenticator
	tokens *Set
}

// Authenticate implements auth.Authenticator.
func (f inFront) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	// Cookies hold only access tokens of logins.
	if creds.BearsAPIToken() {
		return f.tokens.authenticate(ctx, creds.Value, false)
	}
	return f.Authenticator.Authenticate(ctx, creds)
}

// Alive implements auth.Authenticator.
func (f inFront) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if creds.BearsAPIToken() {
		return f.tokens.alive(ctx, creds.Value, false)
	}
	return f.Authenticator.Alive(ctx, creds)
}
