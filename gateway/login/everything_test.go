package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/policy"
)

// everything is one login of each kind over one store.
type everything struct {
	*issuers
	*waiting
	d                *delegation
	store            *recordingStore
	local, delegated *signedIn
	jwt              string
}

func newEverything(tb testing.TB) *everything {
	tb.Helper()
	e := &everything{issuers: newIssuers(tb, func(m *mechanisms) { m.refreshOptions.Bind = []string{BindUserAgent, BindIP} })}
	e.store = e.issuers.store
	clock := e.issuers.clock
	e.d = newDelegation(tb, func(d *delegation) { d.clock, d.now, d.store = clock, clock.Now, e.store })
	e.waiting = &waiting{clock: clock, store: e.store, attempts: NewAttempts(e.store, testBox(tb, "of the tests"), clock.Now), browser: NewBrowserSecret()}
	e.waiting.attempt = e.waiting.begin(tb, e.browser)
	e.jwt = jwtOf(e.plain.issuer)
	e.plain.knows(e.jwt, e.access("one"))
	e.local, e.delegated = e.issuers.signIn(tb, "alice"), e.d.signIn(tb, e.d.grant("user"))
	return e
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	e := newEverything(t)
	e.asked.knows("opaque", e.access(""))
	now := e.issuers.clock.Now()
	local := policy.Identity{
		Username: "alice", Subject: "local:alice", Name: "Alice Example", Email: "alice@example.org", Roles: []string{"user", "admin"},
		Mechanism: policy.Session, Provider: "local", Login: e.local.login.ID, Expires: now.Add(time.Hour),
	}
	byToken := local
	byToken.Mechanism, byToken.Expires = policy.Bearer, time.Unix(now.Unix()+900, 0)
	carol := policy.Identity{
		Username: "carol", Subject: "plain:7", Name: "Carol", Email: "carol@example.org", Roles: []string{"user"}, Scopes: []string{"read", "write"},
		Claims: map[string]any{"a": "b"}, Mechanism: policy.Bearer, Provider: "plain", Expires: now.Add(time.Hour),
	}
	opaque := carol
	opaque.Subject, opaque.Provider = "asked:7", "asked"
	for name, test := range map[string]struct {
		mechanism auth.Authenticator
		creds     auth.Credentials
		want      policy.Identity
	}{
		"session": {e.session, auth.Credentials{Session: e.local.session}, local},
		"delegated session": {e.d.session, auth.Credentials{Delegated: e.delegated.session}, policy.Identity{
			Username: "alice", Subject: "keycloak:" + testPerson, Name: "Alice Example", Email: "alice@example.org",
			Roles: []string{"user"}, Claims: map[string]any{"department": "sales"},
			Mechanism: policy.OIDC, Provider: "keycloak", Login: e.delegated.login.ID, Expires: now.Add(time.Hour),
		}},
		"access token":           {e.bearers, auth.Credentials{Scheme: "bearer", Value: e.local.access}, byToken},
		"access token, cookie":   {e.bearers, auth.Credentials{Access: e.local.access}, byToken},
		"token of an issuer":     {e.bearers, auth.Credentials{Scheme: "bearer", Value: e.jwt}, carol},
		"opaque token of issuer": {e.bearers, auth.Credentials{Scheme: "bearer", Value: "opaque"}, opaque},
	} {
		got, err := test.mechanism.Authenticate(t.Context(), &test.creds)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(e.plain.introspected)+len(e.asked.verified) != 0 {
		t.Errorf("asked were %+v and %+v", e.plain, e.asked)
	}
	if sid, err := e.session.LoginOf(t.Context(), e.local.session); err != nil || sid != e.local.login.ID {
		t.Errorf("LoginOf: got %q, %v", sid, err)
	}
	if got := e.session.Challenge(&auth.Credentials{Session: e.local.session}); got != "" {
		t.Errorf("the challenge is %q, want none for cookies", got)
	}
	if l, d := e.session.Lifetime(), e.d.session.Lifetime(); l != time.Hour || d != time.Hour {
		t.Errorf("the lifetimes are %v and %v", l, d)
	}
	if l, d := e.local.login, e.delegated.login; l.Subject() != "local:alice" || d.Subject() != "keycloak:"+testPerson || !l.HasTokens() || d.HasTokens() {
		t.Errorf("the logins are %+v and %+v", l, d)
	}
}

// A store that fails decides nothing: the error is not a rejection, tells no
// secret, and the same call succeeds once the store works again.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failing []string
		do      func(*everything, context.Context) error
	}{
		"session": {[]string{"get session:", "get login:"}, func(e *everything, ctx context.Context) error {
			_, err := e.session.Authenticate(ctx, &auth.Credentials{Session: e.local.session})
			return err
		}},
		"sid of a session": {[]string{"get session:"}, func(e *everything, ctx context.Context) error {
			_, err := e.session.LoginOf(ctx, e.local.session)
			return err
		}},
		"delegated session": {[]string{"get session:", "get login:", "get user:"}, func(e *everything, ctx context.Context) error {
			_, err := e.d.session.Authenticate(ctx, &auth.Credentials{Delegated: e.delegated.session})
			return err
		}},
		"access token": {[]string{"get revoked:", "get login:"}, func(e *everything, ctx context.Context) error {
			_, err := e.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: e.local.access})
			return err
		}},
		"sid of an access token": {[]string{"get revoked:", "get login:"}, func(e *everything, ctx context.Context) error {
			_, err := e.bearer.LoginOf(ctx, e.local.access)
			return err
		}},
		"token of a trusted issuer": {[]string{"get revoked:"}, func(e *everything, ctx context.Context) error {
			_, err := e.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: e.jwt})
			return err
		}},
		"revocation of such a token": {[]string{"get revoked:", "put revoked:"}, func(e *everything, ctx context.Context) error {
			_, err := e.bearers.Revoke(ctx, e.jwt)
			return err
		}},
		"revocation of a token without a login": {[]string{"get revoked:", "put revoked:"}, func(e *everything, ctx context.Context) error {
			_, err := e.bearers.Revoke(ctx, (&forger{
				header: map[string]any{"alg": "HS256"}, sign: signHS256(testSecret),
				claims: map[string]any{"iss": testIssuer, "sub": "alice", "aud": "authgate", "jti": "two", "exp": e.issuers.clock.Now().Unix() + 900},
			}).token())
			return err
		}},
		"refresh token": {[]string{"get refresh:", "get login:", "swap refresh:"}, func(e *everything, ctx context.Context) error {
			_, err := e.refresh.Rotate(ctx, e.local.refresh, testDevice())
			return err
		}},
		"sid of a refresh token": {[]string{"get refresh:"}, func(e *everything, ctx context.Context) error {
			_, err := e.refresh.LoginOf(ctx, e.local.refresh)
			return err
		}},
		"beginning an attempt": {[]string{"put attempt:"}, func(e *everything, ctx context.Context) error {
			return e.attempts.Begin(ctx, netip.Addr{}, e.attempts.New(e.browser, "keycloak", testOP, ""))
		}},
		"finishing an attempt": {[]string{"get attempt:", "take attempt:"}, func(e *everything, ctx context.Context) error {
			_, err := e.attempts.Finish(ctx, e.browser, e.attempt.State)
			return err
		}},
		"front-channel logout": {[]string{"get group:", "swap group:", "take login:"}, func(e *everything, ctx context.Context) error {
			_, err := e.d.users.FrontChannel(ctx, "keycloak", "session at the provider")
			if alive, _ := e.d.session.Alive(ctx, &auth.Credentials{Delegated: e.delegated.session}); err == nil && alive != nil {
				return errors.New("the login is alive")
			}
			return err
		}},
	} {
		for _, warm := range []bool{false, true} {
			e := newEverything(t)
			if warm && !slices.Contains([]string{"refresh token", "finishing an attempt"}, name) && !strings.Contains(name, "revocation") {
				if err := test.do(e, t.Context()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if strings.Contains(name, "logout") {
					e = newEverything(t)
				}
			}
			for _, failing := range test.failing {
				e.store.fails(failing)
				err := test.do(e, t.Context())
				wantNoAnswer(t)(nil, err)
				if !errors.Is(err, errStore) || errors.Is(err, ErrNoAttempt) {
					t.Errorf("%s, %s, warm %v: got %v, want the error of the store", name, failing, warm, err)
					continue
				}
				for _, secret := range []string{e.local.session, e.local.access, e.local.refresh, e.delegated.session, e.attempt.State, e.attempt.Nonce, e.attempt.Verifier, e.browser} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s, %s: the error tells a secret: %v", name, failing, err)
					}
				}
			}
			e.store.fails("")
			if err := test.do(e, t.Context()); err != nil {
				t.Errorf("%s, warm %v, when the store works again: %v", name, warm, err)
			}
		}
	}
}

// A call that fails after it had its effect is an error too. The attempt is used then, and
// the logout can be repeated.
func TestStoreFailingLate(t *testing.T) {
	t.Parallel()
	e := newEverything(t)
	e.store.late = true
	e.store.fails("take attempt:")
	if got, err := e.attempts.Finish(t.Context(), e.browser, e.attempt.State); got != nil || !errors.Is(err, errStore) || errors.Is(err, ErrNoAttempt) {
		t.Errorf("finishing an attempt: got %+v, %v", got, err)
	}
	e.store.fails("")
	e.wantNoAttempt(t, e.browser, e.attempt.State)
	for _, failing := range []string{"swap group:", "take login:"} {
		s := e.d.signIn(t, e.d.grant("user"))
		e.store.fails(failing)
		_, err := e.d.users.FrontChannel(t.Context(), "keycloak", "session at the provider")
		wantNoAnswer(t, errStore)(nil, err)
		e.store.fails("")
		must(e.d.users.FrontChannel(t.Context(), "keycloak", "session at the provider"))(t)
		e.d.wantOut(t, s)
		e.issuers.clock.Advance(time.Second) // a login needs an attempt that began after the logout
	}
}

// A warm request reads the store and does nothing else: it decodes nothing,
// allocates nothing, and returns the same identity. Not parallel: it counts
// allocations.
func TestWarmRequests(t *testing.T) {
	e := newEverything(t)
	for _, test := range []struct {
		name      string
		mechanism func(*Logins) auth.Authenticator
		creds     auth.Credentials
		calls     []string
	}{
		{
			"session", func(l *Logins) auth.Authenticator { return NewSessions(e.sessionOptions, e.accounts, l) },
			auth.Credentials{Session: e.local.session}, []string{"get " + e.local.login.Handles[0], "get login:" + e.local.login.ID},
		},
		{
			"delegated session", func(l *Logins) auth.Authenticator { return NewDelegatedSessions(NewUsers(e.d.options, l)) },
			auth.Credentials{Delegated: e.delegated.session},
			[]string{"get " + e.delegated.login.Handles[0], "get login:" + e.delegated.login.ID, "get user:keycloak:" + testPerson},
		},
		{
			"access token", func(l *Logins) auth.Authenticator { return NewAccessTokens(e.bearerOptions, e.keys, e.accounts, l) },
			auth.Credentials{Scheme: "bearer", Value: e.local.access}, []string{"get revoked:", "get login:" + e.local.login.ID},
		},
		{
			"token of a trusted issuer", func(l *Logins) auth.Authenticator {
				trusted := must(NewTrustedTokens([]TrustedIssuer{{Name: "plain", TokenIssuer: e.plain}}, l, e.issuers.clock.Now))(t)
				return NewBearerTokens(e.bearer, trusted)
			},
			auth.Credentials{Scheme: "bearer", Value: e.jwt}, []string{"get revoked:"},
		},
	} {
		recorded := test.mechanism(NewLogins(e.store, e.issuers.clock.Now))
		first, err := recorded.Authenticate(t.Context(), &test.creds)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		e.store.takeCalls()
		if again, err := recorded.Authenticate(t.Context(), &test.creds); err != nil || again != first {
			t.Errorf("%s: got %p, %v, want %p again", test.name, again, err, first)
		}
		if calls := e.store.takeCalls(); !slices.EqualFunc(calls, test.calls, strings.HasPrefix) {
			t.Errorf("%s: the store was asked %q, want %q", test.name, calls, test.calls)
		}
		mechanism := test.mechanism(NewLogins(e.store.Store, e.issuers.clock.Now))
		allocations := testing.AllocsPerRun(100, func() {
			if _, err := mechanism.Authenticate(t.Context(), &test.creds); err != nil {
				t.Fatal(err)
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations, want none", test.name, allocations)
		}
	}
}

var base64Text = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)

// holds reports whether a record contains text, as it is or in base64.
func holds(record []byte, text string) bool {
	if bytes.Contains(record, []byte(text)) {
		return true
	}
	for _, run := range base64Text.FindAll(record, -1) {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if raw, err := encoding.DecodeString(string(run)); err == nil && bytes.Contains(raw, []byte(text)) {
				return true
			}
		}
	}
	return false
}

// The store never gets a secret that it could give away.
func TestStoreHoldsNoReadableSecret(t *testing.T) {
	t.Parallel()
	e := newEverything(t)
	grant, renewed := e.d.grant("user"), e.d.grant("user")
	s := e.d.signIn(t, grant)
	e.d.op.answers(func(context.Context) (*provider.Grant, error) { return renewed, nil })
	e.issuers.clock.Advance(15 * time.Minute)
	e.d.users.renewOnce(s.login)
	tokens, err := e.d.users.Tokens(&Login{ID: s.login.ID, Delegated: stored[Login](t, e.store, loginPrefix+s.login.ID).Delegated})
	if err != nil || tokens.Refresh != renewed.Tokens.Refresh {
		t.Fatalf("the tokens were not renewed, so that less is shown: %v", err)
	}
	secrets := map[string]string{
		"access token": grant.Tokens.Access, "refresh token": grant.Tokens.Refresh, "ID token": grant.Tokens.ID,
		"new access token": renewed.Tokens.Access, "new refresh token": renewed.Tokens.Refresh, "new ID token": renewed.Tokens.ID,
		"state": e.attempt.State, "nonce": e.attempt.Nonce, "verifier": e.attempt.Verifier, "browser": e.browser, "delegated session": s.session,
		"session": e.local.session, "own access token": e.local.access, "address": "192.0.2.7", "user agent": "test/1",
	}
	for name, token := range map[string]string{"own refresh token": e.local.refresh, "rotated refresh token": e.wantRotated(t, e.local.refresh)} {
		raw := decoded(t, token)
		secrets[name], secrets[name+", family"], secrets[name+", generation"], secrets[name+", MAC"] = token, raw[:32], raw[32:64], raw[64:]
	}
	for name, secret := range secrets {
		raw, err := base64.RawURLEncoding.DecodeString(secret)
		for _, written := range e.store.written {
			if holds(written, secret) || err == nil && len(raw) >= 16 && holds(written, string(raw)) {
				t.Errorf("the store was given the %s: %q", name, written)
			}
		}
	}
	// The search finds both forms.
	if raw, err := json.Marshal(map[string]any{"a": []byte("x the needle y")}); err != nil || !holds(raw, "the needle") {
		t.Errorf("%s: the needle is not found, %v", raw, err)
	}
	if !slices.ContainsFunc(e.store.written, func(written []byte) bool { return holds(written, "alice@example.org") }) {
		t.Error("the address of the user is not found")
	}
}
