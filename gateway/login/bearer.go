package login

import (
	"context"

	"authgate/gateway/auth"
	"authgate/policy"
)

// Bearers is the mechanism of all bearer tokens: the gateway's own and those
// of outside issuers. A token goes to one of the two, by the issuer that it
// names, and what that says is final.
type BearerTokens struct {
	own     *AccessTokens
	trusted *TrustedTokens // nil: no other issuer is trusted
}

// NewBearers returns the mechanism; outside may be nil.
func NewBearerTokens(own *AccessTokens, outside *TrustedTokens) *BearerTokens {
	return &BearerTokens{own: own, trusted: outside}
}

// Challenge implements Authenticator.
func (b *BearerTokens) Challenge(creds *auth.Credentials) auth.Challenge {
	return b.own.Challenge(creds)
}

// Authenticate implements Authenticator.
func (b *BearerTokens) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	// A cookie carries nothing but tokens of the gateway.
	if creds.Scheme == "bearer" && b.isOutside(creds.Value) {
		known, err := b.trusted.verify(ctx, creds.Value)
		if err != nil {
			return nil, err
		}
		return known.identity, nil
	}
	return b.own.Authenticate(ctx, creds)
}

// Alive implements Authenticator.
func (b *BearerTokens) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if creds.Scheme == "bearer" && b.isOutside(creds.Value) {
		return b.trusted.alive(ctx, creds.Value)
	}
	return b.own.Alive(ctx, creds)
}

// Revoke ends what a valid token opens, as Bearer.Revoke does. Of an outside
// token that is the token alone, and here alone.
func (b *BearerTokens) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	if b.isOutside(token) {
		return b.trusted.revoke(ctx, token)
	}
	return b.own.Revoke(ctx, token)
}

func (b *BearerTokens) isOutside(token string) bool {
	return b.trusted != nil && !b.own.verified.Contains(token) && b.trusted.takes(token)
}
