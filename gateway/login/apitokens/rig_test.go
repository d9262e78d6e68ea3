package apitokens

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/grants"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

var (
	alice = accounts.Account{Username: "alice", Name: "Alice Example", Email: "alice@example.org",
		Roles: []string{"user", "admin"}, Hash: testHash("wonderland")}
	bob = accounts.Account{Username: "bob", Roles: []string{"user"}, Hash: testHash("builder")}
)

// testHash returns a cheap hash of plain.
func testHash(plain string) password.Hash {
	encoded, err := bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost)
	hash, errParse := password.Parse(string(encoded))
	if err := errors.Join(err, errParse); err != nil {
		panic(err)
	}
	return hash
}

// rig is one instance of the mechanisms.
type rig struct {
	clock    *clocktest.Clock
	store    *storetest.Recorder
	accounts *accounts.Set
	api      *Set
	bearers  *Bearers
}

// newRig returns an instance with a store of its own, and the accounts alice and bob.
func newRig(tb testing.TB) *rig {
	tb.Helper()
	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	tb.Cleanup(func() { _ = memory.Close() })
	r := &rig{clock: clock, store: &storetest.Recorder{Store: memory}}
	return r.withAccounts(tb, alice, bob)
}

func (r *rig) now() time.Time { return r.clock.Now() }

// withAccounts returns an instance with other accounts over the same store.
func (r *rig) withAccounts(tb testing.TB, people ...accounts.Account) *rig {
	tb.Helper()
	next := *r
	next.accounts = accounts.New(slices.Clone(people), nil, r.now)
	next.api = New(next.accounts, r.store, r.now)
	keys := must.Get(jose.NewHS256([]byte("0123456789abcdefghijklmnopqrstuv")))(tb)
	own := login.NewAccessTokens(login.AccessTokenOptions{Issuer: "https://gateway.example", Realm: "authgate"}, keys,
		next.accounts, login.NewLogins(r.store, r.now))
	next.bearers = NewBearers(next.api, login.NewBearerTokens(own, nil), grants.ContainsOwn)
	return &next
}

// elsewhere returns an instance whose calls of the store are recorded apart.
func (r *rig) elsewhere(tb testing.TB) *rig {
	tb.Helper()
	next := *r
	next.store = &storetest.Recorder{Store: r.store.Store}
	return next.withAccounts(tb, alice, bob)
}

// newToken makes a token of the account for a day, with these roles.
func (r *rig) newToken(tb testing.TB, username string, roles ...string) (string, Token) {
	tb.Helper()
	account, _ := r.accounts.Lookup(username)
	token, made, err := r.api.Create(tb.Context(), accountOwner(account), "laptop", roles, 24*time.Hour)
	must.Do(tb, err)
	return token, made
}

// owner returns the account of that name as an owner of tokens, also if it is gone.
func (r *rig) owner(username string) *Owner {
	if account, ok := r.accounts.Lookup(username); ok {
		return accountOwner(account)
	}
	return &Owner{list: username}
}

func (r *rig) byToken(tb testing.TB, token string) (*policy.Identity, error) {
	return r.bearers.Authenticate(tb.Context(), &auth.Credentials{Scheme: "bearer", Value: token})
}

func (r *rig) byPassword(tb testing.TB, username, token string) (*policy.Identity, error) {
	mechanism := Passwords{Tokens: r.api}
	return mechanism.Authenticate(tb.Context(), &auth.Credentials{Scheme: "basic", Value: basicValue(username, token)})
}

// wantRefused returns a function that fails the test unless a token in either header is
// rejected, with a reason that contains reason.
func wantRefused(tb testing.TB, reason string) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		r, ok := errors.AsType[*auth.Rejection](err)
		if id != nil || !ok || !errors.Is(err, auth.ErrRejected) {
			tb.Errorf("got %+v, %v, want it rejected because of: %s", id, err, reason)
		} else if r.Detail != auth.DetailBadToken && r.Detail != auth.DetailWrongPassword ||
			!strings.Contains(r.Reason, reason) {
			tb.Errorf("rejected with %q because of %q, want it because of %q", r.Detail, r.Reason, reason)
		}
	}
}

func basicValue(username, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
}
