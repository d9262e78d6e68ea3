package login

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/wire/jose"
	"authgate/internal/test/must"
)

// claimsOf returns what a token says, unverified.
func claimsOf(tb testing.TB, token string) (header, claims map[string]any) {
	tb.Helper()
	part := strings.Split(token, ".")
	if len(part) != 3 {
		tb.Fatalf("%d parts, want 3", len(part))
	}
	must.Do(tb, json.Unmarshal([]byte(decoded(tb, part[0])), &header))
	must.Do(tb, json.Unmarshal([]byte(decoded(tb, part[1])), &claims))
	return header, claims
}

func TestAccessTokenIssues(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, r *rig) {
		r.clock.Advance(123 * time.Millisecond)
		date := float64(r.now().Unix())
		s := r.signIn(t, "alice")
		header, claims := claimsOf(t, s.access)
		if diff := cmp.Diff(map[string]any{"alg": r.keys.Algorithm(), "typ": "JWT", "kid": r.keys.ID()}, header); diff != "" {
			t.Errorf("the header (-want +got):\n%s", diff)
		}
		jti, _ := claims["jti"].(string)
		if diff := cmp.Diff(map[string]any{
			"iss": testIssuer, "sub": "alice", "aud": "authgate", "iat": date, "nbf": date, "exp": date + 900,
			"jti": jti, "sid": s.login.ID, "roles": []any{"user", "admin"},
			"amr": []any{"pwd"}, "auth_time": date,
		}, claims); diff != "" || len(jti) < 26 {
			t.Errorf("the payload, whose jti has 130 bits (-want +got):\n%s", diff)
		}
		must.Get(r.byToken(t, s.access))(t)
	})
	r := newRig(t, func(r *rig) {
		r.bearerOptions.Audience, r.people = []string{"authgate",
			"api"}, []accounts.Account{{Username: "plain", Hash: alice.Hash}}
	})
	account, _ := r.accounts.Lookup("plain")
	login := &Login{ID: "SID", Username: "plain", Expires: r.now().Add(5*time.Minute + time.Millisecond)}
	var before string
	for range 2 {
		token, left, err := r.bearer.Issue(login, account)
		_, claims := claimsOf(t, token)
		if err != nil || left != 5*time.Minute || claims["exp"] != float64(r.now().Add(left).Unix()) {
			t.Errorf("%v left of %+v, %v; want no more than the login has", left, claims, err)
		}
		if diff := cmp.Diff([]any{[]any{"authgate", "api"}, []any{}}, []any{claims["aud"], claims["roles"]}); diff != "" {
			t.Errorf("two audiences and no roles (-want +got):\n%s", diff)
		}
		if claims["jti"] == before {
			t.Error("a jti was given twice")
		}
		before = claims["jti"].(string)
	}
}

func TestAccessTokenRefusesClaims(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, r *rig) {
		s, other, ended := r.signIn(t, "alice"), r.signIn(t, "bob"), r.signIn(t, "alice")
		r.end(t, ended)
		r = r.withAccounts(t, alice, bob, accounts.Account{Username: "eve", Disabled: true, Hash: bob.Hash})
		now := r.now().Unix()
		good := r.forge(t, s)
		null, number := json.RawMessage("null"), func(text string) any { return json.RawMessage(text) }
		var tokens []hostile
		for _, test := range []struct {
			claim, reason string
			values        []any
		}{
			{"iss", "iss claim is required", []any{nil, ""}},
			{"iss", "invalid issuer", []any{"https://attacker.example", testIssuer + "/", strings.ToUpper(testIssuer)}},
			{"iss", "iss is invalid", []any{null, 7, []string{testIssuer}}},

			{"aud", "aud claim is required", []any{nil, []string{}, []string{""}, "", null, 7, map[string]any{"authgate": 1}}},
			{"aud", "invalid audience", []any{"other", "authgate2", "AUTHGATE", []string{"other", "another"}}},
			{"aud", "aud is invalid", []any{[]any{"authgate", 7}}},

			{"exp", "exp claim is required", []any{nil}},
			{"exp", "exp is invalid", []any{fmt.Sprint(now + 900), null, true, []int64{now + 900}}},
			{"exp", "exp is not a whole number", []any{float64(now) + 900.5, number("9e9"),
				number(fmt.Sprintf("%d.0", now+900)), int64(253402300800)}},
			{"exp", "exp", []any{number("1e300"), number("1e400"), number("9223372036854775808")}},
			{"exp", "expired", []any{-1, 0, now - 1, now}},

			{"nbf", "not valid yet", []any{now + 6, now + 900}},
			{"nbf", "nbf is invalid", []any{fmt.Sprint(now), null}},
			{"nbf", "nbf is not a whole number", []any{float64(now) - 0.5, -1}},
			{"nbf", "", []any{number("1e300")}},
			{"iat", "used before issued", []any{now + 6, now + 900}},
			{"iat", "iat is invalid", []any{"now", null}},
			{"iat", "iat is not a whole number", []any{float64(now) - 0.5, number("-1e300")}},
			{"iat", "", []any{number("1e300")}},

			{"jti", "jti is missing or not a string", []any{nil, "", 7, null, []string{"a"}}},
			{"sub", "sub is missing or not a string", []any{nil, "", 7, null, []string{"alice"}}},
			{"sub", "its account does not exist or is disabled", []any{"stranger", "eve", "Alice", "alice ", "local:alice"}},
			{"sub", "its account has changed", []any{"bob"}},
			{"sid", "its account has changed", []any{other.login.ID}},
			{"sid", "its login has ended", []any{ended.login.ID, "NEVER"}},
			{"sid", "sid is not a string", []any{"", 7, null, []string{s.login.ID}}},
		} {
			for _, value := range test.values {
				name := fmt.Sprintf("%s %.30s", test.claim, must.Get(json.Marshal(value))(t))
				tokens = append(tokens, hostile{name, good.with(map[string]any{test.claim: value}).token(), test.reason})
			}
		}
		r.wantRefused(t, good, tokens)
	})
}

// Some claims are optional, and clocks may differ a little. The roles are those of the account.
func TestAccessTokenAccepts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	now := r.now().Unix()
	for _, changes := range []map[string]any{
		{}, {"nbf": nil}, {"iat": nil}, {"nbf": now + 5}, {"iat": now + 5}, {"exp": now + 1},
		{"aud": []string{"other", "authgate"}},
		{"header kid": nil}, {"header typ": nil}, {"roles": nil}, {"sid": nil},
		{"name": "x", "x": map[string]any{"a": []int{1}}},
	} {
		id, err := r.byToken(t, r.forge(t, s).with(changes).token())
		if err != nil || id.Username != "alice" || !slices.Equal(id.Roles, alice.Roles) {
			t.Errorf("with %v: got %+v, %v, want alice", changes, id, err)
		}
	}
}

func TestAccessTokenWithoutIssuerOrAudienceAcceptsNothing(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*rig){
		func(r *rig) { r.bearerOptions.Issuer = "" },
		func(r *rig) { r.bearerOptions.Audience = nil },
	} {
		r := newRig(t, change)
		s := r.signIn(t, "alice")
		for _, token := range []string{s.access, r.forge(t, s).token(),
			r.forge(t, s).with(map[string]any{"iss": nil, "aud": nil}).token()} {
			wantRejected(t, auth.DetailBadToken, "no issuer or audience is configured")(r.byToken(t, token))
		}
	}
}

// Revoking a token ends its login. A token that was signed elsewhere with the gateway's key
// has no login, and is revoked by its jti. All tokens were accepted before: time, revocation
// and login are checked on every request.
func TestRevokeEndsTheLogin(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, r *rig) {
		s, changed, other := r.signIn(t, "alice"), r.signIn(t, "alice"), r.signIn(t, "alice")
		second := r.forge(t, s).token() // another access token of the login
		foreign := r.forge(t, other).with(map[string]any{"sid": nil, "jti": "one"})
		for _, token := range []string{s.access, second, changed.access, foreign.token()} {
			must.Get(r.byToken(t, token))(t)
		}
		id, err := r.bearer.Revoke(t.Context(), s.access)
		if err != nil || id.Username != "alice" || id.Login != s.login.ID {
			t.Fatalf("got %+v, %v, want who signed out", id, err)
		}
		r.wantOut(t, s)
		wantRejected(t, auth.DetailBadToken, "its login has ended")(r.byToken(t, second))
		wantRejected(t, auth.DetailBadToken, "revoked")(r.bearer.Revoke(t.Context(), s.access))
		wantRejected(t, auth.DetailBadToken, "compact form")(r.bearer.Revoke(t.Context(), "x.y.z"))
		restore(t, r.store, loginPrefix+changed.login.ID, func(l *Login) { l.Version = "another" })
		wantRejected(t, auth.DetailBadToken, "its account has changed")(r.byToken(t, changed.access))

		if id, err := r.bearer.Revoke(t.Context(), foreign.token()); err != nil || id.Login != "" {
			t.Fatalf("without a login: got %+v, %v", id, err)
		}
		wantRejected(t, auth.DetailBadToken, "revoked")(r.byToken(t, foreign.token()))
		must.Get(r.byToken(t, foreign.with(map[string]any{"jti": "two"}).token()))(t)
		otherKeys := r.instance(t, func(r *rig) {
			r.keys = must.Get(jose.NewHS256([]byte(strings.Repeat("another secret ",
				3))))(t)
		})
		wantRejected(t, auth.DetailBadToken, "")(otherKeys.byToken(t, other.access))
		r.clock.Advance(15*time.Minute - 1)
		r.wantIn(t, &signedIn{login: other.login, session: other.session, access: other.access})
		r.wantRecords(t, revokedPrefix, 2)
		r.clock.Advance(1)
		wantRejected(t, auth.DetailBadToken, "expired")(r.byToken(t, other.access))
		r.wantRecords(t, revokedPrefix, 0)
	})
}

// Only an Authorization header with Bearer and the gateway's cookie present an access token.
func TestAccessTokenIsPresented(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	for _, test := range []struct {
		creds     auth.Credentials
		presented bool
	}{
		{auth.Credentials{}, false},
		{auth.Credentials{Value: s.access}, false},
		{auth.Credentials{Scheme: "basic", Value: s.access}, false},
		{auth.Credentials{Scheme: strings.ToLower(s.access)}, false},
		{auth.Credentials{Session: s.access, Refresh: s.access}, false},
		{auth.Credentials{Scheme: "bearer", Value: "x"}, true},
		{auth.Credentials{Scheme: "bearer"}, true},
		{auth.Credentials{Access: "x"}, true},
	} {
		id, err := r.bearer.Authenticate(t.Context(), &test.creds)
		challenge := auth.Challenge(`Bearer realm="authgate"`)
		if test.presented {
			challenge += `, error="invalid_token"`
			wantRejected(t, auth.DetailBadToken, "compact form")(id, err)
		} else {
			wantNothing(t, id, err)
		}
		if got := r.bearers.Challenge(&test.creds); got != challenge {
			t.Errorf("%+v: the challenge is %s, want %s", test.creds, got, challenge)
		}
	}
	if got, want := auth.BearerChallenge(`a "b"`, false), auth.Challenge(`Bearer realm="a \"b\""`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
