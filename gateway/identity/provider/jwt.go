package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"authgate/gateway/wire/jose"
)

// supportedAlgorithms are those whose signatures are verified. All are asymmetric: with a
// symmetric one, an attacker could use a public key as the secret, and "none" needs
// no key at all (RFC 8725, section 3.1).
var supportedAlgorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// tokenForm is the form that the header of a kind of token must have.
type tokenForm struct {
	types []string // accepted values of typ, in lower case (RFC 8725, section 3.11)
	typed bool     // typ is needed
	// keyless tokens may have no kid, if the issuer has one key alone.
	keyless bool
}

// The forms of tokens.
var (
	plainForm = tokenForm{types: []string{"jwt"}}
	// logoutForm is that of Back-Channel Logout 1.0, section 2.4.
	logoutForm    = tokenForm{types: []string{"jwt", "logout+jwt"}}
	accessForm    = tokenForm{types: []string{"jwt", "at+jwt", "application/at+jwt"}} // RFC 9068, section 2.1
	assertionForm = tokenForm{types: []string{"jwt", "jose"}, keyless: true}          // RFC 7523, section 3
	// crossAppForm is that of draft-ietf-oauth-identity-assertion-authz-grant, section 4.
	crossAppForm = tokenForm{types: []string{CrossAppType, "application/" + CrossAppType}, typed: true, keyless: true}
)

// forbiddenHeaders are extensions, and a key that comes with the token. The other
// parameters that could lead to a key (jku, x5u, x5c) are common, and ignored.
var forbiddenHeaders = []string{"crit", "b64", "jwk"}

// header is the used part of a JOSE header (RFC 7515, section 4).
type header struct{ algorithm, keyID string }

// readHeader reads the members of a header.
func readHeader(members map[string]any, form tokenForm) (header, error) {
	for _, name := range forbiddenHeaders {
		if _, ok := members[name]; ok {
			return header{}, fmt.Errorf("the header has %s, which is not accepted", name)
		}
	}
	if typ, ok := members["typ"]; ok || form.typed {
		typ, _ := typ.(string)
		if !slices.Contains(form.types, strings.ToLower(typ)) {
			return header{}, fmt.Errorf("the header's typ is %q, expected one of %q", typ, form.types)
		}
	}
	var h header
	h.algorithm, _ = members["alg"].(string)
	if h.keyID, _ = members["kid"].(string); h.keyID == "" && !form.keyless {
		return header{}, errors.New("the header has no kid, so that it names no key")
	}
	return h, nil
}

// open verifies the signature of a token by the one key that may have signed it,
// and returns its claims and algorithm. It checks no claim. An *Error means that the
// keys cannot be fetched, any other error that the token is not valid.
//
// go-oidc is not used here, because it refuses tokens for members that the gateway does not use.
func (i *issuer) open(
	ctx context.Context, m *metadata, raw string, form tokenForm, algorithms []string,
) (c claims, algorithm string, err error) {
	if m.keys == nil {
		return nil, "", errors.New("there are no keys to verify it with; the issuer announces no jwks_uri")
	}
	token, err := jose.Parse(raw)
	if err != nil {
		return nil, "", err
	}
	h, err := readHeader(token.Header, form)
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(algorithms, h.algorithm) {
		return nil, "", fmt.Errorf("it is signed with %q, expected one of %q", h.algorithm, algorithms)
	}
	if err := m.keys.verify(ctx, token, h); err != nil {
		return nil, "", err
	}
	if c, err = token.Claims(); err != nil {
		return nil, "", err
	}
	return c, h.algorithm, c.checkNames()
}

// verify opens a token of the issuer, and checks iss and the times. exp is required.
func (i *issuer) verify(
	ctx context.Context, m *metadata, raw string, form tokenForm, algorithms []string,
) (c claims, algorithm string, err error) {
	c, algorithm, err = i.open(ctx, m, raw, form, algorithms)
	if err != nil {
		return nil, "", err
	}
	return c, algorithm, i.checkIssued(c)
}

// checkIssued checks iss and the times of a token. exp is required.
func (i *issuer) checkIssued(c claims) error {
	if i.id == "" {
		return errors.New("no issuer is configured")
	}
	if iss := c["iss"]; iss != i.id && (iss != googleShort || i.id != google) {
		return fmt.Errorf("iss is %s, expected %q", quoted(iss), i.id)
	}
	return c.checkTimes(i.now(), "exp")
}

// Google has issued tokens with a shorter iss than its metadata says.
const google, googleShort = "https://accounts.google.com", "accounts.google.com"

// keptClaims returns the claims of an ID token that was verified when it came and
// that the caller has stored since. It may have expired by now. The result is nil if
// the token is not about subject.
func keptClaims(raw, subject string) claims {
	token, err := jose.Parse(raw)
	if err != nil {
		return nil
	}
	c, err := token.Claims()
	if err != nil || c["sub"] != subject {
		return nil
	}
	return c
}

// accepted returns the supported algorithms that are configured, or else those that are announced.
func (m *metadata) accepted(configured []string) []string {
	if len(configured) > 0 {
		m = &metadata{Algorithms: configured}
	}
	return m.algorithms()
}

// noKeys is the error for tokens of an issuer without keys.
func (i *issuer) noKeys() error {
	return i.client.fail("keys", errors.New("the issuer announces no jwks_uri, so its tokens cannot be verified"))
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
