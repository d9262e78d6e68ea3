package apitokens

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"

	"authgate/gateway/identity/auth"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// An API token is its mark, 52 random characters and a checksum of 7, all in the alphabet of base32.
// The checksum tells a mistake of typing or copying from a token that was revoked.
const (
	random    = 52 // 260 bits
	sumLength = 7  // CRC-32
	length    = len(auth.APITokenMark) + random + sumLength
)

// newToken returns a new token.
func newToken() string {
	start := auth.APITokenMark + rand.Text() + rand.Text()
	return start + checksum(start)
}

// newID returns the name of a token, which is not a secret.
func newID() string { return rand.Text() }

func checksum(start string) string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(start)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum)
}

// whole reports whether a token is complete and has no mistake.
func whole(token string) bool {
	if len(token) != length || !auth.IsAPIToken(token) {
		return false
	}
	at := len(token) - sumLength
	return token[at:] == checksum(token[:at])
}

// keyOf returns the store key of a token.
func keyOf(token string) string { return tokenPrefix + record.Hash([]byte(token)) }

// Passwords is the mechanism for API tokens as the password of Basic
// credentials, for clients that know nothing else (git, npm, docker). It decides
// about every password that says that it is such a token, and comes before Basic.
type Passwords struct {
	Tokens *Set
	// Ask is the challenge, empty for none.
	Ask auth.Challenge
}

// Authenticate implements auth.Authenticator.
func (p Passwords) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if !creds.APITokenInPassword() {
		return nil, auth.ErrNoCredentials
	}
	return p.Tokens.authenticate(ctx, creds.Value, true)
}

// Alive implements auth.Authenticator.
func (p Passwords) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if !creds.APITokenInPassword() {
		return nil, auth.ErrNoCredentials
	}
	return p.Tokens.alive(ctx, creds.Value, true)
}

// Challenge implements auth.Authenticator.
func (p Passwords) Challenge(*auth.Credentials) auth.Challenge { return p.Ask }
