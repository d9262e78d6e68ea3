package jose

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Reader reads the tokens that the gateway has signed for one issuer.
type Reader struct {
	keys      *Keys
	typ       string // of the header; empty: JWT, which may be missing
	accepts   bool   // an issuer and an audience are configured
	validator *jwt.Validator
}

// ReaderOptions say which tokens count.
type ReaderOptions struct {
	Issuer   string
	Type     string   // in the header; empty: JWT, which may be missing
	Audience []string // a token must name one of them
	// AnyAudience accepts any audience: the caller decides about it.
	AnyAudience bool
	Leeway      time.Duration    // how much the clocks of two instances may differ, for iat and nbf
	Now         func() time.Time // the clock by which tokens expire
}

// NewReader returns a Reader of tokens that keys have signed.
func NewReader(keys *Keys, o ReaderOptions) *Reader {
	checks := []jwt.ParserOption{
		jwt.WithIssuer(o.Issuer), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(o.Leeway),
		jwt.WithTimeFunc(o.Now),
	}
	if !o.AnyAudience {
		checks = append(checks, jwt.WithAudience(o.Audience...))
	}
	return &Reader{
		keys: keys, typ: o.Type, accepts: o.Issuer != "" && (o.AnyAudience || len(o.Audience) > 0),
		validator: jwt.NewValidator(checks...),
	}
}

// Read verifies a token and returns its claims, and when it expires. It checks the
// signature first, and then iss, aud and the times. A token has expired once more than
// the leeway has passed since exp: the caller compares exp itself.
func (r *Reader) Read(raw string) (claims map[string]any, expires time.Time, err error) {
	if !r.accepts {
		return nil, time.Time{}, errors.New("no issuer or audience is configured") // the validator would accept any
	}
	if claims, err = r.open(raw); err != nil {
		return nil, time.Time{}, err
	}
	if err := r.validator.Validate(jwt.MapClaims(claims)); err != nil {
		return nil, time.Time{}, err
	}
	for _, name := range []string{"nbf", "iat"} {
		if date, ok := claims[name]; ok {
			if _, err := numericDate(name, date); err != nil {
				return nil, time.Time{}, err
			}
		}
	}
	expires, err = numericDate("exp", claims["exp"])
	return claims, expires, err
}

// Verified returns the claims of a token that the gateway's key has signed, also of one that has
// expired: it may tell who a user was, and must open nothing.
func (r *Reader) Verified(raw string) (map[string]any, error) { return r.open(raw) }

// Signed reports whether the gateway's key has signed a token, with any claims.
func (r *Reader) Signed(raw string) bool {
	_, err := r.open(raw)
	return err == nil
}

// open verifies the signature of a token with the one key, and returns its claims. The
// header never selects an algorithm or a key.
func (r *Reader) open(raw string) (map[string]any, error) {
	token, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	if alg, _ := token.Header["alg"].(string); alg != r.keys.Algorithm() {
		return nil, fmt.Errorf("signing method %v is invalid", token.Header["alg"])
	}
	if _, ok := token.Header["crit"]; ok {
		return nil, errors.New("crit names an unknown extension") // RFC 7515, section 4.1.11
	}
	typ, ok := token.Header["typ"]
	if r.typ != "" && typ != r.typ {
		return nil, fmt.Errorf("typ is not %s", r.typ)
	}
	if r.typ == "" && ok && typ != "JWT" {
		return nil, errors.New("typ is not JWT")
	}
	if kid, ok := token.Header["kid"]; ok && kid != r.keys.id {
		return nil, errors.New("kid names another key")
	}
	if err := token.Verify(r.keys.Algorithm(), r.keys.verify); err != nil {
		return nil, fmt.Errorf("token signature is invalid: %w", err)
	}
	return token.Claims()
}

// maxNumericDate is the end of the year 9999.
const maxNumericDate = 253402300799

// numericDate returns the time of a claim in whole seconds since the Unix epoch.
func numericDate(name string, value any) (time.Time, error) {
	number, ok := value.(json.Number)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not a number", name)
	}
	seconds, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return time.Time{}, fmt.Errorf("%s is not a whole number of seconds, or out of range", name)
	}
	return time.Unix(seconds, 0), nil
}
