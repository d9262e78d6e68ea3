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

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/rotation"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

// Trait is a property of a device that refresh tokens can be bound to.
type Trait int

// The traits.
const (
	BindUserAgent Trait = iota
	BindIP
)

// RefreshOptions configure refresh tokens.
type RefreshOptions struct {
	Lifetime time.Duration // of the family, from the login
	Remember time.Duration // if it is longer: of the family of a login that is remembered
	Leeway   time.Duration // how long a second use of a token counts as an accident
	Bind     []Trait
}

// RefreshTokens issues and rotates refresh tokens. Each login has one family, each
// family has one record, and one token of a family is valid at any time (RFC 9700,
// section 4.14.2).
//
// A token has three parts in base64url: the secret of the family, the secret of the
// generation, both of 256 random bits, and a MAC of the second with the first as its
// key. The store holds only hashes. The MAC tells whether a token was ever issued.
// So an invented token never ends a login, and a stolen token that was used does.
type RefreshTokens struct {
	options  RefreshOptions
	accounts *accounts.Set
	logins   *Logins
}

// NewRefreshTokens returns the refresh tokens for logins of accounts.
func NewRefreshTokens(options RefreshOptions, accounts *accounts.Set, logins *Logins) *RefreshTokens {
	return &RefreshTokens{options: options, accounts: accounts, logins: logins}
}

// family is the record of a login's refresh tokens.
type family struct {
	Login          string    `json:"sid"`
	rotation.State           // of its generations
	Expires        time.Time `json:"expires"`
	Device         string    `json:"device,omitempty"` // hash of the traits that it is bound to
}

// ReuseError is an ErrRejected: a token was used again after the leeway. The token
// is known to two parties, so one of them stole it, and the login was ended.
type ReuseError struct {
	Login *Login // nil if it had already ended
}

func (e *ReuseError) Error() string { return "login: refresh token reused, the login is ended" }

// Unwrap returns the auth.Rejection that users see.
func (e *ReuseError) Unwrap() error {
	return &auth.Rejection{Detail: auth.DetailBadRefresh, Reason: e.Error()}
}

// refreshToken is a parsed token.
type refreshToken struct {
	family, generation []byte // 32 bytes each
}

const (
	checkBytes   = 16
	refreshBytes = 32 + 32 + checkBytes
)

func (t refreshToken) checksum() []byte {
	mac := hmac.New(sha256.New, t.family)
	mac.Write(t.generation)
	return mac.Sum(nil)[:checkBytes]
}

func (t refreshToken) String() string {
	return base64.RawURLEncoding.EncodeToString(slices.Concat(t.family, t.generation, t.checksum()))
}

func (t refreshToken) key() string { return refreshPrefix + record.Hash(t.family) }

// parseRefresh parses a token. ok reports whether the token was ever issued.
func parseRefresh(s string) (t refreshToken, ok bool) {
	// The length must be checked first, because base64 skips line breaks.
	if len(s) != base64.RawURLEncoding.EncodedLen(refreshBytes) {
		return refreshToken{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != refreshBytes {
		return refreshToken{}, false
	}
	t = refreshToken{family: raw[:32], generation: raw[32:64]}
	return t, hmac.Equal(raw[64:], t.checksum())
}

// isRefresh reports whether a text is a refresh token that was ever issued.
func isRefresh(text string) bool {
	_, ok := parseRefresh(text)
	return ok
}

// Lifetime returns how long a new login with refresh tokens lives.
func (r *RefreshTokens) Lifetime(remembered bool) time.Duration {
	if remembered {
		return max(r.options.Lifetime, r.options.Remember)
	}
	return r.options.Lifetime
}

// Expires returns when a login with refresh tokens ends.
func (r *RefreshTokens) Expires(login *Login) time.Time {
	return login.Created.Add(r.Lifetime(login.Remember))
}

// New returns the first token of a new family, and the handle with which
// Logins.Begin records the family. The family is bound to the device traits of
// creds if that is configured.
func (r *RefreshTokens) New(creds *auth.Credentials) (token string, handle Handle) {
	t := refreshToken{family: newSecret(), generation: newSecret()}
	return t.String(), func(login *Login) (string, []byte, time.Time, error) {
		f := family{
			Login:   login.ID,
			State:   rotation.State{Current: record.Hash(t.generation)},
			Expires: r.Expires(login),
			Device:  r.device(creds),
		}
		value, err := json.Marshal(f)
		return t.key(), value, f.Expires, err
	}
}

// Refreshed is the result of a refresh.
type Refreshed struct {
	Login   *Login
	Account *accounts.Account
	Token   string    // the new refresh token
	Expires time.Time // when the family ends
}

// Rotate exchanges token for a new one. Of several concurrent calls with one token,
// one succeeds. The error is an ErrRejected if the token is not valid, a *ReuseError
// if it also ended the login, and any other error if the store failed.
func (r *RefreshTokens) Rotate(
	ctx context.Context, token string, creds *auth.Credentials,
) (*Refreshed, error) {
	return rotation.Retry(func() (*Refreshed, error) { return r.rotate(ctx, token, creds) })
}

// rotate is one attempt of Rotate. It fails with rotation.ErrStale if its read was too old.
func (r *RefreshTokens) rotate(ctx context.Context, token string, creds *auth.Credentials) (*Refreshed, error) {
	t, f, raw, err := r.findFamily(ctx, token)
	if err != nil {
		return nil, err
	}
	login, account, err := r.owner(ctx, f, t.key())
	if err != nil {
		return nil, err
	}
	now := r.logins.now()
	if presented := record.Hash(t.generation); f.Current != presented {
		if f.JustReplaced(presented, r.options.Leeway, now) {
			return nil, auth.Past(badRefresh("used again within the leeway"))
		}
		return nil, r.reused(ctx, t.key(), f, raw)
	}
	if f.Device != r.device(creds) {
		return nil, badRefresh("used by another device")
	}
	next := refreshToken{family: t.family, generation: newSecret()}
	successor := *f
	successor.State = f.Rotate(record.Hash(next.generation), r.options.Leeway, now)
	value, err := json.Marshal(successor)
	if err != nil {
		return nil, err
	}
	err = r.logins.store.Swap(ctx, t.key(), raw, value, f.Expires)
	if errors.Is(err, store.ErrConflict) {
		return nil, auth.Past(badRefresh("another call used it first"))
	}
	if err != nil {
		return nil, fmt.Errorf("rotating a refresh token: %w", err)
	}
	return &Refreshed{Login: login, Account: account, Token: next.String(), Expires: f.Expires}, nil
}

// LoginOf returns the sid of the login that a token belongs to, whether or not the
// token was used. The error is ErrRejected if there is none.
func (r *RefreshTokens) LoginOf(ctx context.Context, token string) (string, error) {
	_, f, _, err := r.findFamily(ctx, token)
	if err != nil {
		return "", err
	}
	return f.Login, nil
}

func (r *RefreshTokens) findFamily(ctx context.Context, token string) (refreshToken, *family, []byte, error) {
	t, ok := parseRefresh(token)
	if !ok {
		return t, nil, nil, badRefresh("never issued")
	}
	raw, err := r.logins.readRecord(ctx, t.key())
	if errors.Is(err, auth.ErrRejected) {
		return t, nil, nil, auth.Past(badRefresh("its login has ended"))
	}
	if err != nil {
		return t, nil, nil, err
	}
	f, err := record.Decode[family](raw)
	return t, f, raw, err
}

// owner returns the current login and account of f, whose record is under key.
func (r *RefreshTokens) owner(ctx context.Context, f *family, key string) (*Login, *accounts.Account, error) {
	login, _, err := r.logins.load(ctx, f.Login)
	if errors.Is(err, auth.ErrRejected) {
		return nil, nil, auth.Past(badRefresh("its login has ended"))
	}
	if err != nil {
		return nil, nil, err
	}
	if !login.Names(key) {
		return nil, nil, auth.Past(badRefresh("issued before the user changed the password"))
	}
	account, ok := login.current(r.accounts)
	if !ok || !r.logins.now().Before(f.Expires) {
		return nil, nil, auth.Past(badRefresh("it has expired or its account has changed"))
	}
	return login, account, nil
}

// reused ends the login, because a generation was used that is not in the family any
// more. The read of the family may be older than the token, so reused first asks the
// store whether it still holds raw, and returns rotation.ErrStale if not.
func (r *RefreshTokens) reused(ctx context.Context, key string, f *family, raw []byte) error {
	err := r.logins.store.Swap(ctx, key, raw, raw, f.Expires)
	if errors.Is(err, store.ErrConflict) {
		return rotation.ErrStale
	}
	if err != nil {
		return fmt.Errorf("checking a reused refresh token: %w", err)
	}
	login, err := r.logins.End(ctx, f.Login)
	if err != nil {
		return err
	}
	return &ReuseError{Login: login}
}

// device returns a hash of the traits that tokens are bound to, or an empty string.
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
	return record.Hash([]byte(strings.Join(traits, "\x00"))) // a header value has no NUL
}

func address(a netip.Addr) string { return a.Unmap().WithZone("").String() }

func badRefresh(reason string) error {
	return &auth.Rejection{Detail: auth.DetailBadRefresh, Reason: "refresh token: " + reason}
}
