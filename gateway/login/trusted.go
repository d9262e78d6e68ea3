package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/gateway/store"
	"authgate/policy"
)

const (
	// outsideFresh is how long a verified token is not verified again, so
	// that keys which an issuer has withdrawn go out of use.
	trustedFresh = 5 * time.Minute
	// opaqueFresh is how long the answer of an introspection counts, be it
	// yes or no: revoked tokens are good for that long.
	opaqueFresh = 10 * time.Second
	// againTime bounds the verification of a token for an open stream, and
	// againPause is the shortest time between two of them.
	againTime, againPause = 10 * time.Second, 2 * time.Second
	// opaqueAtOnce bounds the introspections under way.
	opaqueAtOnce = 32
	// outsideUnknown is how long a revocation is kept of a token that does
	// not say when it ends.
	trustedUnknown = 30 * 24 * time.Hour
)

// TokenIssuer verifies the access tokens of one outside issuer, as
// provider.Trusted does. Errors are provider.ErrInvalid for a token that is
// not good, others where that could not be found out. Implementations are safe
// for concurrent use.
type TokenIssuer interface {
	// Issuer is the iss of its tokens.
	Issuer() string
	// Verify checks a JWT.
	Verify(ctx context.Context, raw string) (*provider.AccessToken, error)
	// Introspect asks the issuer about an opaque token.
	Introspect(ctx context.Context, raw string) (*provider.AccessToken, error)
}

// OutsideIssuer is an issuer whose tokens are accepted.
type TrustedIssuer struct {
	Name   string // what its people's identities give as provider
	Opaque bool   // tokens that are no JWT are introspected there
	TokenIssuer
}

// Outside judges bearer tokens that others have issued; see Bearers.
type TrustedTokens struct {
	byIssuer map[string]TrustedIssuer
	opaque   *TrustedIssuer // nil: opaque tokens are nobody's
	logins   *Logins
	now      func() time.Time
	verified *lru.Cache[string, *trustedToken] // by the token itself
	refused  *lru.Cache[string, time.Time]     // until when, by the hash of a token, opaque or of an open stream; apart, so that a flood evicts no good one
	again    *lru.Cache[string, time.Time]     // by the token: when an open stream may have it verified again
	asking   singleflight.Group                // introspections, by the token's hash
	slots    chan struct{}
}

// errNotActive is what an introspection says of tokens that are not good.
var errNotActive = badToken("its issuer says that it is not good")

// errUnverified says that a token is being verified again.
var errUnverified = errors.New("the token is being verified")

// outsideToken is what was found out about a good token.
type trustedToken struct {
	identity   *policy.Identity
	expires    time.Time // zero: unknown
	fresh      time.Time // until when this counts
	revokedKey string    // of the store
}

// NewOutside returns the judge of tokens of issuers. At most one issuer is asked about opaque
// tokens. now is the local clock.
func NewTrustedTokens(issuers []TrustedIssuer, logins *Logins, now func() time.Time) (*TrustedTokens, error) {
	verified, err := lru.New[string, *trustedToken](identityCacheSize)
	if err != nil {
		return nil, err
	}
	refused, err := lru.New[string, time.Time](identityCacheSize)
	if err != nil {
		return nil, err
	}
	again, err := lru.New[string, time.Time](identityCacheSize)
	if err != nil {
		return nil, err
	}
	o := &TrustedTokens{
		byIssuer: make(map[string]TrustedIssuer, len(issuers)), logins: logins, now: now,
		verified: verified, refused: refused, again: again, slots: make(chan struct{}, opaqueAtOnce),
	}
	for _, issuer := range issuers {
		if issuer.Issuer() == "" {
			return nil, errors.New("an issuer has no name, so tokens that name none would be its own")
		}
		if _, twice := o.byIssuer[issuer.Issuer()]; twice {
			return nil, fmt.Errorf("the issuer %s is there twice", issuer.Issuer())
		}
		o.byIssuer[issuer.Issuer()] = issuer
		if issuer.Opaque && o.opaque != nil {
			return nil, errors.New("two issuers would be asked about opaque tokens")
		}
		if issuer.Opaque {
			o.opaque = &issuer
		}
	}
	return o, nil
}

// issuerOf returns whose token it is, by its own words: nothing is believed
// yet, and of another issuer it will not verify.
func (o *TrustedTokens) issuerOf(token string) (TrustedIssuer, bool) {
	if !isJWT(token) {
		// A refresh token of the gateway, sent by mistake, is not to be told to others.
		if _, own := parseRefresh(token); own || o.opaque == nil {
			return TrustedIssuer{}, false
		}
		return *o.opaque, true
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return TrustedIssuer{}, false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return TrustedIssuer{}, false
	}
	issuer, ok := o.byIssuer[claims.Issuer]
	return issuer, ok
}

// takes reports whether the token is one to judge here.
func (o *TrustedTokens) takes(token string) bool {
	if len(token) > maxTokenBytes {
		return false
	}
	if o.verified.Contains(token) {
		return true
	}
	_, ok := o.issuerOf(token)
	return ok
}

// verify returns what is known of a good token; errors are as those of
// Authenticate.
func (o *TrustedTokens) verify(ctx context.Context, token string) (*trustedToken, error) {
	now := o.now()
	known, ok := o.verified.Get(token)
	if !ok || !now.Before(known.fresh) {
		if until, refused := o.refused.Get(hashed([]byte(token))); refused && now.Before(until) {
			return nil, errNotActive
		}
		var err error
		if known, err = o.ask(ctx, token); err != nil {
			return nil, err
		}
		o.verified.Add(strings.Clone(token), known)
	}
	if err := o.good(ctx, known, now); err != nil {
		return nil, err
	}
	return known, nil
}

// good returns nil for a verified token that has not ended.
func (o *TrustedTokens) good(ctx context.Context, known *trustedToken, now time.Time) error {
	// By the clock of the store, too: the note of a revocation goes by it.
	if !known.expires.IsZero() && (!now.Before(known.expires) || !o.logins.now().Before(known.expires)) {
		return badToken("expired")
	}
	switch _, err := o.logins.store.Get(ctx, known.revokedKey); {
	case err == nil:
		return badToken("revoked")
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("looking for a revocation: %w", err)
	}
	return nil
}

// ask has the issuer's keys, or the issuer itself, judge the token.
func (o *TrustedTokens) ask(ctx context.Context, token string) (*trustedToken, error) {
	issuer, ok := o.issuerOf(token)
	if !ok {
		return nil, badToken("of no issuer that is trusted")
	}
	fresh := trustedFresh
	judge := issuer.Verify
	if !isJWT(token) {
		fresh, judge = opaqueFresh, o.introspect
	}
	access, err := judge(ctx, token)
	if errors.Is(err, provider.ErrInvalid) && !isJWT(token) {
		o.refused.Add(hashed([]byte(token)), o.now().Add(fresh)) // a flood of one bad token is one question
		return nil, errNotActive
	}
	if errors.Is(err, provider.ErrInvalid) {
		return nil, badToken("%v", err)
	}
	if err != nil {
		return nil, err
	}
	identity := providerIdentity(issuer.Name, &access.Profile, policy.Bearer, "", access.Expires)
	identity.Scopes = access.Scopes
	name := access.ID
	if name == "" {
		name = nameOf(token)
	}
	return &trustedToken{
		identity: identity, expires: access.Expires, fresh: o.now().Add(fresh),
		revokedKey: revokedPrefix + hashed([]byte(issuer.Issuer()+"\x00"+name)),
	}, nil
}

// isJWT reports whether the token has the form of a JWS in the compact
// serialisation (RFC 7515, section 3.1); what has another form is opaque.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

// nameOf names a token without a jti. The signature of a JWT can have more
// than one spelling (ECDSA), what it is over cannot.
func nameOf(token string) string {
	if isJWT(token) {
		return token[:strings.LastIndexByte(token, '.')]
	}
	return token
}

// introspect asks about an opaque token, once for all who present it now, and
// with a bound on how many are asked about at once.
func (o *TrustedTokens) introspect(ctx context.Context, token string) (*provider.AccessToken, error) {
	done := o.asking.DoChan(hashed([]byte(token)), func() (any, error) {
		select {
		case o.slots <- struct{}{}:
		default:
			return nil, auth.ErrBusy
		}
		defer func() { <-o.slots }()
		return o.opaque.Introspect(context.WithoutCancel(ctx), token)
	})
	select {
	case answer := <-done:
		access, _ := answer.Val.(*provider.AccessToken)
		return access, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// alive returns the identity of a token that was accepted before. It does not
// wait for the issuer: a token that is due to be verified again is verified in
// the background, and the error is errUnverified meanwhile.
func (o *TrustedTokens) alive(ctx context.Context, token string) (*policy.Identity, error) {
	now := o.now()
	known, ok := o.verified.Get(token)
	if ok {
		if err := o.good(ctx, known, now); err != nil {
			return nil, err
		}
		if now.Before(known.fresh) {
			return known.identity, nil
		}
	}
	if until, refused := o.refused.Get(hashed([]byte(token))); refused && now.Before(until) {
		return nil, errNotActive
	}
	o.verifyAgain(token, now)
	return nil, errUnverified
}

// verifyAgain has a token verified in the background, unless that was done a
// moment ago.
func (o *TrustedTokens) verifyAgain(token string, now time.Time) {
	if until, paused := o.again.Get(token); paused && now.Before(until) {
		return
	}
	token = strings.Clone(token)
	o.again.Add(token, now.Add(againPause))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), againTime)
		defer cancel()
		if _, err := o.verify(ctx, token); errors.Is(err, auth.ErrRejected) {
			o.verified.Remove(token)
			o.refused.Add(hashed([]byte(token)), o.now().Add(opaqueFresh))
		}
	}()
}

// revoke makes a good token worthless here; its issuer is not told.
func (o *TrustedTokens) revoke(ctx context.Context, token string) (*policy.Identity, error) {
	known, err := o.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	until := known.expires
	if until.IsZero() {
		until = o.logins.now().Add(trustedUnknown)
	}
	if err := o.logins.store.Put(store.Ending(ctx), known.revokedKey, []byte("1"), until); err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	return known.identity, nil
}
