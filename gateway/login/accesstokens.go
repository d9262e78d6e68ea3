package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
	"authgate/gateway/store"
	"authgate/policy"
)

const (
	// maxTokenBytes bounds what is looked at: the gateway's own tokens are
	// well under 2 KiB.
	maxTokenBytes = 8 << 10
	// clockLeeway is how far the clocks of two instances may differ for iat
	// and nbf. An exp has no leeway.
	clockLeeway = 5 * time.Second
)

// BearerOptions says what access tokens say of themselves.
type AccessTokenOptions struct {
	Issuer   string
	Audience []string      // one or more; a token must name one of them
	Lifetime time.Duration // of an access token
	Realm    string        // for the challenge
}

// Bearer is the mechanism of self-issued access tokens: JWTs (RFC 7519) in the
// Authorization header (RFC 6750) or in a cookie of the gateway.
type AccessTokens struct {
	options  AccessTokenOptions
	keys     *Keys
	accounts *auth.Accounts
	logins   *Logins
	parser   *jwt.Parser
	verified *lru.Cache[string, *verifiedToken] // by the token itself: a warm request hashes nothing
}

// accessToken is what a token says, after its signature and form were found
// good.
type accessToken struct {
	subject string
	id      string // jti
	login   string // sid, empty for a token that was signed elsewhere with the gateway's key
	expires time.Time

	revokedKey, loginKey string // of the store
}

// verifiedToken is a token that needs no second look at its signature. Time,
// revocation and login are looked at every time.
type verifiedToken struct {
	accessToken
	rawLogin []byte
	identity *policy.Identity
}

// NewBearer returns the mechanism. Tokens are signed and verified with keys.
func NewAccessTokens(options AccessTokenOptions, keys *Keys, accounts *auth.Accounts, logins *Logins) *AccessTokens {
	verified, err := lru.New[string, *verifiedToken](identityCacheSize)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &AccessTokens{
		options: options, keys: keys, accounts: accounts, logins: logins, verified: verified,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{keys.method.Alg()}),
			jwt.WithIssuer(options.Issuer),
			jwt.WithAudience(options.Audience...),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithLeeway(clockLeeway),
			jwt.WithTimeFunc(logins.now),
			jwt.WithStrictDecoding(),
			jwt.WithJSONNumber(),
		),
	}
}

// Issue signs an access token of the login for account. It ends after the
// configured lifetime, or with the login if that is sooner; left is how long
// that is.
func (b *AccessTokens) Issue(login *Login, account *auth.Account) (token string, left time.Duration, err error) {
	now := b.logins.now().Truncate(time.Second)
	expires := now.Add(b.options.Lifetime)
	if login.Expires.Before(expires) {
		expires = login.Expires.Truncate(time.Second)
	}
	roles := account.Roles
	if roles == nil {
		roles = []string{}
	}
	claims := jwt.MapClaims{
		"iss": b.options.Issuer,
		"sub": account.Username,
		"aud": audience(b.options.Audience),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"jti": rand.Text(), "sid": login.ID,
		"roles": roles,
	}
	unsigned := jwt.NewWithClaims(b.keys.method, claims)
	unsigned.Header["kid"] = b.keys.id
	token, err = unsigned.SignedString(b.keys.sign)
	if err != nil {
		return "", 0, fmt.Errorf("signing an access token: %w", err)
	}
	return token, expires.Sub(now), nil
}

// audience is a string where there is one, an array else (RFC 7519, section
// 4.1.3).
func audience(all []string) any {
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// Challenge implements Authenticator.
func (b *AccessTokens) Challenge(creds *auth.Credentials) auth.Challenge {
	return auth.BearerChallenge(b.options.Realm, creds.Scheme == "bearer" || creds.Access != "")
}

// Authenticate implements Authenticator.
func (b *AccessTokens) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	token := creds.Access
	if creds.Scheme == "bearer" {
		token = creds.Value
	} else if token == "" {
		return nil, auth.ErrNoCredentials
	}
	verified, err := b.verify(ctx, token)
	if err == nil {
		return verified.identity, nil
	}
	var rejection *auth.Rejection
	if creds.Scheme != "bearer" && errors.As(err, &rejection) {
		rejection.Cookie = auth.AccessCookie // made for this request alone
	}
	return nil, err
}

// Alive implements Authenticator.
func (b *AccessTokens) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	return b.Authenticate(ctx, creds) // which leaves no trace
}

// LoginOf returns the sid that a valid access token belongs to, empty where it
// has none; ErrRejected when it is not valid.
func (b *AccessTokens) LoginOf(ctx context.Context, token string) (string, error) {
	verified, err := b.verify(ctx, token)
	if err != nil {
		return "", err
	}
	return verified.login, nil
}

// verify looks at signature, form and time, then at revocation and login.
func (b *AccessTokens) verify(ctx context.Context, token string) (*verifiedToken, error) {
	if len(token) > maxTokenBytes {
		return nil, badToken("longer than %d bytes", maxTokenBytes)
	}
	ready, known := b.verified.Get(token)
	if !known {
		access, err := b.parse(token)
		if err != nil {
			return nil, badToken("%v", err)
		}
		ready = &verifiedToken{accessToken: *access}
	}
	if !b.logins.now().Before(ready.expires) {
		return nil, badToken("expired")
	}
	rawLogin, err := b.look(ctx, ready, known)
	if err != nil {
		return nil, err
	}
	current, err := b.resolve(ready, rawLogin)
	if err != nil {
		return nil, err
	}
	if current != ready || !known {
		b.verified.Add(strings.Clone(token), current) // the token alone, not the header it is a part of
	}
	return current, nil
}

// look returns the record of the token's login, nil where it has none, unless
// the token is revoked. Both are looked up side by side where the token is not
// known: then the store has to ask a disk or a server.
func (b *AccessTokens) look(ctx context.Context, ready *verifiedToken, known bool) ([]byte, error) {
	if known || ready.login == "" {
		if err := b.notRevoked(ctx, ready); err != nil {
			return nil, err
		}
		return b.rawLogin(ctx, ready)
	}
	var other errgroup.Group
	other.Go(func() error { return b.notRevoked(ctx, ready) })
	rawLogin, err := b.rawLogin(ctx, ready)
	if revoked := other.Wait(); revoked != nil {
		return nil, revoked
	}
	return rawLogin, err
}

func (b *AccessTokens) notRevoked(ctx context.Context, ready *verifiedToken) error {
	switch _, err := b.logins.store.Get(ctx, ready.revokedKey); {
	case err == nil:
		return badToken("revoked")
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("looking for a revocation: %w", err)
	}
	return nil
}

func (b *AccessTokens) rawLogin(ctx context.Context, ready *verifiedToken) ([]byte, error) {
	if ready.login == "" {
		return nil, nil
	}
	raw, err := b.logins.read(ctx, ready.loginKey)
	if errors.Is(err, auth.ErrRejected) {
		return nil, badToken("its login has ended")
	}
	return raw, err
}

// resolve leads from the token over its login to the account of today, and
// returns ready itself where nothing has changed since.
func (b *AccessTokens) resolve(ready *verifiedToken, rawLogin []byte) (*verifiedToken, error) {
	if ready.identity != nil && bytes.Equal(rawLogin, ready.rawLogin) {
		return ready, nil
	}
	account, ok := b.accounts.Lookup(ready.subject)
	if !ok {
		return nil, badToken("its account is gone")
	}
	if ready.login != "" {
		login, err := decodeLogin(ready.login, rawLogin)
		if err != nil {
			return nil, err
		}
		if _, ok := login.current(b.accounts); !ok || login.Username != ready.subject {
			return nil, badToken("its account has changed")
		}
	}
	return &verifiedToken{
		accessToken: ready.accessToken, rawLogin: rawLogin,
		identity: account.Identity(policy.Bearer, ready.login, ready.expires),
	}, nil
}

// Revoke ends what a valid access token opens: the token, by its jti until
// it would have expired, and the login behind it. It returns the identity
// that signed out. An error that is ErrRejected means the token was not valid.
func (b *AccessTokens) Revoke(ctx context.Context, token string) (*policy.Identity, error) {
	verified, err := b.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	// The login first: after a failure there the token is still good, so that
	// signing out can be tried again.
	noted := false
	note := func(ctx context.Context, _ *Login) {
		noted, err = true, b.logins.store.Put(store.Ending(ctx), verified.revokedKey, []byte("1"), verified.expires)
	}
	if verified.login != "" {
		if _, failed := b.logins.end(ctx, verified.login, b.logins.groups.leave, note); failed != nil {
			return nil, failed
		}
	}
	if !noted { // there was no login to end
		note(ctx, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	return verified.identity, nil
}

// parse checks the signature first, then what the token says.
func (b *AccessTokens) parse(token string) (*accessToken, error) {
	if b.options.Issuer == "" || len(b.options.Audience) == 0 {
		return nil, errors.New("no issuer or audience is configured") // the parser would not look at theirs
	}
	claims := jwt.MapClaims{}
	parsed, err := b.parser.ParseWithClaims(token, claims, b.key)
	if err != nil {
		return nil, err
	}
	if err := strictJWT(parsed.Raw); err != nil {
		return nil, err
	}
	access := &accessToken{}
	for name, at := range map[string]*string{"sub": &access.subject, "jti": &access.id} {
		if *at, _ = claims[name].(string); *at == "" {
			return nil, fmt.Errorf("%s is missing or no string", name)
		}
	}
	if sid, ok := claims["sid"]; ok {
		if access.login, _ = sid.(string); access.login == "" {
			return nil, errors.New("sid is no string")
		}
	}
	for _, name := range []string{"nbf", "iat"} {
		if date, ok := claims[name]; ok {
			if _, err := numericDate(name, date); err != nil {
				return nil, err
			}
		}
	}
	access.revokedKey, access.loginKey = revokedPrefix+access.id, loginPrefix+access.login
	access.expires, err = numericDate("exp", claims["exp"])
	return access, err
}

// key implements jwt.Keyfunc: the header is checked before the signature, and
// never chooses a key.
func (b *AccessTokens) key(token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errors.New("crit names extensions and none is known") // RFC 7515, section 4.1.11
	}
	if typ, ok := token.Header["typ"]; ok && typ != "JWT" {
		return nil, errors.New("typ is not JWT")
	}
	if kid, ok := token.Header["kid"]; ok && kid != b.keys.id {
		return nil, errors.New("kid names another key")
	}
	return b.keys.verify, nil
}

// numericDate reads the value of a claim in integer seconds since the epoch.
func numericDate(name string, value any) (time.Time, error) {
	number, ok := value.(json.Number)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is no number", name)
	}
	seconds, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return time.Time{}, fmt.Errorf("%s is no sensible number of seconds", name)
	}
	return time.Unix(seconds, 0), nil
}

// maxNumericDate is the end of the year 9999.
const maxNumericDate = 253402300799

func badToken(format string, args ...any) error {
	return &auth.Rejection{Detail: auth.DetailBadToken, Reason: "access token: " + fmt.Sprintf(format, args...)}
}
