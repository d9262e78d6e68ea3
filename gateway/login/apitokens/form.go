package apitokens

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// An API token is mark, 52 random characters and a checksum of 7, all in
// the alphabet of base32. Scanners for leaked secrets find it by its mark, and the
// checksum tells a mistake of typing or copying from a token that was revoked.
const (
	mark      = "agt_"
	random    = 52 // 260 bits
	sumLength = 7  // CRC-32
	length    = len(mark) + random + sumLength
)

// newToken returns a new token.
func newToken() string {
	start := mark + rand.Text() + rand.Text()
	return start + checksum(start)
}

// newID returns the name of a token, which is not a secret.
func newID() string { return rand.Text() }

func checksum(start string) string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(start)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum)
}

// Is reports whether a token says that it is one of the gateway's API
// tokens. It may not be a valid one.
func Is(token string) bool { return strings.HasPrefix(token, mark) }

// whole reports whether a token is complete and has no mistake.
func whole(token string) bool {
	if len(token) != length || !Is(token) {
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
	if !InPassword(creds) {
		return nil, auth.ErrNoCredentials
	}
	return p.Tokens.authenticate(ctx, creds.Value, true)
}

// Alive implements auth.Authenticator.
func (p Passwords) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	if !InPassword(creds) {
		return nil, auth.ErrNoCredentials
	}
	return p.Tokens.alive(ctx, creds.Value, true)
}

// Challenge implements auth.Authenticator.
func (p Passwords) Challenge(*auth.Credentials) auth.Challenge { return p.Ask }

// InPassword reports whether the password of Basic credentials says that
// it is an API token. It reads as much as it can of credentials that are malformed,
// so that no part of a token counts as something else.
func InPassword(creds *auth.Credentials) bool {
	if creds.Scheme != "basic" {
		return false
	}
	var space [512]byte // on the stack, for almost all credentials
	pair, _ := base64.StdEncoding.AppendDecode(space[:0], []byte(creds.Value))
	_, password, _ := bytes.Cut(pair, []byte(":"))
	return bytes.HasPrefix(password, []byte(mark))
}

// PresentsToken reports whether the Authorization header presents a token: as Bearer, or
// as the password of Basic.
func PresentsToken(creds *auth.Credentials) bool {
	return creds.Scheme == "bearer" || InPassword(creds)
}
