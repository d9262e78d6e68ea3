package trusted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/gateway/store/lru"
	"authgate/gateway/store/record"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

const (
	// maxBytes is the maximum length of a token.
	maxBytes = 8 << 10
	// jwtFresh is how long the verification of a JWT is valid, so that keys which the
	// issuer has withdrawn go out of use.
	jwtFresh = 5 * time.Minute
	// opaqueFresh is how long the result of an introspection is valid, positive
	// or negative. For that long the gateway accepts a token that was revoked.
	opaqueFresh = 10 * time.Second
	// againTime is the time limit for verifying a token of an open stream again.
	// againPause is the shortest time between two such verifications.
	againTime, againPause = 10 * time.Second, 2 * time.Second
	// opaqueAtOnce is the maximum number of introspections at the same time.
	opaqueAtOnce = 32
	// endless is how long the revocation of a token is stored if the token's expiry
	// is unknown.
	endless = 30 * 24 * time.Hour
	// revokedPrefix begins the store keys of revocations, as it does for the gateway's
	// own tokens.
	revokedPrefix = "revoked:" // + hash of the issuer and the token's name
)

// verifier verifies the tokens of one issuer; see provider.Trusted. The error is
// provider.ErrInvalid if the token is not valid. Any other error means that the answer is
// unknown. Implementations are safe for concurrent use.
type verifier interface {
	// Issuer returns the iss of the issuer's tokens.
	Issuer() string
	// Verify verifies a JWT.
	Verify(ctx context.Context, raw string) (*provider.AccessToken, error)
	// Introspect asks the issuer about an opaque token.
	Introspect(ctx context.Context, raw string) (*provider.AccessToken, error)
}

// Issuer is an issuer whose tokens are accepted.
type Issuer struct {
	Name     string // the provider in the identities of its tokens
	Opaque   bool   // whether tokens that are not JWTs are introspected at this issuer
	Verifier verifier
}

// Tokens verifies tokens of trusted issuers. The errors of its methods are those of
// auth.Authenticator.
type Tokens struct {
	byIssuer map[string]Issuer
	opaque   *Issuer          // nil: no issuer is asked about opaque tokens
	store    store.Store      // of revocations
	stored   func() time.Time // the clock of store
	now      func() time.Time
	verified record.Cache[verified]        // by token
	refused  *lru.Cache[string, time.Time] // see refuse
	again    *lru.Cache[string, time.Time] // by token: no verification for an open stream before this time
	asking   singleflight.Group            // introspections, by the token's hash
	slots    chan struct{}
}

// errNotActive refuses a token that its issuer calls not active.
var errNotActive = auth.Past(Rejected("its issuer says that it is not active"))

// errUnverified: the token is being verified again.
var errUnverified = errors.New("the token is being verified")

// verified describes a valid token.
type verified struct {
	identity   *policy.Identity
	expires    time.Time // zero: unknown
	fresh      time.Time // the token must be verified again after this time
	revokedKey string    // store key of the token's revocation
}

// New returns the verifier of the tokens of issuers. Package config makes sure that their
// values of iss are different and not empty, and that at most one issuer is opaque. s
// keeps revocations, and stored is its clock; see store.ClockOf. now is the local clock.
func New(issuers []Issuer, s store.Store, stored, now func() time.Time) *Tokens {
	t := &Tokens{
		byIssuer: make(map[string]Issuer, len(issuers)), store: s, stored: stored, now: now,
		verified: record.NewCache[verified](), refused: lru.New[string, time.Time](record.CacheSize),
		again: lru.New[string, time.Time](record.CacheSize), slots: make(chan struct{}, opaqueAtOnce),
	}
	for _, issuer := range issuers {
		t.byIssuer[issuer.Verifier.Issuer()] = issuer
		if issuer.Opaque {
			t.opaque = &issuer
		}
	}
	return t
}

// Accepts reports whether a token claims to be one of a trusted issuer. Nothing is verified. secret
// tells which opaque texts are secrets of the gateway: no issuer gets one that a client sent by
// mistake. The other methods are for tokens that are accepted.
func (t *Tokens) Accepts(token string, secret func(text string) bool) bool {
	if len(token) > maxBytes {
		return false
	}
	if t.verified.Get(token) != nil {
		return true
	}
	_, ok := t.issuerOf(token)
	return ok && !secret(token)
}

// issuerOf returns the issuer that the token names. If the token is of another issuer, its
// signature will not be valid.
func (t *Tokens) issuerOf(token string) (Issuer, bool) {
	if jose.HasForm(token) {
		name, _ := jose.IssuerOf(token).(string)
		issuer, ok := t.byIssuer[name]
		return issuer, ok
	}
	if t.opaque == nil {
		return Issuer{}, false
	}
	return *t.opaque, true
}

// Authenticate returns the identity of a valid token.
func (t *Tokens) Authenticate(ctx context.Context, token string) (*policy.Identity, error) {
	known, err := t.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	return known.identity, nil
}

// verify returns the description of a valid token.
func (t *Tokens) verify(ctx context.Context, token string) (*verified, error) {
	now := t.now()
	known := t.verified.Get(token)
	if known == nil || !now.Before(known.fresh) {
		if t.isRefused(token, now) {
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
func (t *Tokens) good(ctx context.Context, known *verified, now time.Time) error {
	// The clock of the store counts too, because the revocation expires by it.
	if !known.expires.IsZero() && (!now.Before(known.expires) || !t.stored().Before(known.expires)) {
		return auth.Past(Rejected("expired"))
	}
	revocation, err := record.Find(ctx, t.store, known.revokedKey)
	if err == nil && revocation != nil {
		err = auth.Past(Rejected("revoked"))
	}
	return err
}

// ask verifies the token with the issuer's keys, or asks the issuer.
func (t *Tokens) ask(ctx context.Context, token string) (*verified, error) {
	issuer, ok := t.issuerOf(token)
	if !ok {
		return nil, Rejected("its issuer is not trusted")
	}
	judge, fresh := issuer.Verifier.Verify, jwtFresh
	opaque := !jose.HasForm(token)
	if opaque {
		judge, fresh = t.introspect, opaqueFresh
	}
	access, err := judge(ctx, token)
	switch invalid := errors.Is(err, provider.ErrInvalid); {
	case invalid && opaque:
		t.refuse(token) // so a flood of one invalid token is one question
		return nil, errNotActive
	case invalid:
		return nil, Rejected(err.Error())
	case err != nil:
		return nil, err
	}
	name := access.ID
	if name == "" {
		name = nameOf(token)
	}
	return &verified{
		identity: access.Identity(issuer.Name), expires: access.Expires, fresh: t.now().Add(fresh),
		revokedKey: revokedPrefix + record.Hash([]byte(issuer.Verifier.Issuer()+"\x00"+name)),
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
func (t *Tokens) introspect(ctx context.Context, token string) (*provider.AccessToken, error) {
	done := t.asking.DoChan(record.Hash([]byte(token)), func() (any, error) {
		select {
		case t.slots <- struct{}{}:
		default:
			return nil, auth.ErrBusy
		}
		defer func() { <-t.slots }()
		return t.opaque.Verifier.Introspect(context.WithoutCancel(ctx), token)
	})
	select {
	case answer := <-done:
		access, _ := answer.Val.(*provider.AccessToken)
		return access, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refuse remembers for a moment that a token is not valid. It does so by the token's hash,
// and apart from the valid ones, so that a flood of invalid tokens removes none of them.
func (t *Tokens) refuse(token string) {
	t.refused.Add(record.Hash([]byte(token)), t.now().Add(opaqueFresh))
}

// isRefused reports whether it is known that a token is not valid.
func (t *Tokens) isRefused(token string, now time.Time) bool {
	until, refused := t.refused.Get(record.Hash([]byte(token)))
	return refused && now.Before(until)
}

// Alive returns the identity of a token that was accepted before. It never waits for the
// issuer. If the token must be verified again, that happens in the background, and the
// error tells no more than that meanwhile.
func (t *Tokens) Alive(ctx context.Context, token string) (*policy.Identity, error) {
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
	if t.isRefused(token, now) {
		return nil, errNotActive
	}
	t.verifyAgain(token, now)
	return nil, errUnverified
}

// verifyAgain verifies a token in the background, unless that was done a moment ago.
func (t *Tokens) verifyAgain(token string, now time.Time) {
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
			t.refuse(token)
		}
	}()
}

// Revoke revokes a valid token in this gateway, and returns its identity. The issuer is not
// told.
func (t *Tokens) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	known, err := t.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	until := known.expires
	if until.IsZero() {
		until = t.stored().Add(endless)
	}
	if err := t.store.Put(store.Ending(ctx), known.revokedKey, []byte("1"), until); err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	return known.identity, nil
}

// Rejected is the error of a token that is not valid.
func Rejected(reason string) error {
	return &auth.Rejection{Detail: auth.DetailBadToken, Reason: "access token: " + reason}
}
