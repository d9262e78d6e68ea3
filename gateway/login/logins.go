package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
	"authgate/gateway/store"
	"authgate/policy"
)

// Keys of the store. What follows a prefix is a hash wherever the thing it
// stands for is a secret.
const (
	loginPrefix   = "login:"    // + sid
	SessionPrefix = "session:"  // + hash of the session identifier
	refreshPrefix = "refresh:"  // + hash of the refresh family's secret
	revokedPrefix = "revoked:"  // + jti
	userPrefix    = "user:"     // + subject of somebody whom a provider vouches for
	groupPrefix   = "group:"    // + hash of what the logins have in common
	attemptPrefix = "attempt:"  // + hash of the state
	renewPrefix   = "renewing:" // + sid
	usedPrefix    = "used:"     // + hash of the logout token's issuer and jti
)

// undoTime bounds the end of a login that came to nothing. Where the store does
// not answer its client has waited for that already.
const undoTime = 200 * time.Millisecond

// Login is the record of one sign-in. Sessions, refresh tokens and access
// tokens name it, and none of them is good once it is gone.
type Login struct {
	// ID is the sid: it names the login in tokens and logs and opens nothing.
	ID string `json:"-"`
	// Username and Version are the local account that signed in, and the
	// version it had then; a changed password gives the account another one.
	Username string `json:"user,omitempty"`
	Version  string `json:"version,omitempty"`
	// Since is the tenure of the account at the time of the login.
	Since time.Time `json:"since,omitzero"`
	// Delegated is who signed in at a provider; nil for local accounts.
	Delegated *Delegation `json:"delegated,omitempty"`
	// Created is when, Expires when the login ends by itself.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Handles are the store's keys of the session and refresh family that
	// were issued with the login; they are removed with it.
	Handles []string `json:"handles,omitempty"`
}

// Subject is the subject of the identities of the login.
func (login *Login) Subject() string {
	if login.Delegated != nil {
		return login.Delegated.Subject()
	}
	return policy.LocalProvider + ":" + login.Username
}

// HasTokens reports whether tokens were issued with the login.
func (login *Login) HasTokens() bool {
	return slices.ContainsFunc(login.Handles, func(key string) bool { return strings.HasPrefix(key, refreshPrefix) })
}

// Logins keeps the logins. It is the one way to begin and to end one.
type Logins struct {
	store  store.Store
	now    func() time.Time
	groups *groups
}

// NewLogins returns logins kept in s. now is the clock of the store, see
// store.ClockOf.
func NewLogins(s store.Store, now func() time.Time) *Logins {
	l := &Logins{store: s, now: now}
	l.groups = newGroups(l)
	return l
}

// Handle makes the record of something that belongs to a login, such as a
// session. It returns the record's key and value in the store, and when the
// record expires.
type Handle func(*Login) (key string, value []byte, expires time.Time, err error)

// Begin records a new login of account, together with its handles. The client
// must get nothing of it unless the error is nil.
func (l *Logins) Begin(ctx context.Context, account *auth.Account, expires time.Time, handles ...Handle) (*Login, error) {
	login := &Login{
		ID:       rand.Text(),
		Username: account.Username,
		Version:  account.Version(),
		Since:    account.Epoch(),
		Created:  l.now(),
		Expires:  expires,
	}
	return l.begin(ctx, login, login.Created, handles)
}

// begin records login and its handles. started is when it was asked for.
func (l *Logins) begin(ctx context.Context, login *Login, started time.Time, handles []Handle) (*Login, error) {
	// Side by side, so that a store that groups its commits needs one.
	var puts errgroup.Group
	put := func(key string, value []byte, expires time.Time) {
		puts.Go(func() error { return l.store.Put(ctx, key, value, expires) })
	}
	for _, handle := range handles {
		key, value, ends, err := handle(login)
		if err != nil {
			return nil, errors.Join(err, puts.Wait())
		}
		login.Handles = append(login.Handles, key)
		put(key, value, ends)
	}
	value, err := json.Marshal(login)
	if err != nil {
		return nil, errors.Join(err, puts.Wait())
	}
	put(loginPrefix+login.ID, value, login.Expires)
	if err := puts.Wait(); err != nil {
		_ = l.undo(login) // the error that counts is the first one
		return nil, fmt.Errorf("beginning a login: %w", err)
	}
	// Last, so that who ends a group finds a login to end from the moment on
	// that the group names it; who was earlier has left a mark there.
	if err := l.groups.enter(ctx, login, started); err != nil {
		return nil, errors.Join(err, l.undo(login))
	}
	return login, nil
}

// undo ends a login of which nobody was told a secret. Where that fails what
// stays is unused, and expires by itself.
func (l *Logins) undo(login *Login) error {
	// Not with the context of the request, whose time for the store may be over.
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	_, err := l.End(ctx, login.ID)
	return err
}

// read returns what the store holds of a login or a handle, or ErrRejected
// when that has ended.
func (l *Logins) read(ctx context.Context, key string) ([]byte, error) {
	raw, err := l.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, auth.ErrRejected
	}
	if err != nil {
		kind, _, _ := strings.Cut(key, ":")
		return nil, fmt.Errorf("reading a record (%s): %w", kind, err)
	}
	return raw, nil
}

// same reports whether the store still holds what it held; ErrRejected where
// one of the records is gone.
func (l *Logins) same(ctx context.Context, basis []record) (bool, error) {
	for _, r := range basis {
		raw, err := l.read(ctx, r.key)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(raw, r.raw) {
			return false, nil
		}
	}
	return true, nil
}

// decodeLogin decodes the record of a login.
func decodeLogin(sid string, raw []byte) (*Login, error) {
	login, err := decode[Login](raw)
	if err != nil {
		return nil, err
	}
	login.ID = sid
	return login, nil
}

// End ends the login: every session, refresh token and access token of it is
// dead when End returns nil. It returns the login that ended, nil when there
// was none. After an error the login may still be alive.
func (l *Logins) End(ctx context.Context, sid string) (*Login, error) {
	return l.end(ctx, sid, l.groups.leave)
}

// end ends the login, and then does what else is to be done about it, beside
// the clearing away.
func (l *Logins) end(ctx context.Context, sid string, also ...func(context.Context, *Login)) (*Login, error) {
	// Deleting the record is the one step that counts, so that ending is
	// atomic; the handles are worthless from then on and only cleared away.
	raw, err := l.store.Take(ctx, loginPrefix+sid)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ending a login: %w", err)
	}
	login, err := decodeLogin(sid, raw)
	if err != nil {
		return &Login{ID: sid}, nil // damaged, and gone with the record
	}
	var deletes errgroup.Group
	for _, key := range login.Handles {
		deletes.Go(func() error { return l.store.Delete(ctx, key) })
	}
	for _, do := range also {
		deletes.Go(func() error {
			do(ctx, login)
			return nil
		})
	}
	_ = deletes.Wait() // what stays is dead and expires by itself
	return login, nil
}

// current reports whether login was made by the local account as it is in
// accounts, in its present tenure, and returns that account.
func (login *Login) current(accounts *auth.Accounts) (*auth.Account, bool) {
	if login.Delegated != nil {
		return nil, false
	}
	account, ok := accounts.Lookup(login.Username)
	return account, ok && account.Version() == login.Version && login.in(account.Epoch())
}

// in reports whether the login began in the tenure that began at since. It does
// not ask which came first, because the clock may have been set in between.
func (login *Login) in(since time.Time) bool {
	if login.Since.IsZero() { // recorded by a version that did not store it
		return !login.Created.Before(since)
	}
	return login.Since.Equal(since)
}

// isAhead reports whether t, a time that was stored earlier, is later than now
// by more than the clocks of two instances may differ: the clock was set back.
func isAhead(t, now time.Time) bool { return t.Sub(now) > clockLeeway }

// newSecret returns 256 random bits.
func newSecret() []byte {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand
	return secret
}

// newSecretText returns 256 random bits in base64url.
func newSecretText() string { return base64.RawURLEncoding.EncodeToString(newSecret()) }

// hashed names secret in the store: base64url of its SHA-256. A fast hash is
// enough for 256 random bits.
func hashed(secret []byte) string {
	sum := sha256.Sum256(secret)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func decode[T any](raw []byte) (*T, error) {
	record := new(T)
	if err := json.Unmarshal(raw, record); err != nil {
		return nil, fmt.Errorf("a record in the store is damaged: %w", err)
	}
	return record, nil
}
