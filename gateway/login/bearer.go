package login

import (
	"context"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/trusted"
	"authgate/policy"
)

// BearerTokens is the mechanism for the bearer tokens of logins and of trusted issuers.
// The origin that a token claims selects who verifies it, and that decision is final.
type BearerTokens struct {
	own     *AccessTokens
	trusted *trusted.Tokens // nil: no other issuer is trusted
}

// NewBearerTokens returns the mechanism. trusted may be nil.
func NewBearerTokens(own *AccessTokens, trusted *trusted.Tokens) *BearerTokens {
	return &BearerTokens{own: own, trusted: trusted}
}

// Challenge implements auth.Authenticator.
func (b *BearerTokens) Challenge(creds *auth.Credentials) auth.Challenge {
	return b.own.Challenge(creds)
}

// Authenticate implements auth.Authenticator.
func (b *BearerTokens) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	// Cookies hold only access tokens of the gateway.
	if creds.Scheme == "bearer" && b.isTrusted(creds.Value) {
		return b.trusted.Authenticate(ctx, creds.Value)
	}
	return b.own.Authenticate(ctx, creds)
}

// Alive implements auth.Authenticator.
func (b *BearerTokens) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if creds.Scheme == "bearer" && b.isTrusted(creds.Value) {
		return b.trusted.Alive(ctx, creds.Value)
	}
	return b.own.Alive(ctx, creds)
}

// Revoke revokes a valid token and ends its login; see AccessTokens.Revoke. It revokes a token of a
// trusted issuer only in this gateway.
func (b *BearerTokens) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	if b.isTrusted(token) {
		return b.trusted.Revoke(ctx, token)
	}
	return b.own.Revoke(ctx, token)
}

func (b *BearerTokens) isTrusted(token string) bool {
	return b.trusted != nil && b.own.verified.Get(token) == nil && b.trusted.Accepts(token, isRefresh)
}
