package login

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"authgate/gateway/auth"
	"authgate/gateway/jose"
	"authgate/gateway/lru"
	"authgate/gateway/provider"
	"authgate/gateway/record"
	"authgate/gateway/store"
	"authgate/policy"
)

const (
	// trustedFresh is how long the verification of a JWT is valid, so that keys
	// which the issuer has withdrawn go out of use.
	trustedFresh = 5 * time.Minute
	// opaqueFresh is how long the result of an introspection is valid, positive
	// or negative. For that long the gateway accepts a token that was revoked.
	opaqueFresh = 10 * time.Second
	// againTime is the time limit for verifying a token of an open stream again.
	// againPause is the shortest time between two such verifications.
	againTime, againPause = 10 * time.Second, 2 * time.Second
	// opaqueAtOnce is the maximum number of introspections at the same time.
	opaqueAtOnce = 32
	// trustedUnknown is how long the revocation of a token is stored if the
	// token's expiry is unknown.
	trustedUnknown = 30 * 24 * time.Hour
)

// TokenIssuer verifies the access tokens of one trusted issuer; see provider.Trusted.
// The error is provider.ErrInvalid if the token is not valid. Any other error means that
// the answer is unknown. Implementations are safe for concurrent use.
type TokenIssuer interface {
	// Issuer returns the iss of the issuer's tokens.
	Issuer() string
	// Verify verifies a JWT.
	Verify(ctx context.Context, raw string) (*provider.AccessToken, error)
	// Introspect asks the issuer about an opaque token.
	Introspect(ctx context.Context, raw string) (*provider.AccessToken, error)
}

// TrustedIssuer is an issuer whose tokens are accepted.
type TrustedIssuer struct {
	Name   string // the provider in the identities of its tokens
	Opaque bool   // whether tokens that are not JWTs are introspected at this issuer
	TokenIssuer
}

// TrustedTokens verifies the bearer tokens of trusted issuers; see BearerTokens.
type TrustedTokens struct {
	byIssuer map[string]TrustedIssuer
	opaque   *TrustedIssuer // nil: no issuer is asked about opaque tokens
	logins   *Logins
	now      func() time.Time
	verified record.Cache[trustedToken] // by token
	// refused has tokens that are not valid, by hash, with the time until which
	// that is known. It is a cache of its own, so that a flood of invalid tokens
	// removes no valid one.
	refused *lru.Cache[string, time.Time]
	again   *lru.Cache[string, time.Time] // by token: no verification for an open stream before this time
	asking  singleflight.Group            // introspections, by the token's hash
	slots   chan struct{}
}

// errNotActive refuses a token that its issuer calls not active.
var errNotActive = badToken("its issuer says that it is not active")

// errUnverified: the token is being verified again.
var errUnverified = errors.New("the token is being verified")

// trustedToken is what is known about a valid token.
type trustedToken struct {
	identity   *policy.Identity
	expires    time.Time // zero: unknown
	fresh      time.Time // the token must be verified again after this time
	revokedKey string    // store key of the token's revocation
}

// NewTrustedTokens returns the verifier of the tokens of issuers. Package config makes
// sure that their values of iss are different and not empty, and that at most one issuer
// is opaque. now is the local clock.
func NewTrustedTokens(issuers []TrustedIssuer, logins *Logins, now func() time.Time) (*TrustedTokens, error) {
	t := &TrustedTokens{
		byIssuer: make(map[string]TrustedIssuer, len(issuers)), logins: logins, now: now,
		verified: record.NewCache[trustedToken](), refused: lru.New[string, time.Time](record.CacheSize),
		again: lru.New[string, time.Time](record.CacheSize), slots: make(chan struct{}, opaqueAtOnce),
	}
	for _, issuer := range issuers {
		t.byIssuer[issuer.Issuer()] = issuer
		if issuer.Opaque {
			t.opaque = &issuer
		}
	}
	return t, nil
}

// issuerOf returns the issuer that the token names. Nothing is verified yet. If the token
// is of another issuer, its signature will not be valid.
func (t *TrustedTokens) issuerOf(token string) (TrustedIssuer, bool) {
	if !jose.HasForm(token) {
		// Do not tell another issuer a refresh token that a client sent by mistake.
		if _, own := parseRefresh(token); own || t.opaque == nil {
			return TrustedIssuer{}, false
		}
		return *t.opaque, true
	}
	name, _ := jose.IssuerOf(token).(string)
	issuer, ok := t.byIssuer[name]
	return issuer, ok
}

// accepts reports whether the token is one of a trusted issuer, by what it says.
func (t *TrustedTokens) accepts(token string) bool {
	if len(token) > maxTokenBytes {
		return false
	}
	if t.verified.Get(token) != nil {
		return true
	}
	_, ok := t.issuerOf(token)
	return ok
}

// verify returns what is known about a valid token. The errors are those of
// auth.Authenticator.
func (t *TrustedTokens) verify(ctx context.Context, token string) (*trustedToken, error) {
	now := t.now()
	known := t.verified.Get(token)
	if known == nil || !now.Before(known.fresh) {
		if until, refused := t.refused.Get(record.Hash([]byte(token))); refused && now.Before(until) {
			return nil, errNotActive
		}
		var err error
		if known, err = t.ask(ctx, token); err != nil {
			return nil, err
		}
		t.verified.Keep(token, known)
	}
	if err := t.good(ctx, known, now); err != nil {
		return nil, err
	}
	return known, nil
}

// good checks that a verified token has not expired and is not revoked.
func (t *TrustedTokens) good(ctx context.Context, known *trustedToken, now time.Time) error {
	// The clock of the store counts too, because the revocation expires by it.
	if !known.expires.IsZero() && (!now.Before(known.expires) || !t.logins.now().Before(known.expires)) {
		return badToken("expired")
	}
	return t.logins.notRevoked(ctx, known.revokedKey)
}

// ask verifies the token with the issuer's keys, or asks the issuer.
func (t *TrustedTokens) ask(ctx context.Context, token string) (*trustedToken, error) {
	issuer, ok := t.issuerOf(token)
	if !ok {
		return nil, badToken("its issuer is not trusted")
	}
	fresh := trustedFresh
	judge := issuer.Verify
	if !jose.HasForm(token) {
		fresh, judge = opaqueFresh, t.introspect
	}
	access, err := judge(ctx, token)
	if errors.Is(err, provider.ErrInvalid) && !jose.HasForm(token) {
		t.refused.Add(record.Hash([]byte(token)), t.now().Add(fresh)) // so a flood of one invalid token is one question
		return nil, errNotActive
	}
	if errors.Is(err, provider.ErrInvalid) {
		return nil, badToken("%v", err)
	}
	if err != nil {
		return nil, err
	}
	identity := access.Profile.Identity(issuer.Name, policy.Bearer, "", access.Expires)
	identity.Scopes = access.Scopes
	name := access.ID
	if name == "" {
		name = nameOf(token)
	}
	return &trustedToken{
		identity: identity, expires: access.Expires, fresh: t.now().Add(fresh),
		revokedKey: revokedPrefix + record.Hash([]byte(issuer.Issuer()+"\x00"+name)),
	}, nil
}

// nameOf returns a name for a token without a jti. An ECDSA signature can have more than
// one spelling, so the name of a JWT does not contain the signature.
func nameOf(token string) string {
	if jose.HasForm(token) {
		return token[:strings.LastIndexByte(token, '.')]
	}
	return token
}

// introspect asks the issuer about an opaque token. Concurrent calls for one token ask
// once.
func (t *TrustedTokens) introspect(ctx context.Context, token string) (*provider.AccessToken, error) {
	done := t.asking.DoChan(record.Hash([]byte(token)), func() (any, error) {
		select {
		case t.slots <- struct{}{}:
		default:
			return nil, auth.ErrBusy
		}
		defer func() { <-t.slots }()
		return t.opaque.Introspect(context.WithoutCancel(ctx), token)
	})
	select {
	case answer := <-done:
		access, _ := answer.Val.(*provider.AccessToken)
		return access, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// alive returns the identity of a token that was accepted before. It never waits for the
// issuer. If the token must be verified again, that happens in the background, and the
// error is errUnverified meanwhile.
func (t *TrustedTokens) alive(ctx context.Context, token string) (*policy.Identity, error) {
	now := t.now()
	known := t.verified.Get(token)
	if known != nil {
		if err := t.good(ctx, known, now); err != nil {
			return nil, err
		}
		if now.Before(known.fresh) {
			return known.identity, nil
		}
	}
	if until, refused := t.refused.Get(record.Hash([]byte(token))); refused && now.Before(until) {
		return nil, errNotActive
	}
	t.verifyAgain(token, now)
	return nil, errUnverified
}

// verifyAgain verifies a token in the background, unless that was done a moment ago.
func (t *TrustedTokens) verifyAgain(token string, now time.Time) {
	if until, paused := t.again.Get(token); paused && now.Before(until) {
		return
	}
	token = strings.Clone(token)
	t.again.Add(token, now.Add(againPause))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), againTime)
		defer cancel()
		if _, err := t.verify(ctx, token); errors.Is(err, auth.ErrRejected) {
			t.verified.Forget(token)
			t.refused.Add(record.Hash([]byte(token)), t.now().Add(opaqueFresh))
		}
	}()
}

// revoke revokes a valid token in this gateway. The issuer is not told.
func (t *TrustedTokens) revoke(ctx context.Context, token string) (*policy.Identity, error) {
	known, err := t.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	until := known.expires
	if until.IsZero() {
		until = t.logins.now().Add(trustedUnknown)
	}
	if err := t.logins.store.Put(store.Ending(ctx), known.revokedKey, []byte("1"), until); err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	return known.identity, nil
}
