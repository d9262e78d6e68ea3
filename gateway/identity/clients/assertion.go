package clients

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/gateway/wire/jose"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523, section 2.2
	// assertionPrefix begins the keys of used assertions in the store, before a hash.
	assertionPrefix = "oauthassertion:"

	maxAssertion     = 8 << 10
	maxAssertionTime = 10 * time.Minute
	clockSkew        = 30 * time.Second // how much the client's clock may be ahead
	keysRest         = time.Minute      // between two fetches for the sake of an unknown key
)

// assertion is a JWT by which a client proves who it is, before it is verified.
type assertion struct {
	token          *jose.Token
	claims         map[string]any
	subject        string
	algorithm, kid string
}

// isOfPlatform reports whether an assertion says that its subject did not issue it: a client that
// makes one itself has its identifier in both claims. One that cannot be read says nothing, and counts
// like a refused one of a platform.
func isOfPlatform(raw string) bool {
	token, err := jose.Parse(raw)
	if err != nil {
		return raw != ""
	}
	claims, err := token.Claims()
	iss, _ := claims["iss"].(string)
	return err == nil && iss != "" && claims["sub"] != iss
}

// readAssertion reads the form of an assertion. Its claims prove nothing yet.
func readAssertion(kind, raw string) (*assertion, error) {
	reject := func(format string, args ...any) (*assertion, error) {
		return nil, fmt.Errorf("%w: the client assertion %w", ErrUnauthenticated, fmt.Errorf(format, args...))
	}
	if kind != assertionType {
		return reject("has the type %.100q, expected %s", kind, assertionType)
	}
	if len(raw) > maxAssertion {
		return reject("is longer than %d bytes", maxAssertion)
	}
	token, err := jose.Parse(raw)
	if err != nil {
		return reject("%w", err)
	}
	a := &assertion{token: token}
	if a.claims, err = token.Claims(); err != nil {
		return reject("%w", err)
	}
	for _, name := range []string{"crit", "b64", "jwk"} { // extensions, and a key that comes with it
		if _, ok := token.Header[name]; ok {
			return reject("has %s in its header, which is not accepted", name)
		}
	}
	if typ, ok := token.Header["typ"]; ok {
		typ, _ := typ.(string)
		if !slices.Contains([]string{"jwt", "client-authentication+jwt"}, strings.ToLower(typ)) {
			return reject("has the typ %.50q, expected JWT", typ)
		}
	}
	a.algorithm, _ = token.Header["alg"].(string)
	a.kid, _ = token.Header["kid"].(string)
	if known := config.AssertionAlgorithms(); !slices.Contains(known, a.algorithm) {
		return reject("is signed with %.50q, expected %s", a.algorithm, strings.Join(known, " or "))
	}
	if a.subject, _ = a.claims["sub"].(string); a.subject == "" || a.claims["iss"] != a.subject {
		return reject("must have the client identifier in iss and sub")
	}
	return a, nil
}

// checkAssertion checks that the client has made an assertion, for one of the audiences of a request,
// and that it was not used before.
func (s *Set) checkAssertion(ctx context.Context, client *Client, a *assertion, p *Presented) error {
	if a.subject != client.ID {
		return fmt.Errorf("%w: the client assertion is of %.100q", ErrUnauthenticated, a.subject)
	}
	key, err := s.keyOf(ctx, client, a, p.Address)
	_, refused := errors.AsType[*auth.StartsError](err)
	if refused || errors.Is(err, ErrUnreachable) || err != nil && ctx.Err() != nil {
		return err
	}
	if err == nil {
		err = a.token.Verify(a.algorithm, key)
	}
	var expires time.Time
	if err == nil {
		expires, err = a.checkClaims(s.now(), p.Audience)
	}
	if err != nil {
		return fmt.Errorf("%w: the client assertion: %w", ErrUnauthenticated, err)
	}
	id, _ := a.claims["jti"].(string)
	used := assertionPrefix + record.Hash([]byte(client.ID+"\x00"+id))
	err = s.store.Swap(ctx, used, nil, []byte{}, expires)
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: the client assertion was used before", ErrUnauthenticated)
	}
	return err
}

// checkClaims checks the claims, and returns when the assertion expires.
func (a *assertion) checkClaims(now time.Time, audiences []string) (expires time.Time, err error) {
	expires, given, err := a.date("exp")
	switch {
	case err != nil || !given:
		return expires, errors.New("exp must be there, a number of seconds")
	case !now.Before(expires):
		return expires, errors.New("it has expired")
	case expires.After(now.Add(maxAssertionTime + clockSkew)):
		return expires, fmt.Errorf("exp is more than %v ahead", maxAssertionTime)
	}
	for _, name := range []string{"nbf", "iat"} {
		if at, _, err := a.date(name); err != nil || at.After(now.Add(clockSkew)) {
			return expires, fmt.Errorf("%s is in the future, or no number", name)
		}
	}
	if id, _ := a.claims["jti"].(string); id == "" {
		return expires, errors.New("jti must be there, so that it is used once")
	}
	return expires, a.checkAudience(audiences)
}

// date returns the time of a claim, the zero time if it is not given.
func (a *assertion) date(name string) (at time.Time, given bool, err error) {
	value, given := a.claims[name]
	if !given {
		return at, false, nil
	}
	number, ok := value.(json.Number)
	seconds, err := number.Float64()
	if !ok || err != nil || seconds < 0 || seconds > 1e11 {
		return at, true, errors.New("is no date")
	}
	return time.Unix(int64(seconds), 0), true, nil
}

// checkAudience checks that the assertion is for this server, and for no other, which could
// use it here.
func (a *assertion) checkAudience(audiences []string) error {
	given, ok := a.claims["aud"].([]any)
	if !ok {
		given = []any{a.claims["aud"]}
	}
	for _, one := range given {
		if text, ok := one.(string); !ok || text == "" || !slices.Contains(audiences, text) {
			return fmt.Errorf("aud has %.200q, expected one of %q alone", fmt.Sprint(one), audiences)
		}
	}
	if len(given) == 0 {
		return errors.New("aud is empty")
	}
	return nil
}

// keyOf returns the key that must have made the signature. If none has the kid, the keys may
// have been replaced, and are fetched again.
func (s *Set) keyOf(ctx context.Context, client *Client, a *assertion, from netip.Addr) (crypto.PublicKey, error) {
	keys, err := s.keysOf(ctx, client, from, time.Time{})
	if err == nil && a.kid != "" && !keys.Has(a.kid) {
		keys, err = s.keysOf(ctx, client, from, s.now().Add(-keysRest))
	}
	if err != nil {
		return nil, err
	}
	if a.kid == "" {
		return keys.Only(a.algorithm)
	}
	return keys.Find(a.kid, a.algorithm)
}

// keysOf returns the keys of a client, fetched not before since.
func (s *Set) keysOf(
	ctx context.Context, client *Client, from netip.Addr, since time.Time,
) (*jose.PublicKeys, error) {
	switch {
	case client.keys == nil && client.Configured:
		return s.ownKeys[client.ID].get(ctx, client.keysURI, from, since)
	case client.keys == nil:
		return s.keys.get(ctx, client.keysURI, from, since)
	case client.Configured, since.IsZero():
		return client.keys, nil
	}
	client, err := s.documents.get(ctx, client.ID, from, since)
	if err != nil {
		return nil, err
	}
	if client.keys == nil {
		return nil, errors.New("its document has no jwks any more")
	}
	return client.keys, nil
}
