package jose

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"authgate/gateway/wire/strictjson"
)

// Token is a JWT in the compact form (RFC 7515, section 3.1), before its signature is
// verified.
type Token struct {
	Header  map[string]any
	payload []byte

	signed    string // the text under the signature
	signature []byte
}

// Parse reads the form of a token. It refuses a token with several spellings: base64
// with unused bits, and white space. In a header that it returns, no member appears
// twice, and numbers are json.Number.
func Parse(raw string) (*Token, error) {
	parts := strings.SplitN(raw, ".", 4) // thousands of dots make no thousands of parts
	if len(parts) != 3 || strings.ContainsAny(raw, "\r\n") {
		return nil, errors.New("is not a JWT in the compact form")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, fmt.Errorf("is not a JWT in the compact form: %w", err)
		}
	}
	header, err := strictjson.Object(decoded[0])
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	return &Token{
		Header: header, payload: decoded[1],
		signed: raw[:strings.LastIndexByte(raw, '.')], signature: decoded[2],
	}, nil
}

// Verify verifies the signature with the key of an algorithm that the caller accepts.
// The header does not choose it.
func (t *Token) Verify(algorithm string, key any) error {
	method := jwt.GetSigningMethod(algorithm)
	if method == nil {
		return fmt.Errorf("the algorithm %q is unknown", algorithm)
	}
	return method.Verify(t.signed, t.signature, key)
}

// Claims returns the claims, which prove nothing before Verify. No member appears twice,
// and numbers are json.Number.
func (t *Token) Claims() (map[string]any, error) {
	claims, err := strictjson.Object(t.payload)
	if err != nil {
		return nil, fmt.Errorf("the claims: %w", err)
	}
	return claims, nil
}

// HasForm reports whether a text has the three parts of a token.
func HasForm(text string) bool { return strings.Count(text, ".") == 2 }

// KeyID returns the kid in the header of a token as far as it can be read, else nil.
// Nothing is verified.
func KeyID(token string) any { return peek(token, 0)["kid"] }

// IssuerOf returns the iss of a token as far as it can be read, else nil. Nothing is
// verified.
func IssuerOf(token string) any { return peek(token, 1)["iss"] }

// peek decodes a part of a token. Other readers may ignore a mistake in it, so whose
// token it may be counts also if Parse would refuse it. Names of members are exact, as
// they are when the token is verified.
func peek(token string, number int) map[string]any {
	var members map[string]any
	if parts := strings.SplitN(token, ".", 4); number < len(parts) {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[number]); err == nil {
			_ = json.Unmarshal(raw, &members) // a part that cannot be read says nothing
		}
	}
	return members
}
