package provider

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

// supportedAlgorithms are those that go-oidc verifies. All are asymmetric: with a
// symmetric one, an attacker could use a public key as the secret, and "none" needs
// no key at all (RFC 8725, section 3.1).
var supportedAlgorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Types of tokens: the accepted values of typ in the header, in lower case (RFC
// 8725, section 3.11). A token without typ is accepted, too.
var (
	plainTypes       = []string{"jwt"}
	logoutTypes      = []string{"jwt", "logout+jwt"}                       // Back-Channel Logout 1.0, section 2.4
	accessTokenTypes = []string{"jwt", "at+jwt", "application/at+jwt"}     // RFC 9068, section 2.1
	forbiddenHeaders = []string{"crit", "b64", "jwk", "jku", "x5u", "x5c"} // extensions, and keys that come with the token
)

// header is the used part of a JOSE header (RFC 7515, section 4).
type header struct{ algorithm, keyID string }

// readHeader reads the header of a token in the compact form. It refuses what
// go-jose accepts and what gives one token several spellings or meanings: base64
// with unused bits, white space, and members that appear twice.
func readHeader(raw string, types []string) (header, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || strings.ContainsAny(raw, "\r\n") {
		return header{}, errors.New("is not a JWT in the compact form")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return header{}, fmt.Errorf("is not a JWT in the compact form: %w", err)
		}
	}
	members, err := decodeClaims(decoded[0])
	if err != nil {
		return header{}, fmt.Errorf("the header: %w", err)
	}
	for _, name := range forbiddenHeaders {
		if _, ok := members[name]; ok {
			return header{}, fmt.Errorf("the header has %s, which is not accepted", name)
		}
	}
	if typ, ok := members["typ"]; ok {
		typ, _ := typ.(string)
		if !slices.Contains(types, strings.ToLower(typ)) {
			return header{}, fmt.Errorf("the header's typ is %q, expected one of %q", typ, types)
		}
	}
	var h header
	h.algorithm, _ = members["alg"].(string)
	if h.keyID, _ = members["kid"].(string); h.keyID == "" {
		return header{}, errors.New("the header has no kid, so that it names no key")
	}
	return h, nil
}

// keyFor returns the one key that may have signed the token. An *Error means that
// the keys cannot be fetched, any other error that the token is not valid.
func (i *issuer) keyFor(ctx context.Context, m *metadata, raw string, types, algorithms []string) (oidc.KeySet, error) {
	if m.keys == nil {
		return nil, errors.New("there are no keys to verify it with; the issuer announces no jwks_uri")
	}
	h, err := readHeader(raw, types)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(algorithms, h.algorithm) {
		return nil, fmt.Errorf("it is signed with %q, expected one of %q", h.algorithm, algorithms)
	}
	key, err := m.keys.find(ctx, h)
	if err != nil {
		return nil, err
	}
	return &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}, nil
}

// verify lets go-oidc verify the signature, iss, exp, nbf and, if config has a
// client, aud. Then it checks what go-oidc does not. An *Error means that the keys
// cannot be fetched, any other error that the token is not valid.
func (i *issuer) verify(ctx context.Context, m *metadata, raw string, types []string, config *oidc.Config) (*oidc.IDToken, claims, error) {
	if i.id == "" {
		return nil, nil, errors.New("no issuer is configured")
	}
	config.Now = i.now
	key, err := i.keyFor(ctx, m, raw, types, config.SupportedSigningAlgs)
	if err != nil {
		return nil, nil, err
	}
	token, err := oidc.NewVerifier(i.id, key, config).Verify(ctx, raw)
	if err != nil {
		return nil, nil, err
	}
	c, err := payload(token.Claims)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.identifier("sub"); err != nil {
		return nil, nil, err
	}
	return token, c, c.checkTimes(i.now(), "exp")
}

// payload decodes the claims of a token that go-oidc has verified.
func payload(decode func(any) error) (claims, error) {
	var raw json.RawMessage
	if err := decode(&raw); err != nil {
		return nil, err
	}
	c, err := decodeClaims(raw)
	if err != nil {
		return nil, err
	}
	return c, c.checkNames()
}

// keptClaims returns the claims of an ID token that was verified when it came and
// that the caller has stored since. It may have expired by now. The result is nil if
// the token is not about subject.
func keptClaims(raw, subject string) claims {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return nil
	}
	c, err := decodeClaims(decoded)
	if err != nil || c["sub"] != subject {
		return nil
	}
	return c
}

// algorithms returns the supported algorithms that are announced, or all if none is
// announced.
func (m *metadata) algorithms() []string {
	if len(m.Algorithms) == 0 {
		return supportedAlgorithms
	}
	return slices.DeleteFunc(slices.Clone(m.Algorithms), func(name string) bool {
		return !slices.Contains(supportedAlgorithms, name)
	})
}
