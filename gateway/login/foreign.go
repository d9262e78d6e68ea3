package login

import (
	"context"

	"authgate/gateway/identity/auth"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

// SharedBearer is BearerTokens for routes whose application has bearer tokens of its
// own. A token that is none of the gateway's and of no trusted issuer counts as absent,
// so that a session may prove the identity. A token that is one of theirs and not valid
// is rejected all the same.
type SharedBearer struct{ *BearerTokens }

// Authenticate implements auth.Authenticator.
func (b SharedBearer) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if creds.Scheme == "bearer" && b.foreign(creds.Value) {
		return nil, auth.ErrNoCredentials
	}
	return b.BearerTokens.Authenticate(ctx, creds)
}

// Alive implements auth.Authenticator.
func (b SharedBearer) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if creds.Scheme == "bearer" && b.foreign(creds.Value) {
		return nil, auth.ErrNoCredentials
	}
	return b.BearerTokens.Alive(ctx, creds)
}

// foreign reports whether a token claims to be neither the gateway's nor a trusted issuer's.
// Nothing is verified: a token that lies about that proves nothing.
func (b *BearerTokens) foreign(token string) bool {
	if token == "" || b.own.verified.Get(token) != nil || b.isTrusted(token) {
		return false
	}
	if isRefresh(token) {
		return false // sent here by mistake, and a secret of the user's
	}
	if !jose.HasForm(token) || len(token) > maxTokenBytes {
		return true
	}
	return jose.KeyID(token) != b.own.keys.ID() && jose.IssuerOf(token) != b.own.options.Issuer
}
