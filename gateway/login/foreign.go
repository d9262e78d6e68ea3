package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"authgate/gateway/auth"
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

// foreign reports whether a token is none of the gateway's and of no trusted issuer, by
// what it says. Nothing is verified: a token that lies about that proves nothing.
func (b *BearerTokens) foreign(token string) bool {
	if token == "" || IsAPIToken(token) || b.own.verified.get(token) != nil || b.isTrusted(token) {
		return false
	}
	if _, refresh := parseRefresh(token); refresh {
		return false // sent here by mistake, and a secret of the user's
	}
	if !isJWT(token) || len(token) > maxTokenBytes {
		return true
	}
	return keyOf(token) != b.own.keys.id && issuerOf(token) != b.own.options.Issuer
}

// keyOf returns the kid of a JWT as far as it can be read, else nil.
func keyOf(jwt string) any { return members(strings.SplitN(jwt, ".", 3)[0])["kid"] }

// issuerOf returns the iss of a JWT as far as it can be read, else nil.
func issuerOf(jwt string) any { return members(strings.SplitN(jwt, ".", 3)[1])["iss"] }

// members decodes a part of a JWT as far as possible. Names of members are exact, as
// they are when the token is verified.
func members(part string) map[string]any {
	var all map[string]any
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		_ = json.Unmarshal(raw, &all) // a part that cannot be read names no key and no issuer
	}
	return all
}
