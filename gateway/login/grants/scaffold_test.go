package grants

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/gateway/store/seal"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

const (
	testIssuer = "https://gw.example"
	wiki       = "https://gw.example/wiki"
	leeway     = 10 * time.Second
	month      = 30 * 24 * time.Hour
)

var (
	alice = accounts.Account{Username: "alice", Roles: []string{"user", "admin"}, Hash: testHash("wonderland")}
	bob   = accounts.Account{Username: "bob", Roles: []string{"user"}, Hash: testHash("builder")}
)

func testHash(plain string) password.Hash {
	encoded, err := bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost)
	hash, errParse := password.Parse(string(encoded))
	if err := errors.Join(err, errParse); err != nil {
		panic(err)
	}
	return hash
}

// rig is one instance of the gateway's logins and grants.
type rig struct {
	clock    *clocktest.Clock
	store    *storetest.Recorder
	plain    store.Store // what instances use instead, unless nil: a store that records nothing
	keys     *jose.Keys
	op       *testProvider
	people   []accounts.Account
	audience []string
	scopes   map[string][]string // the roles that they lend; nil: all
	clients  map[string][]string // their own roles
	refused  string              // user whom the policies of clients do not let in

	accounts  *accounts.Set
	logins    *login.Logins
	session   *login.Sessions
	delegated *login.Sessions
	users     *login.Users
	tokens    *login.AccessTokens
	refresh   *login.RefreshTokens
	bearers   *login.BearerTokens
	overview  *login.Overview
	grants    *Grants
	consents  *Consents
	devices   *Devices
}

func newRig(tb testing.TB, changes ...func(*rig)) *rig {
	tb.Helper()
	r := &rig{
		clock: clocktest.New(), people: []accounts.Account{alice, bob}, audience: []string{"authgate"},
		keys: must.Get(jose.NewHS256([]byte("0123456789abcdefghijklmnopqrstuv")))(tb), op: &testProvider{},
		clients: map[string][]string{"backup": {"operator"}},
	}
	memory := store.NewMemory(r.clock.Now)
	tb.Cleanup(func() { _ = memory.Close() })
	r.store = &storetest.Recorder{Store: memory}
	return r.instance(tb, changes...)
}

// instance returns another instance over the same store, as after a reload or a restart.
func (r *rig) instance(tb testing.TB, changes ...func(*rig)) *rig {
	tb.Helper()
	next := *r
	for _, change := range changes {
		change(&next)
	}
	now, s := next.clock.Now, store.Store(next.store)
	if next.plain != nil {
		s = next.plain
	}
	next.accounts = accounts.New(slices.Clone(next.people), nil, now)
	next.logins = login.NewLogins(s, now)
	next.session = login.NewSessions(login.SessionOptions{Lifetime: time.Hour}, next.accounts, next.logins)
	next.tokens = login.NewAccessTokens(login.AccessTokenOptions{
		Issuer: testIssuer, Audience: next.audience, Lifetime: 15 * time.Minute, Realm: "authgate",
	}, next.keys, next.accounts, next.logins)
	next.bearers = login.NewBearerTokens(next.tokens, nil)
	next.refresh = login.NewRefreshTokens(login.RefreshOptions{Lifetime: time.Hour, Leeway: leeway}, next.accounts,
		next.logins)
	box := must.Get(seal.New([]byte(strings.Repeat("s", seal.MinSecret))))(tb)
	next.users = login.NewUsers(login.UsersOptions{
		Providers: map[string]login.Provider{"keycloak": next.op}, Lifetime: time.Hour, Box: box, Now: now,
		Report: func(*login.Login, bool, error) {},
	}, next.logins)
	next.delegated = login.NewDelegatedSessions(next.users)
	next.overview = &login.Overview{
		Logins: next.logins, Accounts: next.accounts, Sessions: next.session, Users: next.users, Delegated: next.delegated,
	}
	holders := &login.Holders{Logins: next.logins, Accounts: next.accounts, Users: next.users}
	next.consents = NewConsents(s, now, holders)
	next.grants = New(Options{
		Store: s, Now: now, Logins: next.logins, Keys: next.keys, Issuer: testIssuer, Audience: next.audience,
		Holders: holders,
		Leeway:  leeway, CodeLifetime: time.Minute,
		Lend: next.lend,
		Client: func(id string) ([]string, bool) {
			roles, ok := next.clients[id]
			return roles, ok
		},
		Counts:    func(string) bool { return true },
		Exchanges: func(string) bool { return true },
		Vouches:   func(string, string) bool { return true },
		Federated: func(string, string) bool { return true },
		Admits:    func(_ string, user *policy.Identity) bool { return user.Username != next.refused },
	})
	next.devices = NewDevices(next.grants, 10*time.Minute)
	return &next
}

// elsewhere returns an instance whose calls of the store are recorded apart.
func (r *rig) elsewhere(tb testing.TB) *rig {
	tb.Helper()
	return r.instance(tb, func(r *rig) { r.store = &storetest.Recorder{Store: r.store.Store} })
}

func (r *rig) lend(scopes []string, id *policy.Identity) *policy.Identity {
	if r.scopes == nil {
		return id
	}
	lent := *id // also roles that id does not have
	lent.Roles = nil
	for _, scope := range scopes {
		lent.Roles = append(lent.Roles, r.scopes[scope]...)
	}
	return &lent
}

// testProvider is the identity provider keycloak.
type testProvider struct {
	issuer string // empty: https://id.example.org
	answer func() (*provider.Grant, error)
}

func (p *testProvider) Issuer() string { return cmp.Or(p.issuer, "https://id.example.org") }

func (p *testProvider) Refresh(context.Context, provider.Tokens, string) (*provider.Grant, error) {
	return p.answer()
}

func (p *testProvider) Profile(_ string, now, known provider.Said) (provider.Profile, provider.Said) {
	if now.Userinfo == nil {
		now = known
	}
	var profile provider.Profile
	if err := json.Unmarshal(now.Userinfo, &profile); err != nil {
		panic(err)
	}
	return profile, now
}

// grant is what the provider says about carol, whose tokens are due after 15 minutes.
func (r *rig) grant(roles ...string) *provider.Grant {
	profile := provider.Profile{Subject: "7", Username: "carol", Roles: roles}
	said, err := json.Marshal(profile)
	if err != nil {
		panic(err)
	}
	return &provider.Grant{
		Profile: profile, Said: provider.Said{Userinfo: said}, Session: "op",
		Tokens: provider.Tokens{Access: "a", Refresh: "r" + r.clock.Now().String(),
			Expires: r.clock.Now().Add(20 * time.Minute)},
	}
}

// signedIn is a user with a session and, with a local account, a refresh token of the login.
type signedIn struct {
	*policy.Identity
	session, refresh string
	delegated        bool
}

// signIn signs in an account, or carol at the provider.
func (r *rig) signIn(tb testing.TB, username string) *signedIn {
	tb.Helper()
	if username == "carol" {
		session, handle := r.delegated.New("")
		attempt := &journey.Attempt{Provider: "keycloak", Started: r.clock.Now()}
		must.Get(r.users.Begin(tb.Context(), attempt, r.grant("user"), login.Device{}, handle))(tb)
		id := must.Get(r.delegated.Authenticate(tb.Context(), &auth.Credentials{Delegated: session}))(tb)
		return &signedIn{Identity: id, session: session, delegated: true}
	}
	account, _ := r.accounts.Lookup(username)
	session, bySession := r.session.New("")
	refresh, byRefresh := r.refresh.New(&auth.Credentials{})
	must.Get(r.logins.Begin(tb.Context(), account, login.Device{}, login.Term{Lifetime: time.Hour},
		[]string{factors.Password}, bySession, byRefresh))(tb)
	id := must.Get(r.session.Authenticate(tb.Context(), &auth.Credentials{Session: session}))(tb)
	return &signedIn{Identity: id, session: session, refresh: refresh}
}

// terms are those of grafana for the wiki.
func terms(changes ...func(*Terms)) Terms {
	t := Terms{
		Client: "grafana", Resource: wiki, Scopes: []string{"openid", "read", "write"}, Nonce: "n-1", OpenID: true,
		Access: 15 * time.Minute, Refresh: month,
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

// consents makes a user consent to t.
func (r *rig) consentTo(tb testing.TB, s *signedIn, t Terms) {
	tb.Helper()
	must.Do(tb, r.consents.Give(tb.Context(), s.Subject, t.Client, "Name of "+t.Client, t.Resource, t.Scopes))
}

// code returns a code that a user grants.
func (r *rig) code(tb testing.TB, s *signedIn, t Terms) string {
	tb.Helper()
	r.consentTo(tb, s, t)
	return must.Get(r.grants.NewCode(tb.Context(), s.Identity, Code{
		Terms: t, RedirectURI: "https://grafana.example/back", Challenge: "S256 of it",
	}))(tb)
}

// granted returns the first tokens of a client.
func (r *rig) granted(tb testing.TB, s *signedIn, changes ...func(*Terms)) *Issued {
	tb.Helper()
	return must.Get(r.grants.Redeem(tb.Context(), r.code(tb, s, terms(changes...)), right))(tb)
}

func right(*Code) error       { return nil }
func rightTerms(*Terms) error { return nil }

func (r *rig) rotate(tb testing.TB, token string) (*Issued, error) {
	tb.Helper()
	return r.grants.Refresh(tb.Context(), token, rightTerms)
}

// at authenticates at the wiki, at the host gw.example.
func (r *rig) at(tb testing.TB, token string) (*policy.Identity, error) {
	tb.Helper()
	target := Target{At: func(host string) string { return "https://" + host + "/wiki" }}
	mechanism := r.grants.At(target, r.audience, r.bearers)
	creds := &auth.Credentials{Scheme: "bearer", Value: token, Host: "gw.example"}
	id, err := mechanism.Authenticate(tb.Context(), creds)
	alive, errAlive := mechanism.Alive(tb.Context(), creds)
	if (err == nil) != (errAlive == nil) || (id == nil) != (alive == nil) {
		tb.Errorf("Authenticate: %+v, %v; Alive: %+v, %v", id, err, alive, errAlive)
	}
	return id, err
}

// wantIn fails the test unless an access token opens the wiki.
func (r *rig) wantIn(tb testing.TB, issued *Issued) {
	tb.Helper()
	if id, err := r.at(tb, issued.Access); err != nil {
		tb.Errorf("got %+v, %v; want it let in", id, err)
	}
}

// wantOut fails the test unless all tokens are refused.
func (r *rig) wantOut(tb testing.TB, issued *Issued) {
	tb.Helper()
	if id, err := r.at(tb, issued.Access); id != nil || !errors.Is(err, auth.ErrRejected) {
		tb.Errorf("the access token: got %+v, %v; want it refused", id, err)
	}
	if issued.Refresh != "" {
		if next, err := r.rotate(tb, issued.Refresh); next != nil || !errors.Is(err, ErrInvalid) {
			tb.Errorf("the refresh token: got %+v, %v; want it refused", next, err)
		}
	}
	for _, token := range []string{issued.Access, issued.Refresh} {
		found, err := r.grants.Inspect(tb.Context(), issued.Terms.Client, token)
		if err != nil || found.Active {
			tb.Errorf("inspected: %+v, %v", found, err)
		}
	}
}

// wantInvalid fails the test unless err is an ErrInvalid because of reason.
func wantInvalid(tb testing.TB, issued *Issued, err error, reason string) {
	tb.Helper()
	if issued != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), reason) {
		tb.Errorf("got %+v, %v; want it refused because of: %s", issued, err, reason)
	}
}

// wantSession fails the test unless the session of a user is valid, or not.
func (r *rig) wantSession(tb testing.TB, s *signedIn, want bool) {
	tb.Helper()
	_, err := r.session.Authenticate(tb.Context(), &auth.Credentials{Session: s.session})
	if s.delegated {
		_, err = r.delegated.Authenticate(tb.Context(), &auth.Credentials{Delegated: s.session})
	}
	if (err == nil) != want {
		tb.Errorf("the session: %v", err)
	}
}

// claimsOf returns what a token says, unverified.
func claimsOf(tb testing.TB, token string) (header, claims map[string]any) {
	tb.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		tb.Fatalf("%d parts of %q, want 3", len(parts), token)
	}
	for i, into := range []*map[string]any{&header, &claims} {
		must.Do(tb, json.Unmarshal(must.Get(base64.RawURLEncoding.DecodeString(parts[i]))(tb), into))
	}
	return header, claims
}

func jsonOf(value any) (string, error) {
	raw, err := json.Marshal(value)
	return string(raw), err
}

// revoke revokes a token for a client.
func (r *rig) revoke(ctx context.Context, client, token string) error {
	_, err := r.grants.Revoke(ctx, client, token)
	return err
}
