package login

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/store"
)

// Device traits that a refresh token can be bound to.
const (
	BindUserAgent = "user_agent"
	BindIP        = "ip"
)

// maxRotations bounds how many rotations inside the leeway a family remembers;
// a token used before those counts as reused later.
const maxRotations = 32

// maxStaleReads bounds how often a rotation starts over. Each time another one
// has happened in between.
const maxStaleReads = 8

// errStale: what was read of a family is no longer what the store holds.
var errStale = errors.New("auth: the refresh token's family has changed meanwhile")

// RefreshOptions says how refresh tokens live.
type RefreshOptions struct {
	Lifetime time.Duration // of the family, from the login on
	Leeway   time.Duration // how long a second use of a token is taken for an accident
	Bind     []string      // BindUserAgent, BindIP
}

// Refresh keeps the refresh tokens: one family for each login, one record for
// each family, one good token at any time (RFC 9700, section 4.14.2).
//
// A token is three parts, in base64url: the family's secret, the generation's
// secret, both of 256 random bits, and a check of the second under the first.
// The store holds hashes alone. The check tells a token that was once issued
// from one that was not, so that garbage never ends a login and a stolen, used
// token does.
type RefreshTokens struct {
	options  RefreshOptions
	accounts *auth.Accounts
	logins   *Logins
}

// NewRefresh returns the refresh tokens of logins of accounts.
func NewRefreshTokens(options RefreshOptions, accounts *auth.Accounts, logins *Logins) *RefreshTokens {
	return &RefreshTokens{options: options, accounts: accounts, logins: logins}
}

// family is the record of a login's refresh tokens.
type family struct {
	Login   string     `json:"sid"`
	Current string     `json:"current"` // hash of the generation that is good
	Expires time.Time  `json:"expires"`
	Device  string     `json:"device,omitempty"` // hash of the traits it is bound to
	Rotated []rotation `json:"rotated,omitempty"`
}

// rotation remembers a generation that was replaced less than the leeway ago.
type rotation struct {
	Generation string    `json:"g"`
	At         time.Time `json:"at"`
}

// ReuseError is an ErrRejected: a token was used again later than the leeway,
// so it was stolen from one side or the other, and its login has been ended.
type ReuseError struct {
	Login *Login // nil when it had ended before
}

func (e *ReuseError) Error() string { return "auth: refresh token reused, the login is ended" }

// Is makes a ReuseError match ErrRejected.
func (e *ReuseError) Is(target error) bool { return target == auth.ErrRejected }

// refreshToken is a token taken apart.
type refreshToken struct {
	family, generation []byte // 32 bytes each
}

const (
	checkBytes   = 16
	refreshBytes = 32 + 32 + checkBytes
)

func (t refreshToken) check() []byte {
	mac := hmac.New(sha256.New, t.family)
	mac.Write(t.generation)
	return mac.Sum(nil)[:checkBytes]
}

func (t refreshToken) String() string {
	return base64.RawURLEncoding.EncodeToString(slices.Concat(t.family, t.generation, t.check()))
}

func (t refreshToken) key() string { return refreshPrefix + hashed(t.family) }

// parseRefresh takes a token apart, ok only if it was once issued.
func parseRefresh(s string) (t refreshToken, ok bool) {
	// The length first: base64 skips line breaks.
	if len(s) != base64.RawURLEncoding.EncodedLen(refreshBytes) {
		return refreshToken{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != refreshBytes {
		return refreshToken{}, false
	}
	t = refreshToken{family: raw[:32], generation: raw[32:64]}
	return t, hmac.Equal(raw[64:], t.check())
}

// Expires is when a login with refresh tokens, begun at created, ends.
func (r *RefreshTokens) Expires(created time.Time) time.Time { return created.Add(r.options.Lifetime) }

// New returns the first token of a new family, and the handle with which
// Logins.Begin records the family. The family is bound to the device traits of
// creds if that is configured.
func (r *RefreshTokens) New(creds *auth.Credentials) (token string, handle Handle) {
	t := refreshToken{family: newSecret(), generation: newSecret()}
	return t.String(), func(login *Login) (string, []byte, time.Time, error) {
		f := family{
			Login:   login.ID,
			Current: hashed(t.generation),
			Expires: r.Expires(login.Created),
			Device:  r.device(creds),
		}
		value, err := json.Marshal(f)
		return t.key(), value, f.Expires, err
	}
}

// Rotation is the outcome of a refresh.
type Rotation struct {
	Login   *Login
	Account *auth.Account
	Token   string    // the new refresh token
	Expires time.Time // when the family ends
}

// Rotate exchanges token for a new one. Of any number of concurrent calls
// with one token one succeeds. Errors: an ErrRejected for a token that is not
// good, a *ReuseError when that ended the login, any other when the store
// could not tell.
func (r *RefreshTokens) Rotate(ctx context.Context, token string, creds *auth.Credentials) (rotation *Rotation, err error) {
	for range maxStaleReads {
		if rotation, err = r.rotate(ctx, token, creds); !errors.Is(err, errStale) {
			break
		}
	}
	return rotation, err
}

// rotate is Rotate, or errStale.
func (r *RefreshTokens) rotate(ctx context.Context, token string, creds *auth.Credentials) (*Rotation, error) {
	t, f, raw, err := r.find(ctx, token)
	if err != nil {
		return nil, err
	}
	login, account, err := r.owner(ctx, f)
	if err != nil {
		return nil, err
	}
	now := r.logins.now()
	if presented := hashed(t.generation); f.Current != presented {
		if f.justRotated(presented, now, r.options.Leeway) {
			return nil, badRefresh("already used, just now")
		}
		return nil, r.reused(ctx, t.key(), f, raw)
	}
	if f.Device != r.device(creds) {
		return nil, badRefresh("presented by another device")
	}
	next := refreshToken{family: t.family, generation: newSecret()}
	value, err := json.Marshal(r.rotated(f, hashed(next.generation), now))
	if err != nil {
		return nil, err
	}
	err = r.logins.store.Swap(ctx, t.key(), raw, value, f.Expires)
	if errors.Is(err, store.ErrConflict) {
		return nil, badRefresh("another call used it first")
	}
	if err != nil {
		return nil, fmt.Errorf("rotating a refresh token: %w", err)
	}
	return &Rotation{Login: login, Account: account, Token: next.String(), Expires: f.Expires}, nil
}

// LoginOf returns the sid that a refresh token belongs to, be it used or not;
// ErrRejected when there is none.
func (r *RefreshTokens) LoginOf(ctx context.Context, token string) (string, error) {
	_, f, _, err := r.find(ctx, token)
	if err != nil {
		return "", err
	}
	return f.Login, nil
}

func (r *RefreshTokens) find(ctx context.Context, token string) (refreshToken, *family, []byte, error) {
	t, ok := parseRefresh(token)
	if !ok {
		return t, nil, nil, badRefresh("never issued")
	}
	raw, err := r.logins.read(ctx, t.key())
	if errors.Is(err, auth.ErrRejected) {
		return t, nil, nil, badRefresh("its login has ended")
	}
	if err != nil {
		return t, nil, nil, err
	}
	f, err := decode[family](raw)
	return t, f, raw, err
}

// owner returns the login of f and the account behind it, as they are today.
func (r *RefreshTokens) owner(ctx context.Context, f *family) (*Login, *auth.Account, error) {
	raw, err := r.logins.read(ctx, loginPrefix+f.Login)
	if errors.Is(err, auth.ErrRejected) {
		return nil, nil, badRefresh("its login has ended")
	}
	if err != nil {
		return nil, nil, err
	}
	login, err := decodeLogin(f.Login, raw)
	if err != nil {
		return nil, nil, err
	}
	account, ok := login.current(r.accounts)
	if !ok || !r.logins.now().Before(f.Expires) {
		return nil, nil, badRefresh("it has expired or its account has changed")
	}
	return login, account, nil
}

// justRotated reports whether a generation was replaced no longer than leeway
// ago: its use is a race of the client with itself, later it is theft.
func (f *family) justRotated(generation string, now time.Time, leeway time.Duration) bool {
	return slices.ContainsFunc(f.Rotated, func(past rotation) bool {
		return past.Generation == generation && past.within(leeway, now)
	})
}

// within reports whether the rotation happened no longer than leeway ago. One
// that is further in the future happened before the clock was set back, an
// unknown time ago.
func (past rotation) within(leeway time.Duration, now time.Time) bool {
	return now.Sub(past.At).Abs() <= leeway
}

// reused ends the login of a family for the use of a generation that is not in
// it any more, or returns errStale: what was read may be older than the token,
// and only what the store holds at this moment says that it was replaced.
func (r *RefreshTokens) reused(ctx context.Context, key string, f *family, raw []byte) error {
	err := r.logins.store.Swap(ctx, key, raw, raw, f.Expires)
	if errors.Is(err, store.ErrConflict) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("looking for a reuse: %w", err)
	}
	login, err := r.logins.End(ctx, f.Login)
	if err != nil {
		return err
	}
	return &ReuseError{Login: login}
}

// rotated is f with the next generation current.
func (r *RefreshTokens) rotated(f *family, next string, now time.Time) family {
	recent := slices.DeleteFunc(slices.Clone(f.Rotated), func(past rotation) bool {
		return !past.within(r.options.Leeway, now)
	})
	recent = append(recent, rotation{Generation: f.Current, At: now})
	successor := *f
	successor.Current = next
	successor.Rotated = recent[max(0, len(recent)-maxRotations):]
	return successor
}

// device is a hash of the traits that tokens are bound to, empty for none.
func (r *RefreshTokens) device(creds *auth.Credentials) string {
	if len(r.options.Bind) == 0 {
		return ""
	}
	var traits []string
	for _, trait := range r.options.Bind {
		switch trait {
		case BindUserAgent:
			traits = append(traits, "user_agent", creds.UserAgent)
		case BindIP:
			traits = append(traits, "ip", address(creds.Client))
		}
	}
	return hashed([]byte(strings.Join(traits, "\x00"))) // no header value holds a NUL
}

func address(a netip.Addr) string { return a.Unmap().WithZone("").String() }

func badRefresh(reason string) error {
	return &auth.Rejection{Detail: auth.DetailBadRefresh, Reason: "refresh token: " + reason}
}
