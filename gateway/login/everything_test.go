package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/policy"
)

// everything is one login of each kind.
type everything struct {
	*rig
	logins        map[string]*signedIn // by name
	local, remote *signedIn            // two of them
	begun         *signedIn            // by a test
	jwt           string               // of the issuer plain
}

func newEverything(tb testing.TB) *everything {
	tb.Helper()
	e := &everything{rig: newRig(tb, func(r *rig) { r.refreshOptions.Bind = []Trait{BindUserAgent, BindIP} })}
	e.jwt = providertest.JWT(e.plain.Identifier)
	e.plain.Knows(e.jwt, e.access("one"))
	e.local, e.remote = e.signIn(tb, "alice"), e.signInAt(tb, e.grant("user"))
	unnamed := e.grant("user")
	unnamed.Session = ""
	e.logins = map[string]*signedIn{"local": e.local, "remote": e.remote, "unnamed": e.signInAt(tb, unnamed)}
	return e
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	e := newEverything(t)
	now := e.now()
	local := policy.Identity{
		Username: "alice", Subject: "local:alice", Name: "Alice Example", Email: "alice@example.org",
		Roles:     []string{"user", "admin"},
		Mechanism: policy.Session, Provider: "local", Login: e.local.login.ID, SignedIn: now, Expires: now.Add(time.Hour),
		Proof: policy.Proof{AMR: []string{"pwd"}, AuthTime: now},
	}
	byToken := local
	byToken.Mechanism, byToken.Expires = policy.Bearer, time.Unix(now.Unix()+900, 0)
	remote := policy.Identity{
		Username: "alice", Subject: "keycloak:" + testPerson, Name: "Alice Example", Email: "alice@example.org",
		Roles: []string{"user"}, Claims: map[string]any{"department": "sales"},
		Mechanism: policy.OIDC, Provider: "keycloak", Login: e.remote.login.ID, SignedIn: now, Expires: now.Add(time.Hour),
	}
	for _, test := range []struct {
		mechanism auth.Authenticator
		creds     auth.Credentials
		want      policy.Identity
	}{
		{e.session, auth.Credentials{Session: e.local.session}, local},
		{e.delegated, auth.Credentials{Delegated: e.remote.delegated}, remote},
		{e.bearers, auth.Credentials{Scheme: "bearer", Value: e.local.access}, byToken},
		{e.bearers, auth.Credentials{Access: e.local.access}, byToken},
	} {
		got, err := test.mechanism.Authenticate(t.Context(), &test.creds)
		if diff := cmp.Diff(&test.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v (-want +got):\n%s", test.creds, err, diff)
		}
	}
	if sid, err := e.session.LoginOf(t.Context(), &auth.Credentials{Session: e.local.session}); err != nil ||
		sid != e.local.login.ID {
		t.Errorf("LoginOf: got %q, %v, want %q", sid, err, e.local.login.ID)
	}
	if got := e.session.Challenge(&auth.Credentials{Session: e.local.session}); got != "" {
		t.Errorf("the challenge is %q, want none for cookies", got)
	}
	if l, d := e.session.Lifetime(false), e.delegated.Lifetime(false); l != time.Hour || d != time.Hour {
		t.Errorf("the lifetimes are %v and %v, want an hour", l, d)
	}
	if l, d := e.local.login, e.remote.login; l.Subject() != local.Subject || d.Subject() != remote.Subject ||
		!l.HasTokens() || d.HasTokens() {
		t.Errorf("the logins are %+v and %+v", l, d)
	}
}

// The first mechanism that finds its credential decides, also in Alive. A store that fails
// stops the chain.
func TestChain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, other := r.signIn(t, "alice"), r.signIn(t, "bob")
	verifier := auth.NewVerifier(auth.NewThrottle(1000, time.Minute, r.now), 10, time.Minute, r.now)
	service := accounts.New([]accounts.Account{{Username: "service", Hash: alice.Hash}}, nil, time.Now)
	chain := auth.Chain{auth.NewBasic("authgate", service, verifier), NewBearerTokens(r.bearer, nil), r.session}
	good, wrong := base64.StdEncoding.EncodeToString([]byte("service:wonderland")),
		base64.StdEncoding.EncodeToString([]byte("service:wrong"))
	for creds, want := range map[auth.Credentials]string{ // the user name; "" when refused
		{Scheme: "basic", Value: good, Access: s.access, Session: s.session}:              "service",
		{Scheme: "bearer", Value: s.access, Access: other.access, Session: other.session}: "alice",
		{Access: other.access, Session: s.session}:                                        "bob",
		// The scheme is the application's.
		{Scheme: "digest", Value: "x", Session: s.session}:                    "alice",
		{Scheme: "basic", Value: wrong, Access: s.access, Session: s.session}: "",
		{Scheme: "basic", Value: "?", Session: s.session}:                     "",
		{Scheme: "bearer", Value: "x", Session: s.session}:                    "",
		{Access: "x", Session: s.session}:                                     "",
		{Scheme: "bearer", Access: s.access, Session: s.session}:              "",
	} {
		id, err := chain.Authenticate(t.Context(), &creds)
		if want == "" && !errors.Is(err, auth.ErrRejected) || (id != nil) != (want != "") || id != nil &&
			id.Username != want {
			t.Errorf("%+v: got %+v, %v, want %q", creds, id, err, want)
		}
		again, failed := chain.Alive(t.Context(), &creds)
		if again != id || (failed == nil) != (err == nil) ||
			errors.Is(failed, auth.ErrRejected) != errors.Is(err, auth.ErrRejected) {
			t.Errorf("%+v: Alive got %+v, %v, want %+v, %v", creds, again, failed, id, err)
		}
	}
	for _, creds := range []*auth.Credentials{{}, {Scheme: "negotiate", Value: "x"}} {
		id, err := chain.Authenticate(t.Context(), creds)
		wantNothing(t, id, err)
		id, err = chain.Alive(t.Context(), creds)
		wantNothing(t, id, err)
	}
	r.store.Fails("get revoked:")
	wantNoAnswer(t)(chain.Authenticate(t.Context(), &auth.Credentials{Access: s.access, Session: s.session}))
	r.store.Fails("")
	r.clock.Advance(15 * time.Minute)
	wantRejected(t, auth.DetailBadToken, "expired")(chain.Alive(t.Context(),
		&auth.Credentials{Scheme: "bearer", Value: s.access, Session: s.session}))
	id, err := (auth.Chain{}).Authenticate(t.Context(), &auth.Credentials{Session: s.session})
	wantNothing(t, id, err)
	want := []auth.Challenge{`Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`}
	if got := chain.Challenges(&auth.Credentials{}); !slices.Equal(got, want) {
		t.Errorf("the challenges are %q, want %q", got, want)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// operation is something that asks the store.
type operation struct {
	do        func(*everything) error
	repeats   bool   // it can be done again and again
	ends      string // the logins that it ends
	tolerates string // the calls that may fail
}

// operations are all operations. What remains in the store of a login that has ended is
// invalid and expires.
func operations(t *testing.T) map[string]operation {
	const handles, groups = "delete outlived, delete session, delete refresh", ", get group, swap group"
	backChannel := func(sub, session string) func(*everything) error {
		return func(e *everything) error {
			return errorOf(e.users.BackChannel(t.Context(), "keycloak", e.logoutToken("one", sub, session)))
		}
	}
	begin := func(e *everything) (err error) {
		account, _ := e.accounts.Lookup("alice")
		e.begun, err = e.begin(t, account)
		return err
	}
	beginAt := func(e *everything) (err error) {
		e.begun, err = e.beginAt(t, "keycloak", e.grant("user"), e.now())
		return err
	}
	foreign := map[string]any{"sid": nil} // signed elsewhere with the gateway's key
	return map[string]operation{
		"session": {do: func(e *everything) error { return errorOf(e.bySession(t, e.local)) }, repeats: true},
		"session's sid": {do: func(e *everything) error {
			return errorOf(e.session.LoginOf(t.Context(), &auth.Credentials{Session: e.local.session}))
		}, repeats: true},
		"delegated": {do: func(e *everything) error { return errorOf(e.bySession(t, e.remote)) }, repeats: true},
		"token":     {do: func(e *everything) error { return errorOf(e.byBearer(t, e.local.access)) }, repeats: true},
		"token's sid": {do: func(e *everything) error { return errorOf(e.bearer.LoginOf(t.Context(), e.local.access)) },
			repeats: true},
		"refresh's sid": {do: func(e *everything) error { return errorOf(e.refresh.LoginOf(t.Context(), e.local.refresh)) },
			repeats: true},
		"refresh":     {do: func(e *everything) error { return errorOf(e.rotate(t, e.local.refresh)) }},
		"begin":       {do: begin},
		"begin there": {do: beginAt},
		"end": {do: func(e *everything) error { return errorOf(e.rig.logins.End(t.Context(), e.local.login.ID)) },
			ends: "local", tolerates: handles + groups},
		"revoke": {do: func(e *everything) error { return errorOf(e.bearers.Revoke(t.Context(), e.local.access)) },
			ends: "local", tolerates: handles + groups},
		"foreign": {do: func(e *everything) error {
			return errorOf(e.bearers.Revoke(t.Context(), e.forge(t, e.local).with(foreign).token()))
		}},
		"front channel": {do: func(e *everything) error {
			return errorOf(e.users.FrontChannel(t.Context(),
				"keycloak", testSession))
		}, ends: "remote", tolerates: handles},
		"by sub":  {do: backChannel(testPerson, ""), ends: "remote unnamed", tolerates: handles},
		"by sid":  {do: backChannel("", testSession), ends: "remote", tolerates: handles},
		"by both": {do: backChannel(testPerson, testSession), ends: "remote unnamed", tolerates: handles},
	}
}

// A store that fails decides nothing, whichever call fails, before or after it had its
// effect: the error is no rejection and tells no secret, each login is valid or invalid as a
// whole, and the operation can be repeated.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	for name, o := range operations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, warm := range []bool{false, true} {
				if warm && !o.repeats {
					continue
				}
				for _, call := range newEverything(t).callsOf(t, o, warm) {
					for _, late := range []bool{false, true} {
						e := newEverything(t)
						if warm {
							must.Do(t, o.do(e))
						}
						e.fail(t, o, call, late)
					}
				}
			}
		})
	}
}

// callsOf returns the calls of the store in o, without what is different in each run.
func (e *everything) callsOf(t *testing.T, o operation, warm bool) (calls []string) {
	if warm {
		must.Do(t, o.do(e))
	}
	e.store.TakeCalls()
	must.Do(t, o.do(e))
	for _, call := range e.store.TakeCalls() {
		for name, s := range e.logins {
			call = strings.Replace(call, s.login.ID, name, 1)
		}
		if kind, rest, _ := strings.Cut(call, ":"); !strings.Contains(kind, "group") && e.logins[rest] == nil {
			call = kind
		}
		calls = append(calls, call)
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

// fail does o while a call fails.
func (e *everything) fail(t *testing.T, o operation, call string, late bool) {
	t.Helper()
	logins := e.records(t, loginPrefix)
	e.store.Late = late
	kind, name, _ := strings.Cut(call, ":")
	if s := e.logins[name]; s != nil {
		name = s.login.ID
	}
	e.store.Fails(kind + ":" + name)
	err := o.do(e)
	e.store.Fails("")
	if err == nil && !strings.Contains(o.tolerates, kind) {
		t.Errorf("%s, late %v: no error", call, late)
	}
	if err != nil {
		wantNoAnswer(t, errStore)(nil, err)
		if errors.Is(err, provider.ErrReplayed) {
			t.Errorf("%s, late %v: got %v, want the error of the store", call, late, err)
		}
		for _, secret := range []string{e.local.session, e.local.access, e.local.refresh, e.remote.delegated} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s, late %v: the error tells a secret: %v", call, late, err)
			}
		}
		if _, failed := e.bySession(t, e.local); failed == nil {
			e.wantIn(t, &signedIn{login: e.local.login, session: e.local.session, access: e.local.access})
		} else {
			e.wantOut(t, e.local)
		}
		if e.begun != nil {
			e.wantOut(t, e.begun)
			e.wantRecords(t, loginPrefix, logins)
		}
		// A call that fails late had its effect, and a token is revoked after its login has ended.
		again := o.do(e)
		done := errors.Is(again, auth.ErrRejected) || errors.Is(again, provider.ErrReplayed)
		if again != nil && !(done && (late || kind == "put revoked")) {
			t.Errorf("%s, late %v: again, when the store works: %v", call, late, again)
		}
	}
	if e.begun != nil {
		e.wantIn(t, e.begun)
	}
	for name, s := range e.logins {
		if strings.Contains(o.ends, name) {
			e.wantOut(t, s)
		} else {
			must.Get(e.bySession(t, s))(t)
		}
	}
}

// A warm request reads the store and does nothing else: it decodes nothing,
// allocates nothing, and returns the same identity. Not parallel: it counts
// allocations.
func TestWarmRequests(t *testing.T) {
	e := newEverything(t)
	local, remote := e.local.login, e.remote.login
	for _, test := range []struct {
		mechanism func(*rig) auth.Authenticator
		creds     auth.Credentials
		calls     []string // beginnings
	}{
		{func(r *rig) auth.Authenticator { return r.session }, auth.Credentials{Session: e.local.session},
			[]string{"get " + local.Handles[0], "get login:" + local.ID}},
		{func(r *rig) auth.Authenticator { return r.delegated }, auth.Credentials{Delegated: e.remote.delegated},
			[]string{"get " + remote.Handles[0], "get login:" + remote.ID, "get user:keycloak:" + testPerson}},
		{func(r *rig) auth.Authenticator { return r.bearer }, auth.Credentials{Scheme: "bearer", Value: e.local.access},
			[]string{"get login:" + local.ID, "get revoked:"}},
		{func(r *rig) auth.Authenticator { return r.bearers }, auth.Credentials{Scheme: "bearer", Value: e.jwt},
			[]string{"get revoked:"}},
	} {
		recorded := test.mechanism(e.instance(t))
		first := must.Get(recorded.Authenticate(t.Context(), &test.creds))(t)
		e.store.TakeCalls()
		if again, err := recorded.Authenticate(t.Context(), &test.creds); err != nil || again != first {
			t.Errorf("%+v: got %p, %v, want %p again", test.creds, again, err, first)
		}
		if calls := e.store.TakeCalls(); !slices.EqualFunc(calls, test.calls, strings.HasPrefix) {
			t.Errorf("%+v: the store was asked %q, want %q", test.creds, calls, test.calls)
		}
		unrecorded := test.mechanism(e.unrecorded(t))
		allocations := testing.AllocsPerRun(100, func() {
			if _, err := unrecorded.Authenticate(t.Context(), &test.creds); err != nil {
				t.Fatal(err)
			}
		})
		if allocations != 0 {
			t.Errorf("%+v: %v allocations, want none", test.creds, allocations)
		}
	}
}

// unrecorded returns an instance with a store that does not record.
func (r *rig) unrecorded(tb testing.TB) *rig {
	tb.Helper()
	next := r.instance(tb)
	next.logins.store = r.store.Store
	next.trust(r.store.Store)
	return next
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
	grant, renewed := e.grant("user"), e.grant("user")
	s := e.signInAt(t, grant)
	e.op.Answers(func(context.Context, string) (*provider.Grant, error) { return renewed, nil })
	e.clock.Advance(15 * time.Minute)
	e.users.renewOnce(s.login)
	tokens, err := e.users.Tokens(&Login{ID: s.login.ID,
		Delegated: stored[Login](t, e.store, loginPrefix+s.login.ID).Delegated})
	if err != nil || tokens.Refresh != renewed.Tokens.Refresh {
		t.Fatalf("the tokens were not renewed, so that less is shown: %v", err)
	}
	secrets := map[string]string{
		"access token": grant.Tokens.Access, "refresh token": grant.Tokens.Refresh, "ID token": grant.Tokens.ID,
		"new access token": renewed.Tokens.Access, "new refresh token": renewed.Tokens.Refresh,
		"new ID token":      renewed.Tokens.ID,
		"delegated session": s.delegated,
		"session":           e.local.session, "own access token": e.local.access,
	}
	for name, token := range map[string]string{"own refresh token": e.local.refresh,
		"rotated refresh token": e.wantRotated(t, e.local.refresh)} {
		raw := decoded(t, token)
		secrets[name], secrets[name+", family"], secrets[name+", generation"], secrets[name+", "+
			"MAC"] = token, raw[:32], raw[32:64], raw[64:]
	}
	for name, secret := range secrets {
		raw, err := base64.RawURLEncoding.DecodeString(secret)
		for _, written := range e.store.EverWritten() {
			if holds(written, secret) || err == nil && len(raw) >= 16 && holds(written, string(raw)) {
				t.Errorf("the store was given the %s: %q", name, written)
			}
		}
	}
	// The search finds both forms.
	if raw, err := json.Marshal(map[string]any{"a": []byte("x the needle y")}); err != nil || !holds(raw, "the needle") {
		t.Errorf("%s: the needle is not found, %v", raw, err)
	}
	if !slices.ContainsFunc(e.store.EverWritten(),
		func(written []byte) bool { return holds(written, "alice@example.org") }) {
		t.Error("the address of the user is not found")
	}
}
