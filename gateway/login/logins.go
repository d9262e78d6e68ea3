package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// Key prefixes in the store. A secret is never part of a key: its hash is.
const (
	loginPrefix    = "login:"    // + sid
	SessionPrefix  = "session:"  // + hash of the session identifier
	refreshPrefix  = "refresh:"  // + hash of the refresh family's secret
	revokedPrefix  = "revoked:"  // + jti
	userPrefix     = "user:"     // + subject of a person at a provider
	groupPrefix    = "group:"    // + hash of what the logins share
	renewPrefix    = "renewing:" // + sid
	outlivedPrefix = "outlived:" // + hash of the session identifier
	usedPrefix     = "used:"     // + hash of the logout token's issuer and jti
)

// undoTime is the time limit for ending a login that could not be recorded. The
// client has already waited for the store.
const undoTime = 200 * time.Millisecond

// Login is the record of one sign-in. Sessions, refresh tokens and access tokens
// refer to it and are valid only while it exists.
type Login struct {
	// ID is the sid. It names the login in tokens and logs, and is not a secret.
	ID string `json:"-"`
	// Username is the local account that signed in. Version is the account's
	// version at that time.
	Username string `json:"user,omitempty"`
	Version  string `json:"version,omitempty"`
	// Since is when the account had changed last.
	Since time.Time `json:"since,omitzero"`
	// Renewed is the login after its user changed the password with it, nil if they
	// did not.
	Renewed *renewal `json:"renewed,omitempty"`
	// Delegated is the login at a provider, nil for a local account.
	Delegated *delegation `json:"delegated,omitempty"`
	// Created is the time of the login. Its own handles end at Expires; see Lend.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Proof is the proof that the user gave at the sign-in. It stays the same as long as the login
	// goes on, whatever handles it gets.
	Proof policy.Proof `json:"proof,omitzero"`
	// Remember tells that the user stays signed in for longer, see SessionOptions.
	Remember bool `json:"remember,omitempty"`
	// Device is where the login comes from.
	Device Device `json:"device,omitzero"`
	// Handles are the store keys of the session and the refresh token family of
	// the login. They are deleted with it. A record that a login does not name
	// opens nothing.
	Handles []string `json:"handles,omitempty"`
	// Attached are the sessions at other hosts, for which the same holds.
	Attached []attached `json:"attached,omitempty"`
	// Lent are the handles that other rooms made; see Lend. Clients are those that got an
	// ID token for the login.
	Lent    []lent   `json:"lent,omitempty"`
	Clients []string `json:"clients,omitempty"`
	// Yielded tells that the user has signed in again in the same browser, and that the login goes
	// on for its grants alone. Inherited are the sids of such logins, which end with this one.
	Yielded   bool     `json:"yielded,omitempty"`
	Inherited []string `json:"inherited,omitempty"`
	// Replaced are the logins that have ended because a new one came in their place. Only the
	// new one, as it begins, has them.
	Replaced []*Login `json:"-"`
}

// Subject returns the subject of the login's identities.
func (login *Login) Subject() string {
	if login.Delegated != nil {
		return login.Delegated.Subject()
	}
	return policy.LocalProvider + ":" + login.Username
}

// HasTokens reports whether the login has access and refresh tokens.
func (login *Login) HasTokens() bool {
	return slices.ContainsFunc(login.Handles, func(key string) bool { return strings.HasPrefix(key, refreshPrefix) })
}

// sidLength is the length of a login's ID, which crypto/rand.Text makes.
const sidLength = 26

// Logins begins and ends all logins.
type Logins struct {
	store  store.Store
	now    func() time.Time
	groups *groups
	users  *Users       // of the configuration; nil without providers
	ended  func(*Login) // see OnEnd
}

// NewLogins returns logins stored in s. now is the clock of the store; see
// store.ClockOf.
func NewLogins(s store.Store, now func() time.Time) *Logins {
	l := &Logins{store: s, now: now, ended: func(*Login) {}}
	l.groups = newGroups(l)
	return l
}

// Handle makes the record of something that belongs to a login, such as a
// session. It returns the record's key and value in the store, and when the
// record expires.
type Handle func(*Login) (key string, value []byte, expires time.Time, err error)

// Term is how long a login lives, and in whose place it comes.
type Term struct {
	Lifetime time.Duration
	Remember bool     // see Login.Remember
	Replaces []string // sids of the logins that its browser has, each once
}

// Begin records a new login of account from a device, together with its handles. methods
// are those by which the user has just proved who they are, such as factors.Password; see
// policy.Proof. The logins that it replaces end, or yield.
// The client must get nothing of it unless the error is nil.
func (l *Logins) Begin(
	ctx context.Context, account *accounts.Account, device Device, term Term, methods []string, handles ...Handle,
) (*Login, error) {
	now := l.now()
	login := &Login{
		ID:       rand.Text(),
		Username: account.Username,
		Version:  account.LoginVersion(),
		Since:    account.LoginChanged(),
		Created:  now,
		Expires:  now.Add(term.Lifetime),
		Remember: term.Remember,
		Device:   device,
		Proof:    policy.Proof{AMR: methods, AuthTime: now},
	}
	return l.beginLogin(ctx, login, login.Created, term.Replaces, handles)
}

// beginLogin records login and its handles, and replaces others by it. started is the time when
// the client asked for the login.
func (l *Logins) beginLogin(
	ctx context.Context, login *Login, started time.Time, replaces []string, handles []Handle,
) (*Login, error) {
	before, err := l.inherit(ctx, login, replaces)
	if err != nil {
		return nil, fmt.Errorf("beginning a login: %w", err)
	}
	// In parallel, so that a store that groups writes commits once.
	var puts errgroup.Group
	put := func(key string, value []byte, expires time.Time) {
		puts.Go(func() error { return l.putHandle(ctx, key, value, expires) })
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
		_ = l.undo(login) // the first error is the one to return
		return nil, fmt.Errorf("beginning a login: %w", err)
	}
	// The groups come last. A logout that comes later finds the login in the
	// group and ends it. A logout that came earlier has marked the group.
	if err = l.groups.enter(ctx, login, started); err == nil {
		err = l.replace(ctx, login, replaces, before)
	}
	if err != nil {
		return nil, errors.Join(err, l.undo(login))
	}
	return login, nil
}

// undo ends a login whose secrets the client does not get. If that fails, the rest
// is unused and expires.
func (l *Logins) undo(login *Login) error {
	// Not with the context of the request: its time for the store may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	_, err := l.End(ctx, login.ID)
	return err
}

// readRecord returns the record of a login or a handle. The error is ErrRejected if it
// does not exist any more.
func (l *Logins) readRecord(ctx context.Context, key string) ([]byte, error) {
	raw, err := record.Find(ctx, l.store, key)
	if err == nil && raw == nil {
		err = auth.ErrRejected
	}
	return raw, err
}

// load returns a login and its record. The error is ErrRejected if it has ended.
func (l *Logins) load(ctx context.Context, sid string) (login *Login, raw []byte, err error) {
	if raw, err = l.readRecord(ctx, loginPrefix+sid); err != nil {
		return nil, nil, err
	}
	login, err = decodeLogin(sid, raw)
	return login, raw, err
}

// decodeLogin decodes the record of a login.
func decodeLogin(sid string, raw []byte) (*Login, error) {
	login, err := record.Decode[Login](raw)
	if err != nil {
		return nil, err
	}
	login.ID = sid
	return login, nil
}

// amend changes the record of a login. edit changes the login, and returns two lists of keys:
// records that it has made for the login, also beside an error, and records that the login no
// longer names. The first are deleted if the change fails, the others if it succeeds. edit is
// called again if another change of the login comes in between. The error is ErrRejected if the
// login has ended.
func (l *Logins) amend(
	ctx context.Context, sid string, edit func(*Login) (made, left []string, err error),
) (*Login, error) {
	var login *Login
	var made, left []string
	err := store.Update(ctx, l.store, loginPrefix+sid, func(raw []byte) (store.Edit, error) {
		l.forget(ctx, made)
		made = nil
		if raw == nil {
			return store.Edit{}, auth.ErrRejected
		}
		var err error
		if login, err = decodeLogin(sid, raw); err != nil {
			return store.Edit{}, err
		}
		if made, left, err = edit(login); err != nil {
			return store.Edit{}, err
		}
		return record.Edited(login, login.ends())
	})
	if err != nil {
		l.forget(ctx, made)
		return nil, err
	}
	l.forget(ctx, left)
	return login, nil
}

// own returns the keys of the sessions and refresh tokens of the login.
func (login *Login) own() []string {
	keys := slices.Clone(login.Handles)
	for _, a := range login.Attached {
		keys = append(keys, a.Key)
	}
	return keys
}

// keys returns the keys of all records that the login names.
func (login *Login) keys() []string {
	keys := login.own()
	for _, one := range login.Lent {
		keys = append(keys, one.Key)
	}
	return keys
}

// forget deletes records that no login names. A record that remains after a failure opens nothing,
// and expires. A session that is forgotten is not one that ends by time.
func (l *Logins) forget(ctx context.Context, keys []string) {
	var deletes errgroup.Group
	for _, key := range withTraces(keys) {
		deletes.Go(func() error { return l.store.Delete(ctx, key) })
	}
	_ = deletes.Wait()
}

// withTraces returns keys, and those of the traces that outlive their records.
func withTraces(keys []string) []string {
	all := slices.Clone(keys)
	for _, key := range keys {
		if outlives, ok := outlivedKey(key); ok {
			all = append(all, outlives)
		}
	}
	return all
}

// End ends the login: its sessions, refresh tokens and access tokens are invalid
// when End returns without an error. It returns the login, or nil if there was
// none. After an error the login may still be valid.
func (l *Logins) End(ctx context.Context, sid string) (*Login, error) {
	return l.endLogin(ctx, sid, ending{leaves: true})
}

// ending is how a login ends.
type ending struct {
	raw    []byte                        // its record as it was read; nil: it is to be read
	unless func(*Login) bool             // the login goes on instead, as this has changed it; nil: never
	leaves bool                          // it leaves its groups
	also   func(context.Context, *Login) // is called while its handles are deleted; nil: nothing is
}

// endLogin ends the login and clears its handles. Only the deletion of the record matters, so
// ending is atomic. The handles are invalid from then on.
func (l *Logins) endLogin(ctx context.Context, sid string, how ending) (ended *Login, err error) {
	if how.raw == nil {
		how.raw, err = record.Find(ctx, l.store, loginPrefix+sid)
	}
	whole := false
	if err == nil {
		ended, whole, err = l.endAtOnce(ctx, sid, &how)
	}
	if err == nil && !whole {
		err = store.UpdateRead(ctx, l.store, loginPrefix+sid, how.raw, func(raw []byte) (edit store.Edit, err error) {
			ended, edit, err = l.removal(ctx, sid, raw, &how)
			return edit, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ending a login: %w", err)
	}
	if ended == nil {
		return nil, nil
	}
	l.ended(ended)
	var all sync.WaitGroup
	if !whole {
		all.Go(func() { l.forget(ctx, ended.keys()) })
	}
	if how.leaves && !whole {
		all.Go(func() { l.groups.leave(ctx, ended) })
	}
	if how.also != nil {
		how.also(ctx, ended)
	}
	all.Wait()
	return ended, nil
}

// endAtOnce ends a login, deletes its handles and leaves its groups by one write, if the store can. It reports
// whether it did: the login may go on, or another change may come in between.
func (l *Logins) endAtOnce(ctx context.Context, sid string, how *ending) (*Login, bool, error) {
	applier, can := l.store.(store.Applier)
	if !can || !applier.Applies() || how.raw == nil {
		return nil, false, nil
	}
	login, edit, err := l.removal(ctx, sid, how.raw, how)
	if err != nil || login == nil {
		return nil, false, err
	}
	changes := []store.Change{{Key: loginPrefix + sid, Old: how.raw, Edit: edit}}
	for _, key := range withTraces(login.keys()) {
		changes = append(changes, store.Change{Key: key, Any: true, Edit: store.Removal()})
	}
	if how.leaves {
		changes = append(changes, l.groups.departure(ctx, login)...)
	}
	err = applier.Apply(ctx, changes)
	if errors.Is(err, store.ErrConflict) {
		return nil, false, nil
	}
	return login, err == nil, err
}

// removal returns the change of a record that ends its login, and the login; nil if it goes on
// or has ended before.
func (l *Logins) removal(ctx context.Context, sid string, raw []byte, how *ending) (*Login, store.Edit, error) {
	if raw == nil {
		return nil, store.Edit{}, nil
	}
	login, err := decodeLogin(sid, raw)
	if err != nil {
		return &Login{ID: sid}, store.Removal(), nil // the record is damaged
	}
	if how.unless != nil && how.unless(login) {
		edit, err := record.Edited(login, login.ends())
		if bytes.Equal(edit.Value, raw) {
			edit.Value = nil // as it is
		}
		return nil, edit, err
	}
	// First, so that the login can be ended again if that fails.
	err = l.endYielded(ctx, login.Inherited, how.leaves)
	return login, store.Removal(), err
}

// current returns the local account of the login. It reports whether the account
// is in accounts and has not changed since the login.
func (login *Login) current(accounts *accounts.Set) (*accounts.Account, bool) {
	if login.Delegated != nil {
		return nil, false
	}
	account, ok := accounts.Lookup(login.Username)
	return account, ok && login.of(account)
}

// of reports whether the account has not changed since the login, but for a new
// password that the user has set with it. Instances that know the old password
// only accept the login too, until they read the accounts again.
func (login *Login) of(account *accounts.Account) bool {
	r := login.Renewed
	if r != nil && account.LoginVersion() == r.Version && account.LoginChanged().Equal(r.Since) {
		return true
	}
	return account.LoginVersion() == login.Version && login.began(account.LoginChanged())
}

// began reports whether the login began after the account changed, at since, and before
// it changed again. It does not compare which time is earlier, because the clock can be
// set back.
func (login *Login) began(since time.Time) bool {
	if login.Since.IsZero() { // recorded by an older version
		return !login.Created.Before(since)
	}
	return login.Since.Equal(since)
}

// newSecret returns 256 random bits.
func newSecret() []byte {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand
	return secret
}
