package login

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/identity/trusted"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/gateway/store/seal"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

const (
	testIssuer  = "https://gateway.example"
	testLeeway  = 10 * time.Second
	testOP      = "https://id.example.org/realms/main" // the issuer of the provider keycloak
	testPerson  = "248289761001"
	testSession = "session at the provider"
)

var (
	testSecret = []byte("0123456789abcdefghijklmnopqrstuv")
	errStore   = storetest.ErrNoAnswer
	testRSA    = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	testDevice = &auth.Credentials{Client: netip.MustParseAddr("192.0.2.7"), UserAgent: "test/1"}

	alice = accounts.Account{Username: "alice", Name: "Alice Example", Email: "alice@example.org",
		Roles: []string{"user", "admin"}, Hash: testHash("wonderland")}
	bob = accounts.Account{Username: "bob", Roles: []string{"user"}, Hash: testHash("builder")}
)

// rig is one instance of all mechanisms.
type rig struct {
	clock        *clocktest.Clock
	now          func() time.Time // usually clock.Now
	store        *storetest.Recorder
	keys         *jose.Keys
	box          *seal.Box
	people       []accounts.Account
	op           *testProvider         // keycloak
	plain, asked *providertest.Trusted // asked is asked about opaque tokens
	reports      chan report           // of renewals

	sessionOptions SessionOptions
	bearerOptions  AccessTokenOptions
	refreshOptions RefreshOptions
	usersOptions   UsersOptions

	accounts           *accounts.Set
	logins             *Logins
	session, delegated *Sessions
	bearer             *AccessTokens
	refresh            *RefreshTokens
	users              *Users
	trusted            *trusted.Tokens
	bearers            *BearerTokens
}

// newRig returns an instance with a store of its own, the default configuration, HS256
// keys, and the accounts alice and bob. changes may change that.
func newRig(tb testing.TB, changes ...func(*rig)) *rig {
	tb.Helper()
	r := &rig{
		clock: clocktest.New(), keys: testKeys(tb, "HS256"), box: testBox(tb, "of the tests"),
		people: []accounts.Account{alice, bob}, reports: make(chan report, 1000),
		op:             providerAt(testOP),
		plain:          providertest.NewTrusted("https://plain.example", false),
		asked:          providertest.NewTrusted("https://asked.example", true),
		sessionOptions: SessionOptions{Lifetime: time.Hour},
		bearerOptions: AccessTokenOptions{Issuer: testIssuer, Audience: []string{"authgate"}, Lifetime: 15 * time.Minute,
			Realm: "authgate"},
		refreshOptions: RefreshOptions{Lifetime: 7 * 24 * time.Hour, Leeway: testLeeway},
	}
	r.now = r.clock.Now
	r.usersOptions = UsersOptions{Providers: map[string]Provider{"keycloak": r.op}, Lifetime: time.Hour}
	r.usersOptions.Report = func(login *Login, ended bool, err error) { r.reports <- report{login.ID, ended, err} }
	for _, change := range changes {
		change(r)
	}
	memory := store.NewMemory(r.now)
	tb.Cleanup(func() { _ = memory.Close() })
	r.store = &storetest.Recorder{Store: memory, AtOnce: os.Getenv(atOnceChild) != ""}
	return r.instance(tb)
}

// instance returns another instance over the same store, as after a reload.
func (r *rig) instance(tb testing.TB, changes ...func(*rig)) *rig {
	tb.Helper()
	next := *r
	next.usersOptions.Providers = maps.Clone(r.usersOptions.Providers)
	for _, change := range changes {
		change(&next)
	}
	next.usersOptions.Now, next.usersOptions.Box = next.now, next.box
	next.accounts = accounts.New(slices.Clone(next.people), nil, next.now)
	next.logins = NewLogins(next.store, next.now)
	next.session = NewSessions(next.sessionOptions, next.accounts, next.logins)
	next.bearer = NewAccessTokens(next.bearerOptions, next.keys, next.accounts, next.logins)
	next.refresh = NewRefreshTokens(next.refreshOptions, next.accounts, next.logins)
	next.users = NewUsers(next.usersOptions, next.logins)
	next.delegated = NewDelegatedSessions(next.users)
	next.trust(next.store)
	return &next
}

// trust makes the mechanism for all tokens, with revocations in s.
func (r *rig) trust(s store.Store) {
	issuers := []trusted.Issuer{{Name: "plain", Verifier: r.plain}, {Name: "asked", Opaque: true, Verifier: r.asked}}
	r.trusted = trusted.New(issuers, s, r.now, r.now)
	r.bearers = NewBearerTokens(r.bearer, r.trusted)
}

// elsewhere returns an instance whose calls of the store are recorded apart.
func (r *rig) elsewhere(tb testing.TB) *rig {
	tb.Helper()
	return r.instance(tb, func(r *rig) { r.store = &storetest.Recorder{Store: r.store.Store, AtOnce: r.store.AtOnce} })
}

// withAccounts returns an instance with other accounts.
func (r *rig) withAccounts(tb testing.TB, people ...accounts.Account) *rig {
	tb.Helper()
	return r.instance(tb, func(r *rig) { r.people = people })
}

func testKeys(tb testing.TB, algorithm string) *jose.Keys {
	tb.Helper()
	if algorithm == "HS256" {
		return must.Get(jose.NewHS256(testSecret))(tb)
	}
	return must.Get(jose.NewRS256(must.Get(testRSA())(tb)))(tb)
}

func bothAlgorithms(t *testing.T, test func(*testing.T, *rig)) {
	for _, algorithm := range []string{"HS256", "RS256"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, func(r *rig) { r.keys = testKeys(t, algorithm) }))
		})
	}
}

func testBox(tb testing.TB, secret string) *seal.Box {
	tb.Helper()
	return must.Get(seal.New([]byte(secret + strings.Repeat(".", seal.MinSecret))))(tb)
}

// testHash returns a cheap hash of plain.
func testHash(plain string) password.Hash {
	encoded, err := bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost)
	hash, errParse := password.Parse(string(encoded))
	if err := errors.Join(err, errParse); err != nil {
		panic(err)
	}
	return hash
}

// failures are the ways in which a provider or an issuer fails, by name.
var failures = providertest.Failures(errStore)

// testProvider is a provider whose refresh tokens work once.
type testProvider struct {
	providertest.Server[provider.Grant]
	again bool // they work more than once
}

// providerAt returns the provider with that issuer.
func providerAt(issuer string) *testProvider {
	return &testProvider{Server: providertest.Server[provider.Grant]{Identifier: issuer}}
}

func (p *testProvider) Refresh(ctx context.Context, t provider.Tokens, subject string) (*provider.Grant, error) {
	if used := slices.Contains(p.Questions(), t.Refresh) && !p.again; used || subject != testPerson || t.Refresh == "" {
		_, _ = p.Ask(ctx, t.Refresh)
		return nil, providertest.Fails(provider.ErrEnded)
	}
	return p.Ask(ctx, t.Refresh)
}

// Profile takes what the provider says, or has said, for the profile itself, as saying writes it.
func (p *testProvider) Profile(_ string, now, known provider.Said) (provider.Profile, provider.Said) {
	if now.Userinfo == nil {
		now = known
	}
	var profile provider.Profile
	if err := json.Unmarshal(now.Userinfo, &profile); err != nil {
		panic(err) // only saying writes it
	}
	return profile, now
}

// saying is a provider that says this profile.
func saying(profile provider.Profile) provider.Said {
	raw, err := json.Marshal(profile)
	if err != nil {
		panic(err)
	}
	return provider.Said{Userinfo: raw}
}

// report is a reported renewal.
type report struct {
	login string
	ended bool
	err   error
}

// grant is the provider's answer for the person, with these roles. Its tokens expire
// after 20 minutes, so they are due after 15.
func (r *rig) grant(roles ...string) *provider.Grant {
	profile := provider.Profile{
		Subject: testPerson, Username: "alice", Name: "Alice Example", Email: "alice@example.org",
		Roles: roles, Claims: map[string]any{"department": "sales"},
	}
	return &provider.Grant{
		Profile: profile, Said: saying(profile),
		Tokens: provider.Tokens{
			Access: "access token " + rand.Text(), Refresh: "refresh token " + rand.Text(),
			ID:      "ID token " + rand.Text(),
			Expires: r.now().Add(20 * time.Minute),
		},
		Session: testSession,
	}
}

// access is an issuer's answer for a token that is valid for an hour.
func (r *rig) access(jti string) provider.AccessToken {
	return providertest.Access(jti, r.now().Add(time.Hour))
}

// signedIn is what a client has after a login. What it has not is empty.
type signedIn struct {
	login                               *Login
	session, delegated, access, refresh string
}

// begin begins a login of an account, with a session and a refresh token.
func (r *rig) begin(tb testing.TB, account *accounts.Account, more ...Handle) (*signedIn, error) {
	session, sessionHandle := r.session.New("")
	refresh, refreshHandle := r.refresh.New(testDevice)
	login, err := r.logins.Begin(tb.Context(), account, DeviceOf(testDevice), Term{Lifetime: r.refresh.Lifetime(false)},
		[]string{factors.Password},
		append(more, sessionHandle, refreshHandle)...)
	return &signedIn{login: login, session: session, refresh: refresh}, err
}

// signIn begins a login of an account, with a session and tokens.
func (r *rig) signIn(tb testing.TB, username string) *signedIn {
	tb.Helper()
	account, _ := r.accounts.Lookup(username)
	s := must.Get(r.begin(tb, account))(tb)
	var err error
	s.access, _, err = r.bearer.Issue(s.login, account)
	must.Do(tb, err)
	return s
}

// beginAt begins a login at the provider with that name. Its attempt began at started.
func (r *rig) beginAt(tb testing.TB, name string, grant *provider.Grant, started time.Time) (*signedIn, error) {
	id, handle := r.delegated.New("")
	attempt := &journey.Attempt{Provider: name, Started: started}
	login, err := r.users.Begin(tb.Context(), attempt, grant, DeviceOf(testDevice),
		handle)
	return &signedIn{login: login, delegated: id}, err
}

// signInAt begins a login at keycloak, as the changes to the grant say.
func (r *rig) signInAt(tb testing.TB, grant *provider.Grant) *signedIn {
	tb.Helper()
	return must.Get(r.beginAt(tb, "keycloak", grant, r.now()))(tb)
}

func (r *rig) bySession(tb testing.TB, s *signedIn) (*policy.Identity, error) {
	if s.delegated != "" {
		return r.delegated.Authenticate(tb.Context(), &auth.Credentials{Delegated: s.delegated})
	}
	return r.session.Authenticate(tb.Context(), &auth.Credentials{Session: s.session})
}

// byToken asks the mechanism for the gateway's own tokens, byBearer that for all tokens.
func (r *rig) byToken(tb testing.TB, token string) (*policy.Identity, error) {
	return r.bearer.Authenticate(tb.Context(), &auth.Credentials{Scheme: "bearer", Value: token})
}

func (r *rig) byBearer(tb testing.TB, token string) (*policy.Identity, error) {
	return r.bearers.Authenticate(tb.Context(), &auth.Credentials{Scheme: "bearer", Value: token})
}

func (r *rig) rotate(tb testing.TB, token string) (*Refreshed, error) {
	return r.refresh.Rotate(tb.Context(), token, testDevice)
}

// wantIn fails the test unless all that the client has is valid, and its session has these
// roles, if any are given. It rotates the refresh token.
func (r *rig) wantIn(tb testing.TB, s *signedIn, roles ...string) {
	tb.Helper()
	if id, err := r.bySession(tb, s); err != nil || id.Login != s.login.ID || len(roles) > 0 &&
		!slices.Equal(id.Roles, roles) {
		tb.Errorf("by session: got %+v, %v, want the login %s with the roles %q", id, err, s.login.ID, roles)
	}
	if s.access != "" {
		if id, err := r.byToken(tb, s.access); err != nil || id.Login != s.login.ID {
			tb.Errorf("by access token: got %+v, %v, want the login %s", id, err, s.login.ID)
		}
	}
	if s.refresh != "" {
		rotation, err := r.rotate(tb, s.refresh)
		if err != nil || rotation.Login.ID != s.login.ID {
			tb.Errorf("by refresh token: got %+v, %v, want the login %s", rotation, err, s.login.ID)
			return
		}
		s.refresh = rotation.Token
	}
}

// wantExpired fails the test unless the session is rejected as one that has ended by time.
func (r *rig) wantExpired(tb testing.TB, s *signedIn) {
	tb.Helper()
	id, err := r.bySession(tb, s)
	wantRejected(tb, auth.DetailSessionEnded, "expired session")(id, err)
	if rejection := (*auth.Rejection)(nil); errors.As(err, &rejection) && !rejection.Ended {
		tb.Error("the rejection does not tell that the session has ended by time")
	}
}

// wantOut fails the test unless all that the client has is rejected.
func (r *rig) wantOut(tb testing.TB, s *signedIn) {
	tb.Helper()
	id, err := r.bySession(tb, s)
	wantRejected(tb, auth.DetailNotSignedIn, "unknown, expired or ended session")(id, err)
	role := auth.SessionCookie
	if s.delegated != "" {
		role = auth.DelegatedCookie
	}
	if rejection := (*auth.Rejection)(nil); errors.As(err, &rejection) && rejection.Cookie != role {
		tb.Errorf("the rejection names the cookie role %d, want %d", rejection.Cookie, role)
	}
	if s.access != "" {
		wantRejected(tb, auth.DetailBadToken, "access token: ")(r.byToken(tb, s.access))
	}
	if s.refresh != "" {
		if rotation, err := r.rotate(tb, s.refresh); rotation != nil || !errors.Is(err, auth.ErrRejected) {
			tb.Errorf("by refresh token: got %+v, %v, want it rejected", rotation, err)
		}
	}
}

// end ends the login.
func (r *rig) end(tb testing.TB, s *signedIn) {
	tb.Helper()
	must.Get(r.logins.End(tb.Context(), s.login.ID))(tb)
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

// wantNothing fails the test unless no credentials were found.
func wantNothing(tb testing.TB, id *policy.Identity, err error) {
	tb.Helper()
	if id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		tb.Errorf("got %+v, %v, want no credentials", id, err)
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

// records counts the records of a kind in the store.
func (r *rig) records(tb testing.TB, kind string) int {
	tb.Helper()
	return len(storetest.Keys(tb, r.store.Store, kind))
}

// wantRecords fails the test unless the store has that many records.
func (r *rig) wantRecords(tb testing.TB, prefix string, want int) {
	tb.Helper()
	if got := r.records(tb, prefix); got != want {
		tb.Errorf("the store has %d records %q, want %d", got, prefix, want)
	}
}

// stored decodes the record of a key.
func stored[T any](tb testing.TB, s store.Store, key string) *T {
	tb.Helper()
	return must.Get(record.Decode[T](must.Get(s.Get(tb.Context(), key))(tb)))(tb)
}

// restore changes a record in the store, and removes its expiry.
func restore[T any](tb testing.TB, s store.Store, key string, change func(*T)) {
	tb.Helper()
	record := stored[T](tb, s, key)
	change(record)
	must.Do(tb, s.Put(tb.Context(), key, must.Get(json.Marshal(record))(tb), time.Time{}))
}

// base64url returns the bytes in base64url, decoded what such text holds.
func base64url(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func decoded(tb testing.TB, text string) string {
	tb.Helper()
	return string(must.Get(base64.RawURLEncoding.DecodeString(text))(tb))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return b
}
