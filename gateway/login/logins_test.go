package login

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/clocktest"
	"authgate/gateway/store"
	"authgate/policy"
)

// mechanisms are the mechanisms for local accounts, over one store and one clock.
type mechanisms struct {
	clock    *clocktest.Clock
	store    *recordingStore
	keys     *Keys
	accounts *auth.Accounts

	sessionOptions SessionOptions
	bearerOptions  AccessTokenOptions
	refreshOptions RefreshOptions

	logins  *Logins
	session *Sessions
	bearer  *AccessTokens
	refresh *RefreshTokens
}

const (
	testIssuer = "https://gateway.example"
	testLeeway = 10 * time.Second
)

var (
	testSecret = []byte("0123456789abcdefghijklmnopqrstuv")
	testRSA    = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	// The hashes stay the same over reloads.
	aliceHash, bobHash = testHash("wonderland"), testHash("builder")
)

func alice() auth.Account {
	return auth.Account{Username: "alice", Name: "Alice Example", Email: "alice@example.org", Roles: []string{"user", "admin"}, PasswordHash: aliceHash}
}

func bob() auth.Account {
	return auth.Account{Username: "bob", Roles: []string{"user"}, PasswordHash: bobHash}
}

// newMechanisms returns mechanisms for alice and bob with the default configuration and
// HS256 keys. change may change that.
func newMechanisms(tb testing.TB, change func(*mechanisms)) *mechanisms {
	tb.Helper()
	m := &mechanisms{
		clock:          clocktest.New(),
		keys:           testKeys(tb, "HS256"),
		sessionOptions: SessionOptions{Lifetime: time.Hour},
		bearerOptions:  AccessTokenOptions{Issuer: testIssuer, Audience: []string{"authgate"}, Lifetime: 15 * time.Minute, Realm: "authgate"},
		refreshOptions: RefreshOptions{Lifetime: 7 * 24 * time.Hour, Leeway: testLeeway},
	}
	if change != nil {
		change(m)
	}
	if m.store == nil {
		memory := store.NewMemory(m.clock.Now)
		tb.Cleanup(func() { _ = memory.Close() })
		m.store = &recordingStore{Store: memory}
	}
	return m.reloaded(tb, alice(), bob())
}

// reloaded returns new mechanisms for other accounts, over the same store and keys.
func (m *mechanisms) reloaded(tb testing.TB, users ...auth.Account) *mechanisms {
	tb.Helper()
	next := *m
	next.accounts = newTestAccounts(tb, users...)
	next.logins = NewLogins(next.store, next.clock.Now)
	next.session = NewSessions(next.sessionOptions, next.accounts, next.logins)
	next.bearer = NewAccessTokens(next.bearerOptions, next.keys, next.accounts, next.logins)
	next.refresh = NewRefreshTokens(next.refreshOptions, next.accounts, next.logins)
	return &next
}

func testKeys(tb testing.TB, algorithm string) *Keys {
	tb.Helper()
	if algorithm == "HS256" {
		return must(NewHS256(testSecret))(tb)
	}
	key := must(testRSA())(tb)
	return must(NewRS256(key))(tb)
}

// testDevice returns the device traits of the test clients.
func testDevice() *auth.Credentials {
	return &auth.Credentials{Client: netip.MustParseAddr("192.0.2.7"), UserAgent: "test/1"}
}

// signedIn is the result of a login.
type signedIn struct {
	login                    *Login
	session, access, refresh string
}

// begin begins a login with a session and a refresh token.
func (m *mechanisms) begin(tb testing.TB, account *auth.Account, more ...Handle) (*signedIn, error) {
	tb.Helper()
	session, sessionHandle := m.session.New()
	refresh, refreshHandle := m.refresh.New(testDevice())
	login, err := m.logins.Begin(tb.Context(), account, m.refresh.Expires(m.clock.Now()), append(more, sessionHandle, refreshHandle)...)
	return &signedIn{login: login, session: session, refresh: refresh}, err
}

// signIn begins a login with a session and tokens.
func (m *mechanisms) signIn(tb testing.TB, username string) *signedIn {
	tb.Helper()
	account, ok := m.accounts.Lookup(username)
	if !ok {
		tb.Fatalf("no account %q", username)
	}
	s, err := m.begin(tb, account)
	if err != nil {
		tb.Fatalf("signing in: %v", err)
	}
	if s.access, _, err = m.bearer.Issue(s.login, account); err != nil {
		tb.Fatalf("issuing an access token: %v", err)
	}
	return s
}

func (m *mechanisms) bySession(tb testing.TB, id string) (*policy.Identity, error) {
	return m.session.Authenticate(tb.Context(), &auth.Credentials{Session: id})
}

func (m *mechanisms) byToken(tb testing.TB, token string) (*policy.Identity, error) {
	return m.bearer.Authenticate(tb.Context(), &auth.Credentials{Scheme: "bearer", Value: token})
}

func (m *mechanisms) rotate(tb testing.TB, token string) (*Rotation, error) {
	return m.refresh.Rotate(tb.Context(), token, testDevice())
}

// wantAlive fails the test unless all handles of the login are valid. It rotates the
// refresh token.
func (m *mechanisms) wantAlive(tb testing.TB, s *signedIn) {
	tb.Helper()
	if id, err := m.bySession(tb, s.session); err != nil || id.Login != s.login.ID {
		tb.Errorf("by session: got %+v, %v", id, err)
	}
	if id, err := m.byToken(tb, s.access); err != nil || id.Login != s.login.ID {
		tb.Errorf("by access token: got %+v, %v", id, err)
	}
	rotation, err := m.rotate(tb, s.refresh)
	if err != nil || rotation.Login.ID != s.login.ID {
		tb.Errorf("by refresh token: got %+v, %v", rotation, err)
		return
	}
	s.refresh = rotation.Token
}

// wantDead fails the test unless all handles of the login are rejected.
func (m *mechanisms) wantDead(tb testing.TB, s *signedIn) {
	tb.Helper()
	id, err := m.bySession(tb, s.session)
	wantRejected(tb, auth.DetailNotSignedIn, "session")(id, err)
	id, err = m.byToken(tb, s.access)
	wantRejected(tb, auth.DetailBadToken, "access token: ")(id, err)
	if rotation, err := m.rotate(tb, s.refresh); rotation != nil || !errors.Is(err, auth.ErrRejected) {
		tb.Errorf("by refresh token: got %+v, %v, want it rejected", rotation, err)
	}
}

// wantRejected returns a function that fails the test unless the error is a Rejection with
// this detail and a reason that contains reason: wantRejected(t, detail, reason)(f()).
func wantRejected(tb testing.TB, detail, reason string) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		var r *auth.Rejection
		if id != nil || !errors.As(err, &r) || !errors.Is(err, auth.ErrRejected) {
			tb.Errorf("got %+v, %v, want it rejected because of: %s", id, err, reason)
		} else if r.Detail != detail || !strings.Contains(r.Reason, reason) {
			tb.Errorf("rejected with %q because of %q, want %q because of %q", r.Detail, r.Reason, detail, reason)
		}
	}
}

// wantNoAnswer returns a function that fails the test unless the error means that the
// answer is unknown, and is cause if one is given.
func wantNoAnswer(tb testing.TB, cause ...error) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		if id != nil || err == nil || errors.Is(err, auth.ErrRejected) || errors.Is(err, auth.ErrNoCredentials) {
			tb.Errorf("got %+v, %v, want an error that decides nothing", id, err)
		}
		for _, want := range cause {
			if !errors.Is(err, want) {
				tb.Errorf("got %v, want %v", err, want)
			}
		}
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	counter := m.store.Store.(store.Counter)
	s := m.signIn(t, "alice")
	if n, err := counter.Count(t.Context(), ""); err != nil || n != 4 {
		t.Fatalf("%d entries of a login, %v; want login, session, refresh family and group", n, err)
	}
	other := m.signIn(t, "alice")
	if s.login.ID == other.login.ID || len(s.login.ID) < 26 {
		t.Errorf("sids %q and %q, want two of 130 bits", s.login.ID, other.login.ID)
	}
	for _, secret := range []string{s.session, s.refresh} {
		if strings.Contains(secret, s.login.ID) || strings.Contains(s.login.ID, secret) {
			t.Error("the sid, which is public, is part of a secret")
		}
	}
	m.wantAlive(t, s)
	ended, err := m.logins.End(t.Context(), s.login.ID)
	if err != nil || ended == nil || ended.ID != s.login.ID || ended.Subject() != "local:alice" {
		t.Errorf("got %+v, %v, want the login that ended", ended, err)
	}
	m.wantDead(t, s)
	for _, sid := range []string{s.login.ID, "NEVER", ""} {
		if again, err := m.logins.End(t.Context(), sid); again != nil || err != nil {
			t.Errorf("%q: got %+v, %v, want nothing to end", sid, again, err)
		}
	}
	m.wantAlive(t, other)
	must(m.logins.End(t.Context(), other.login.ID))(t)
	if n, err := counter.Count(t.Context(), ""); err != nil || n != 0 {
		t.Errorf("%d entries stay, %v", n, err)
	}
}

// A login is valid or invalid as a whole, whichever step of its end fails. A failure is no
// rejection, and a second try ends everything.
func TestEndWithAFailingStore(t *testing.T) {
	t.Parallel()
	end := func(m *mechanisms, s *signedIn) error {
		_, err := m.logins.End(t.Context(), s.login.ID)
		return err
	}
	revoke := func(m *mechanisms, s *signedIn) error {
		_, err := m.bearer.Revoke(t.Context(), s.access)
		return err
	}
	for _, test := range []struct {
		name               string
		end                func(*mechanisms, *signedIn) error
		failing            string
		late, fails, alive bool
	}{
		{"ending", end, "take login:", false, true, true},
		{"ending", end, "take login:", true, true, false},
		{"ending", end, "delete session:", false, false, false},
		{"ending", end, "delete refresh:", false, false, false},
		{"ending", end, "delete ", false, false, false},
		{"ending", end, "delete ", true, false, false},
		{"revoking", revoke, "get revoked:", false, true, true},
		{"revoking", revoke, "get login:", false, true, true},
		{"revoking", revoke, "take login:", false, true, true},
		{"revoking", revoke, "take login:", true, true, false},
		{"revoking", revoke, "put revoked:", false, true, false},
		{"revoking", revoke, "put revoked:", true, true, false},
	} {
		t.Run(fmt.Sprintf("%s, %s late %v", test.name, test.failing, test.late), func(t *testing.T) {
			t.Parallel()
			m := newMechanisms(t, nil)
			s := m.signIn(t, "alice")
			m.store.late = test.late
			m.store.fails(test.failing)
			if err := test.end(m, s); test.fails != errors.Is(err, errStore) || (err != nil) != test.fails || errors.Is(err, auth.ErrRejected) {
				t.Errorf("got the error %v", err)
			}
			m.store.fails("")
			if test.alive {
				m.wantAlive(t, s)
				noError(t, test.end(m, s))
			}
			m.wantDead(t, s)
			must(m.logins.End(t.Context(), s.login.ID))(t)
		})
	}
}

func TestBeginFailingHalfWayLeavesNothingUsable(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"put session:", "put refresh:", "put login:", "a handle"} {
		for _, late := range []bool{false, true} {
			t.Run(failing, func(t *testing.T) {
				t.Parallel()
				m := newMechanisms(t, nil)
				m.store.late = late
				m.store.fails(failing)
				account, _ := m.accounts.Lookup("alice")
				s, err := m.begin(t, account, func(*Login) (string, []byte, time.Time, error) {
					if failing == "a handle" {
						return "", nil, time.Time{}, errStore
					}
					return "session:another", nil, m.clock.Now(), nil
				})
				if s.login != nil || !errors.Is(err, errStore) {
					t.Errorf("late %v: got %+v, %v, want the error of the store", late, s.login, err)
				}
				m.store.fails("")
				wantRejected(t, auth.DetailNotSignedIn, "unknown")(m.bySession(t, s.session))
				if _, err := m.rotate(t, s.refresh); !errors.Is(err, auth.ErrRejected) {
					t.Errorf("late %v: by refresh token: %v", late, err)
				}
			})
		}
	}
}

// Logins get the current name, address and roles of their account.
func TestLoginsFollowTheAccountOfToday(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	m.wantAlive(t, s)
	today := alice()
	today.Roles, today.Name, today.Email = []string{"guest"}, "Alice Liddell", "liddell@example.org"
	next := m.reloaded(t, today, bob())
	next.wantAlive(t, s)
	for name, authenticate := range map[string]func() (*policy.Identity, error){
		"session": func() (*policy.Identity, error) { return next.bySession(t, s.session) },
		"token":   func() (*policy.Identity, error) { return next.byToken(t, s.access) },
	} {
		id, err := authenticate()
		if err != nil || len(id.Roles) != 1 || id.Roles[0] != "guest" || id.Name != today.Name || id.Email != today.Email {
			t.Errorf("%s: got %+v, %v, want the account of today", name, id, err)
		}
	}
}

// A damaged record is an error and no decision.
func TestDamagedRecordsDecideNothing(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{loginPrefix, SessionPrefix, refreshPrefix} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			m := newMechanisms(t, nil)
			s := m.signIn(t, "alice")
			for _, key := range append(s.login.Handles, loginPrefix+s.login.ID) {
				if strings.HasPrefix(key, prefix) {
					noError(t, m.store.Put(t.Context(), key, []byte(`{"sid":7`), m.clock.Now().Add(time.Hour)))
				}
			}
			if prefix != refreshPrefix {
				wantNoAnswer(t)(m.bySession(t, s.session))
			}
			if prefix == loginPrefix {
				wantNoAnswer(t)(m.byToken(t, s.access))
			}
			if prefix != SessionPrefix {
				_, err := m.rotate(t, s.refresh)
				wantNoAnswer(t)(nil, err)
			}
			must(m.logins.End(t.Context(), s.login.ID))(t)
			if id, err := m.byToken(t, s.access); id != nil || !errors.Is(err, auth.ErrRejected) {
				t.Errorf("after its end: got %+v, %v", id, err)
			}
		})
	}
}

// answerTime is how long callers wait for a frozen store.
const answerTime = 1500 * time.Millisecond

// frozenFrom returns a function for recordingStore.before. The store stops answering with
// the first call for a key with that prefix.
func frozenFrom(prefix string, frozen *atomic.Bool) func(context.Context, string) error {
	return func(ctx context.Context, call string) error {
		if strings.Contains(call, " "+prefix) {
			frozen.Store(true)
		}
		if !frozen.Load() {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(answerTime):
		}
		return errStore
	}
}

// A login waits once for a store that stops answering.
func TestBeginWithAStoreThatFreezes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys  string
		begin func(t *testing.T, before func(context.Context, string) error) error
	}{
		"a local account": {loginPrefix, func(t *testing.T, before func(context.Context, string) error) error {
			m := newMechanisms(t, nil)
			m.store.before = before
			account, _ := m.accounts.Lookup("alice")
			_, err := m.logins.Begin(t.Context(), account, m.clock.Now().Add(time.Hour))
			return err
		}},
		"at a provider": {groupPrefix, func(t *testing.T, before func(context.Context, string) error) error {
			d := newDelegation(t, nil)
			d.store.before = before
			_, err := d.begin(t, "keycloak", d.grant("user"), d.now())
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var frozen atomic.Bool
			began := time.Now()
			err := c.begin(t, frozenFrom(c.keys, &frozen))
			if took := time.Since(began); !errors.Is(err, errStore) || !frozen.Load() || took != answerTime+undoTime {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}

// A login counts while its account has the same version and the same epoch.
func TestCurrentAccount(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	disabled, changed := alice(), alice()
	disabled.Disabled = true
	changed.PasswordHash = testHash("wonderland") // the same password
	epochs := func(m *mechanisms) *mechanisms {
		m.clock.Advance(time.Minute)
		noError(t, m.accounts.UpdateEpochs(t.Context(), m.store, m.clock.Now()))
		return m
	}
	before := m.signIn(t, "alice") // by a version that does not store epochs
	m = epochs(m)
	for _, gone := range [][]auth.Account{{bob()}, {disabled, bob()}, {changed, bob()}} {
		s, other := m.signIn(t, "alice"), m.signIn(t, "bob")
		m.wantDead(t, before)
		m.wantAlive(t, s)
		next := epochs(m.reloaded(t, gone...))
		next.wantDead(t, s)
		next.wantAlive(t, other)
		m = epochs(m.reloaded(t, alice(), bob()))
		m.wantDead(t, s) // although the account is the same again
		m.wantAlive(t, other)
	}
	login := Login{Created: m.clock.Now()}
	if !login.inEpoch(login.Created) || login.inEpoch(login.Created.Add(1)) {
		t.Error("a login without an epoch must have been created in the epoch")
	}
}
