package auth

import (
	"context"

	"authgate/policy"
)

// Bearers is the mechanism of all bearer tokens: the gateway's own and those
// of outside issuers. A token goes to one of the two, by the issuer that it
// names, and what that says is final.
type Bearers struct {
	own     *Bearer
	outside *Outside // nil: no other issuer is trusted
}

// NewBearers returns the mechanism; outside may be nil.
func NewBearers(own *Bearer, outside *Outside) *Bearers {
	return &Bearers{own: own, outside: outside}
}

// Challenge implements Authenticator.
func (b *Bearers) Challenge(creds *Credentials) Challenge { return b.own.Challenge(creds) }

// Authenticate implements Authenticator.
func (b *Bearers) Authenticate(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	// A cookie carries nothing but tokens of the gateway.
	if creds.Scheme == "bearer" && b.isOutside(creds.Value) {
		known, err := b.outside.verify(ctx, creds.Value)
		if err != nil {
			return nil, err
		}
		return known.identity, nil
	}
	return b.own.Authenticate(ctx, creds)
}

// Alive implements Authenticator.
func (b *Bearers) Alive(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	if creds.Scheme == "bearer" && b.isOutside(creds.Value) {
		return b.outside.alive(ctx, creds.Value)
	}
	return b.own.Alive(ctx, creds)
}

// Revoke ends what a valid token opens, as Bearer.Revoke does. Of an outside
// token that is the token alone, and here alone.
func (b *Bearers) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	if b.isOutside(token) {
		return b.outside.revoke(ctx, token)
	}
	return b.own.Revoke(ctx, token)
}

func (b *Bearers) isOutside(token string) bool {
	return b.outside != nil && !b.own.verified.Contains(token) && b.outside.takes(token)
}
