package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"authgate/policy"
)

// TrustedOptions configure a Trusted.
type TrustedOptions struct {
	Issuer        string
	Audience      []string // a token must be for one of them; empty: none is valid
	Algorithms    []string // asymmetric only; empty: the announced ones
	Mapping       Mapping
	Introspection *Introspection // nil: opaque tokens are not accepted
	KeysURL       string         // instead of discovery; may be empty
	// CredentialFile has the bearer token of each call to the hosts of Issuer, KeysURL and Introspection.URL.
	// Without it, it is empty.
	CredentialFile string
	Connection     // to the issuer
}

// Introspection configures the introspection of opaque tokens (RFC 7662).
type Introspection struct {
	URL    string // empty: the announced introspection_endpoint
	Client Client // zero with TrustedOptions.CredentialFile
}

// Trusted is an outside issuer whose access tokens are accepted. It is safe
// for concurrent use.
type Trusted struct {
	*issuer
	options TrustedOptions
	mapping mapping
}

// AccessToken is the content of a valid access token.
type AccessToken struct {
	Profile Profile
	Scopes  []string
	ID      string    // jti; may be empty
	Expires time.Time // zero only if introspection does not tell
}

// Identity returns whom the token names. name is that of its issuer in the configuration.
func (a *AccessToken) Identity(name string) *policy.Identity {
	id := a.Profile.Identity(name, policy.Bearer, "", a.Expires)
	id.Scopes = a.Scopes
	return id
}

// NewTrusted returns a Trusted. It does not use the network.
func NewTrusted(o TrustedOptions) *Trusted {
	i := newIssuer(o.Issuer, o.Issuer, o.Connection)
	if o.KeysURL != "" {
		i.given, i.needed = &metadata{Keys: o.KeysURL, keys: i.newKeySet(o.KeysURL)}, []string{"jwks_uri"}
	}
	if o.CredentialFile != "" {
		places := []string{o.Issuer, o.KeysURL}
		if o.Introspection != nil {
			places = append(places, o.Introspection.URL)
		}
		i.client.present(newCredential(o.CredentialFile, i.logger, places))
	}
	return &Trusted{issuer: i, options: o, mapping: mapping{o.Mapping, i.logger}}
}

// Close stops background work and closes idle connections.
func (t *Trusted) Close() { t.close() }

// Issuer returns the issuer identifier.
func (t *Trusted) Issuer() string { return t.options.Issuer }

// Verify verifies a JWT access token (RFC 9068, RFC 7519): the signature by a key of
// the issuer, the algorithm, iss, aud, exp, nbf, iat, sub, and the form. The error is
// ErrInvalid if the token is not valid, and otherwise ErrFault or ErrTimeout.
func (t *Trusted) Verify(ctx context.Context, raw string) (*AccessToken, error) {
	m, err := t.metadata(ctx)
	if err != nil {
		return nil, err
	}
	if m.keys == nil {
		return nil, t.noKeys()
	}
	c, _, err := t.verify(ctx, m, raw, accessForm, m.accepted(t.options.Algorithms))
	if err != nil {
		return nil, t.invalid("access token", err)
	}
	return t.readAccess(c)
}

// Describe is Verify for the claims of a token that is described and not signed. iss, aud and exp count
// as right if they are missing. Numbers are json.Number.
func (t *Trusted) Describe(described map[string]any) (*AccessToken, error) {
	c := claims{"iss": t.options.Issuer, "exp": json.Number(strconv.FormatInt(t.now().Add(time.Hour).Unix(), 10))}
	if len(t.options.Audience) > 0 {
		c["aud"] = t.options.Audience[0]
	}
	maps.Copy(c, described)
	err := c.checkNames()
	if err == nil {
		err = t.checkIssued(c)
	}
	if err == nil && c["iss"] != t.options.Issuer { // a token is found by it, without Google's short form
		err = fmt.Errorf("iss is %s, expected %q", quoted(c["iss"]), t.options.Issuer)
	}
	if err != nil {
		return nil, t.invalid("access token", err)
	}
	return t.readAccess(c)
}

// readAccess checks what only access tokens must have, and returns the token with these claims.
func (t *Trusted) readAccess(c claims) (*AccessToken, error) {
	err := t.checkAccess(c)
	if err == nil {
		err = c.checkAudience(t.options.Audience...)
	}
	if err != nil {
		return nil, t.invalid("access token", err)
	}
	return t.accessToken("access token", c)
}

// checkAccess refuses valid tokens that are not bearer access tokens: an ID token or a
// logout token (RFC 8725, section 3.12), and a token that is bound to a key, whose
// possession is not proved here (RFC 7800).
func (t *Trusted) checkAccess(c claims) error {
	for _, name := range []string{"nonce", "at_hash", "events"} {
		if _, ok := c.present(name); ok {
			return fmt.Errorf("it has %s, so it is no access token", name)
		}
	}
	if _, ok := c.present("cnf"); ok {
		return errors.New("it has cnf: it is bound to a key, and cannot be accepted of a bearer")
	}
	return nil
}

// accessToken makes an AccessToken from verified claims. A claim that cannot be used
// counts as absent, unless it proves the token.
func (t *Trusted) accessToken(operation string, c claims) (*AccessToken, error) {
	subject, err := c.subject()
	if err != nil {
		return nil, t.invalid(operation, err)
	}
	expires, _, err := c.date("exp")
	if err != nil {
		return nil, t.invalid(operation, err)
	}
	id, _ := c["jti"].(string)
	c = t.mapping.bounded(c)
	profile := t.mapping.profile(subject, t.mapping.rolesOf(c), c)
	return &AccessToken{Profile: profile, Scopes: scopesOf(c), ID: id, Expires: expires}, nil
}

// scopesOf reads scope, a string of words (RFC 9068, section 2.2.3; RFC 7662, section
// 2.2), or scp, which some issuers use instead. Either may be an array of strings.
func scopesOf(c claims) []string {
	for _, name := range []string{"scope", "scp"} {
		switch value := c[name].(type) {
		case string:
			if words := strings.Fields(value); len(words) > 0 {
				return words
			}
		case []any:
			if words, err := stringsOf(name, value); err == nil {
				return words
			}
		}
	}
	return nil
}

func (t *Trusted) invalid(operation string, err error) error {
	return fail(t.options.Issuer, operation, ErrInvalid, err)
}
