package login

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

// maxTokenBytes is the maximum length of a token. The gateway's own tokens have less than
// 2 KiB.
const maxTokenBytes = 8 << 10

// AccessTokenOptions configure access tokens.
type AccessTokenOptions struct {
	Issuer   string
	Audience []string      // one or more; a token must name one of them
	Lifetime time.Duration // of a token
	Realm    string        // of the challenge
}

// AccessTokens is the mechanism for the gateway's own access tokens. They are JWTs
// (RFC 7519) in the Authorization header (RFC 6750) or in a cookie of the gateway.
type AccessTokens struct {
	options  AccessTokenOptions
	keys     *jose.Keys
	accounts *accounts.Set
	logins   *Logins
	reader   *jose.Reader
	verified record.Cache[verifiedToken] // by the token
}

// accessToken is the content of a token whose signature and form are valid.
type accessToken struct {
	subject string
	id      string // jti
	login   string // sid; empty if the token was signed elsewhere with the gateway's key
	gen     int    // which generation of the login's tokens; see renewal
	expires time.Time

	revokedKey, loginKey string // of the store
}

// verifiedToken is a token whose signature need not be verified again. Time,
// revocation and login are checked on every request.
type verifiedToken struct {
	accessToken
	basis    record.Basis // that the token is not revoked, and its login
	identity *policy.Identity
}

// NewAccessTokens returns the mechanism. keys sign and verify the tokens.
func NewAccessTokens(
	options AccessTokenOptions, keys *jose.Keys, accounts *accounts.Set, logins *Logins,
) *AccessTokens {
	return &AccessTokens{
		options: options, keys: keys, accounts: accounts, logins: logins, verified: record.NewCache[verifiedToken](),
		reader: jose.NewReader(keys, jose.ReaderOptions{
			Issuer: options.Issuer, Audience: options.Audience, Leeway: record.ClockLeeway, Now: logins.now,
		}),
	}
}

// Issue returns a new access token of the login for account. It expires after the
// configured lifetime with the login, or with the account or one of its roles, whichever is earlier. left is
// the time until then.
func (a *AccessTokens) Issue(login *Login, account *accounts.Account) (token string, left time.Duration, err error) {
	now := a.logins.now().Truncate(time.Second)
	expires := now.Add(a.options.Lifetime)
	if login.Expires.Before(expires) {
		expires = login.Expires.Truncate(time.Second)
	}
	named := account.Identity(policy.Bearer, login.ID, expires)
	expires = named.Bound(expires).Truncate(time.Second)
	roles := named.Roles
	if roles == nil {
		roles = []string{}
	}
	claims := map[string]any{
		"iss": a.options.Issuer,
		"sub": account.Username,
		"aud": audience(a.options.Audience),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"jti": rand.Text(), "sid": login.ID,
		"roles": roles,
	}
	if login.Proof.AMR != nil {
		claims["amr"] = login.Proof.AMR
	}
	if at := login.Proof.AuthTime; !at.IsZero() {
		claims["auth_time"] = at.Unix()
	}
	if gen := login.Generation(); gen > 0 {
		claims["gen"] = gen
	}
	if token, err = a.keys.Sign(claims); err != nil {
		return "", 0, fmt.Errorf("signing an access token: %w", err)
	}
	return token, expires.Sub(now), nil
}

// audience returns a string if there is one audience, and an array otherwise (RFC
// 7519, section 4.1.3).
func audience(all []string) any {
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// Challenge implements auth.Authenticator.
func (a *AccessTokens) Challenge(creds *auth.Credentials) auth.Challenge {
	return auth.BearerChallenge(a.options.Realm, creds.Scheme == "bearer" || creds.Access != "")
}

// Authenticate implements auth.Authenticator.
func (a *AccessTokens) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	token := creds.Access
	if creds.Scheme == "bearer" {
		token = creds.Value
	} else if token == "" {
		return nil, auth.ErrNoCredentials
	}
	verified, err := a.verify(ctx, token)
	if err == nil {
		return verified.identity, nil
	}
	var rejection *auth.Rejection
	if creds.Scheme != "bearer" && errors.As(err, &rejection) {
		rejection.Cookie = auth.AccessCookie // the rejection is new, not shared
	}
	return nil, err
}

// Alive implements auth.Authenticator.
func (a *AccessTokens) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	return a.Authenticate(ctx, creds) // it has no effects
}

// LoginOf returns the sid of the login that a valid token belongs to, or an empty
// string if it has none. The error is ErrRejected if the token is not valid.
func (a *AccessTokens) LoginOf(ctx context.Context, token string) (string, error) {
	verified, err := a.verify(ctx, token)
	if err != nil {
		return "", err
	}
	return verified.login, nil
}

// verify checks signature, form and time, and then revocation and login.
func (a *AccessTokens) verify(ctx context.Context, token string) (*verifiedToken, error) {
	if len(token) > maxTokenBytes {
		return nil, badToken("longer than %d bytes", maxTokenBytes)
	}
	ready := a.verified.Get(token)
	if ready == nil {
		access, err := a.parse(token)
		if err != nil {
			return nil, badToken("%v", err)
		}
		ready = &verifiedToken{accessToken: *access}
	}
	now := a.logins.now()
	if !now.Before(ready.expires) {
		return nil, auth.Past(badToken("expired"))
	}
	holds, err := ready.basis.Holds(ctx, a.logins.store)
	if err != nil {
		return nil, err
	}
	if holds && ready.identity.Holds(now) {
		return ready, nil
	}
	current, err := a.resolve(ctx, &ready.accessToken)
	if err != nil {
		return nil, err
	}
	a.verified.Keep(token, current)
	return current, nil
}

// resolve checks that the token is not revoked, and finds its login and its account.
func (a *AccessTokens) resolve(ctx context.Context, access *accessToken) (*verifiedToken, error) {
	known, err := a.readBasis(ctx, access)
	account, ok := a.accounts.Lookup(access.subject)
	if !ok && (err == nil || errors.Is(err, auth.ErrRejected)) { // this also is why its login has ended
		return nil, auth.Past(badToken("its account does not exist or is disabled"))
	}
	if err != nil {
		return nil, err
	}
	identity := account.Identity(policy.Bearer, access.login, access.expires)
	if access.login != "" {
		login, err := decodeLogin(access.login, known[0].Raw)
		if err != nil {
			return nil, err
		}
		if _, ok := login.current(a.accounts); !ok || login.Username != access.subject {
			return nil, auth.Past(badToken("its account has changed"))
		}
		if login.Yielded {
			return nil, auth.Past(badToken("its user has signed in again"))
		}
		if login.Generation() != access.gen {
			return nil, auth.Past(badToken("issued before the user changed the password"))
		}
		identity.SignedIn, identity.Proof = login.Created, login.Proof
	}
	return &verifiedToken{accessToken: *access, basis: known, identity: identity}, nil
}

// readBasis returns the records that a valid token depends on: no revocation, and its login, if it
// has one. It reads both in parallel, because the store must probably ask a disk or a server.
func (a *AccessTokens) readBasis(ctx context.Context, access *accessToken) (record.Basis, error) {
	if access.login == "" {
		return record.Basis{{Key: access.revokedKey}}, a.logins.notRevoked(ctx, access.revokedKey)
	}
	var other errgroup.Group
	other.Go(func() error { return a.logins.notRevoked(ctx, access.revokedKey) })
	raw, err := a.logins.readRecord(ctx, access.loginKey)
	if revoked := other.Wait(); revoked != nil {
		return nil, revoked
	}
	if errors.Is(err, auth.ErrRejected) {
		return nil, auth.Past(badToken("its login has ended"))
	}
	// The login first, which changes sooner.
	return record.Basis{{Key: access.loginKey, Raw: raw}, {Key: access.revokedKey}}, err
}

// notRevoked returns an ErrRejected if the store has the revocation of a token under key.
func (l *Logins) notRevoked(ctx context.Context, key string) error {
	revocation, err := record.Find(ctx, l.store, key)
	if err == nil && revocation != nil {
		err = auth.Past(badToken("revoked"))
	}
	return err
}

// Revoke ends the login of a valid token, and revokes the token until it expires. It
// returns the identity that signed out. The error is ErrRejected if the token is not
// valid.
func (a *AccessTokens) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	verified, err := a.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	// The login comes first. If ending it fails, the token is still valid, so that
	// the client can sign out again.
	noted := false
	note := func(ctx context.Context, _ *Login) {
		noted, err = true, a.logins.store.Put(store.Ending(ctx), verified.revokedKey, []byte("1"), verified.expires)
	}
	if verified.login != "" {
		if _, failed := a.logins.endLogin(ctx, verified.login, ending{leaves: true, also: note}); failed != nil {
			return nil, failed
		}
	}
	if !noted { // the token has no login, or the login had ended
		note(ctx, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	return verified.identity, nil
}

// parse verifies the signature first, and then the claims.
func (a *AccessTokens) parse(token string) (*accessToken, error) {
	claims, expires, err := a.reader.Read(token)
	if err != nil {
		return nil, err
	}
	if _, ok := claims["client_id"]; ok {
		return nil, errors.New("made for a client")
	}
	access := &accessToken{expires: expires}
	for name, at := range map[string]*string{"sub": &access.subject, "jti": &access.id} {
		if *at, _ = claims[name].(string); *at == "" {
			return nil, fmt.Errorf("%s is missing or not a string", name)
		}
	}
	if sid, ok := claims["sid"]; ok {
		if access.login, _ = sid.(string); access.login == "" {
			return nil, errors.New("sid is not a string")
		}
	}
	if gen, ok := claims["gen"]; ok {
		if access.gen, err = generation(gen); err != nil {
			return nil, err
		}
	}
	access.revokedKey, access.loginKey = revokedPrefix+access.id, loginPrefix+access.login
	return access, nil
}

// generation returns the generation that a token names. Tokens of the first one name
// none.
func generation(claim any) (int, error) {
	number, ok := claim.(json.Number)
	if !ok {
		return 0, errors.New("gen is not a number")
	}
	gen, err := strconv.Atoi(number.String())
	if err != nil || gen < 1 {
		return 0, errors.New("gen is not a whole number above zero")
	}
	return gen, nil
}

func badToken(format string, args ...any) error {
	return &auth.Rejection{Detail: auth.DetailBadToken, Reason: "access token: " + fmt.Sprintf(format, args...)}
}
