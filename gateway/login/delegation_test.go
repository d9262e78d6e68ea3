package login

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/clocktest"
	"authgate/gateway/provider"
	"authgate/gateway/seal"
	"authgate/gateway/store"
	"authgate/policy"
)

const (
	testOP     = "https://id.example.org/realms/main"
	testPerson = "248289761001"
)

// delegation is one instance with the mechanism of delegated sessions and the provider
// keycloak.
type delegation struct {
	clock   *clocktest.Clock
	now     func() time.Time // usually clock.Now
	store   *recordingStore
	op      *testProvider
	reports *reports
	options UsersOptions

	logins  *Logins
	users   *Users
	session *Sessions
}

// newDelegation returns an instance with its own store. change may change its parts.
func newDelegation(tb testing.TB, change func(*delegation)) *delegation {
	tb.Helper()
	d := &delegation{clock: clocktest.New(), op: &testProvider{issuer: testOP}, reports: &reports{}}
	d.now = d.clock.Now
	d.options = UsersOptions{
		Providers: map[string]Provider{"keycloak": d.op},
		Lifetime:  time.Hour,
		Box:       testBox(tb, "of the tests"),
		Report:    d.reports.add,
	}
	if change != nil {
		change(d)
	}
	if d.store == nil {
		memory := store.NewMemory(d.now)
		tb.Cleanup(func() { _ = memory.Close() })
		d.store = &recordingStore{Store: memory}
	}
	return d.instance(nil)
}

// instance returns another instance over the same store, as after a reload. change may
// change its configuration.
func (d *delegation) instance(change func(*UsersOptions)) *delegation {
	next := *d
	next.options.Providers = maps.Clone(d.options.Providers)
	if change != nil {
		change(&next.options)
	}
	next.options.Now = next.now
	next.logins = NewLogins(next.store, next.now)
	next.users = NewUsers(next.options, next.logins)
	next.session = NewDelegatedSessions(next.users)
	return &next
}

func testBox(tb testing.TB, secret string) *seal.Box {
	tb.Helper()
	return must(seal.New([]byte(secret + strings.Repeat(".", seal.MinSecret))))(tb)
}

// testProvider is a provider whose refresh tokens work once. It fails until a test sets
// its answer.
type testProvider struct {
	issuer string

	mu     sync.Mutex
	again  bool     // refresh tokens work more than once
	asked  []string // the refresh tokens that it got
	answer func(context.Context) (*provider.Grant, error)
}

func (p *testProvider) Issuer() string { return p.issuer }

func (p *testProvider) Refresh(ctx context.Context, t provider.Tokens, subject string) (*provider.Grant, error) {
	p.mu.Lock()
	used := slices.Contains(p.asked, t.Refresh) && !p.again
	p.asked = append(p.asked, t.Refresh)
	answer := p.answer
	p.mu.Unlock()
	switch {
	case used || subject != testPerson || t.Refresh == "":
		return nil, providerFails(provider.ErrRefused)
	case answer == nil:
		return nil, providerFails(provider.ErrFault)
	}
	return answer(ctx)
}

// providerFails returns an error of a provider.
func providerFails(kind error) error {
	return &provider.Error{Provider: "keycloak", Operation: "token", Kind: kind, Err: errors.New("as the test says")}
}

// answers sets the provider's answer.
func (p *testProvider) answers(answer func(context.Context) (*provider.Grant, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// refreshes returns the refresh tokens that the provider got.
func (p *testProvider) refreshes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// reports are the reported renewals.
type reports struct {
	mu  sync.Mutex
	all []report
}

type report struct {
	login string
	ended bool
	err   error
}

func (r *reports) add(login *Login, ended bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, report{login.ID, ended, err})
}

// take returns the reports since it was last called.
func (r *reports) take() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// grant is the provider's answer for the person, with these roles. Its tokens expire
// after 20 minutes, so they are due after 15.
func (d *delegation) grant(roles ...string) *provider.Grant {
	return &provider.Grant{
		Profile: provider.Profile{
			Subject: testPerson, Username: "alice", Name: "Alice Example", Email: "alice@example.org",
			Roles: roles, Claims: map[string]any{"department": "sales"},
		},
		Tokens: provider.Tokens{
			Access: "access token " + newSecretText(), Refresh: "refresh token " + newSecretText(), ID: "ID token " + newSecretText(),
			Expires: d.now().Add(20 * time.Minute),
		},
		Session: "session at the provider",
	}
}

// begin begins a login at the provider with that name. Its attempt began at started.
func (d *delegation) begin(tb testing.TB, name string, grant *provider.Grant, started time.Time) (*signedIn, error) {
	tb.Helper()
	id, handle := d.session.New()
	login, err := d.users.Begin(tb.Context(), name, grant, started, handle)
	return &signedIn{login: login, session: id}, err
}

// signIn begins a login at keycloak.
func (d *delegation) signIn(tb testing.TB, grant *provider.Grant) *signedIn {
	tb.Helper()
	s, err := d.begin(tb, "keycloak", grant, d.now())
	if err != nil {
		tb.Fatalf("signing in: %v", err)
	}
	return s
}

func (d *delegation) by(tb testing.TB, s *signedIn) (*policy.Identity, error) {
	return d.session.Authenticate(tb.Context(), &auth.Credentials{Delegated: s.session})
}

// wantIn fails the test unless the session is valid and has these roles.
func (d *delegation) wantIn(tb testing.TB, s *signedIn, roles ...string) {
	tb.Helper()
	id, err := d.by(tb, s)
	if err != nil || id.Login != s.login.ID || !slices.Equal(id.Roles, roles) {
		tb.Errorf("got %+v, %v, want the session of %s with the roles %q", id, err, s.login.ID, roles)
	}
}

// wantOut fails the test unless the session is rejected.
func (d *delegation) wantOut(tb testing.TB, s *signedIn) {
	tb.Helper()
	id, err := d.by(tb, s)
	wantRejected(tb, auth.DetailNotSignedIn, "unknown, expired or ended session")(id, err)
	var r *auth.Rejection
	if errors.As(err, &r) && r.Cookie != auth.DelegatedCookie {
		tb.Errorf("the rejection names the cookie role %d", r.Cookie)
	}
}

// records counts the store's records.
func (d *delegation) records(tb testing.TB, prefix string) int {
	tb.Helper()
	return must(d.store.Store.(store.Counter).Count(tb.Context(), prefix))(tb)
}

// stored decodes the record of a key.
func stored[T any](tb testing.TB, s store.Store, key string) *T {
	tb.Helper()
	raw, err := s.Get(tb.Context(), key)
	if err != nil {
		tb.Fatalf("%s: %v", key, err)
	}
	record, err := decode[T](raw)
	if err != nil {
		tb.Fatalf("%s: %v", key, err)
	}
	return record
}

// restore changes a record in the store, and removes its expiry.
func restore[T any](tb testing.TB, s store.Store, key string, change func(*T)) {
	tb.Helper()
	record := stored[T](tb, s, key)
	change(record)
	raw := must(json.Marshal(record))(tb)
	noError(tb, s.Put(tb.Context(), key, raw, time.Time{}))
}
