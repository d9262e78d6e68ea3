package login

import (
	"encoding/base64"
	"strings"

	"authgate/gateway/wire/jose"
)

// ContainsOwn reports whether the value of an Authorization header contains a recognizable access
// or refresh token of a login, or a text for which also is true. The scheme and other text in the
// value do not matter, and the token may be encoded as the credentials of Basic are. An application
// must not get it: with the token it could act as the user.
//
// The token need not be valid. Its checksum or its key tells whose it is, so that nothing
// is looked up, and no signature is verified for tokens of others.
func (b *BearerTokens) ContainsOwn(authorization string, also func(text string) bool) bool {
	if also(authorization) || b.holdsOwn(authorization) {
		return true
	}
	for word := range strings.FieldsFuncSeq(authorization, notBase64) {
		if len(word) < shortestOwn {
			continue // too short for any of them
		}
		// Other decoders may ignore an error, so the text before it counts.
		decoded, _ := base64.RawStdEncoding.DecodeString(base64URL.Replace(word))
		if text := string(decoded); also(text) || b.holdsOwn(text) {
			return true
		}
	}
	return false
}

// shortestOwn is below the encoded length of any token of the gateway.
const shortestOwn = 64

// base64URL turns the alphabet of base64url into that of base64.
var base64URL = strings.NewReplacer("-", "+", "_", "/")

// holdsOwn is ContainsOwn for tokens that are not encoded.
func (b *BearerTokens) holdsOwn(text string) bool {
	for word := range strings.FieldsFuncSeq(text, notJWT) {
		if isRefresh(word) || b.own.recognizes(word) {
			return true
		}
	}
	return false
}

// recognizes reports whether a token is an access token that was signed with the
// gateway's key. The gateway names the key in each of its tokens. A token that does not
// name it may be of an application at the same URL, or be signed elsewhere with the same
// key: its signature tells.
func (a *AccessTokens) recognizes(token string) bool {
	if !jose.HasForm(token) || len(token) > maxTokenBytes {
		return false
	}
	if kid := jose.KeyID(token); kid != nil {
		return kid == a.keys.ID()
	}
	return jose.IssuerOf(token) == a.options.Issuer && a.reader.Signed(token)
}

func notBase64(r rune) bool { return !isToken(r) && r != '+' && r != '/' }

func notJWT(r rune) bool { return !isToken(r) && r != '.' }

// isToken reports whether a character is one of base64url (RFC 4648, section 5).
func isToken(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}
