package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/store"
	"authgate/policy"
)

func TestAccessTokenIssues(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, m *mechanisms) {
		m.clock.Advance(123 * time.Millisecond)
		now := m.clock.Now().Unix()
		s := m.signIn(t, "alice")
		part := strings.Split(s.access, ".")
		if len(part) != 3 {
			t.Fatalf("%d parts", len(part))
		}
		var header, claims map[string]any
		noError(t, json.Unmarshal([]byte(decoded(t, part[0])), &header))
		noError(t, json.Unmarshal([]byte(decoded(t, part[1])), &claims))
		jti, _ := claims["jti"].(string)
		if diff := cmp.Diff(map[string]any{"alg": m.keys.method.Alg(), "typ": "JWT", "kid": m.keys.id}, header); diff != "" {
			t.Errorf("the header (-want +got):\n%s", diff)
		}
		date := float64(now)
		if diff := cmp.Diff(map[string]any{
			"iss": testIssuer, "sub": "alice", "aud": "authgate", "iat": date, "nbf": date, "exp": date + 900,
			"jti": jti, "sid": s.login.ID, "roles": []any{"user", "admin"},
		}, claims); diff != "" {
			t.Errorf("the payload (-want +got):\n%s", diff)
		}
		if len(jti) < 26 {
			t.Errorf("the jti %q has no 130 bits", jti)
		}
		if strings.Contains(s.access, s.session) || strings.Contains(decoded(t, part[1]), s.session) {
			t.Error("the token tells the session")
		}
		must(m.byToken(t, s.access))(t)
	})
}

func TestAccessTokenIssuesForWhatTheLoginHas(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, func(m *mechanisms) { m.bearerOptions.Audience = []string{"authgate", "api"} })
	plain := newTestAccounts(t, auth.Account{Username: "plain", PasswordHash: aliceHash})
	account, _ := plain.Lookup("plain")
	login := &Login{ID: "SID", Username: "plain", Expires: m.clock.Now().Add(5*time.Minute + time.Millisecond)}
	seen := make(map[string]bool)
	for range 10 {
		token, left, err := m.bearer.Issue(login, account)
		if err != nil || left != 5*time.Minute {
			t.Fatalf("%v left, %v; want no more than the login has", left, err)
		}
		var claims struct {
			Audience []string `json:"aud"`
			Roles    []string `json:"roles"`
			ID       string   `json:"jti"`
			Expires  int64    `json:"exp"`
		}
		noError(t, json.Unmarshal([]byte(decoded(t, strings.Split(token, ".")[1])), &claims))
		if !slices.Equal(claims.Audience, []string{"authgate", "api"}) || claims.Roles == nil || len(claims.Roles) != 0 ||
			claims.Expires != m.clock.Now().Add(5*time.Minute).Unix() {
			t.Errorf("got %+v", claims)
		}
		if seen[claims.ID] {
			t.Error("a jti was given twice")
		}
		seen[claims.ID] = true
	}
}

func TestAccessTokenIsNotAsked(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	for _, creds := range []auth.Credentials{{}, {Value: s.access}, {Scheme: "basic", Value: s.access}, {Scheme: strings.ToLower(s.access)}, {Session: s.access, Refresh: s.access}} {
		if id, err := m.bearer.Authenticate(t.Context(), &creds); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
			t.Errorf("%+v: got %+v, %v, want no credentials", creds, id, err)
		}
	}
}

func TestAccessTokenRefusesClaims(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, m *mechanisms) {
		s, other, ended := m.signIn(t, "alice"), m.signIn(t, "bob"), m.signIn(t, "alice")
		must(m.logins.End(t.Context(), ended.login.ID))(t)
		disabled := auth.Account{Username: "eve", Disabled: true, PasswordHash: bobHash}
		m = m.reloaded(t, alice(), bob(), disabled)
		now := m.clock.Now().Unix()
		good := m.forge(t, s)
		null := json.RawMessage("null")
		var tokens []hostile
		for _, test := range []struct {
			claim  string
			value  any
			reason string
		}{
			{"iss", nil, "iss claim is required"}, {"aud", nil, "aud claim is required"}, {"exp", nil, "exp claim is required"},
			{"jti", nil, "jti is missing"}, {"sub", nil, "sub is missing"},

			{"iss", "https://attacker.example", "invalid issuer"}, {"iss", testIssuer + "/", "invalid issuer"},
			{"iss", strings.ToUpper(testIssuer), "invalid issuer"}, {"iss", "", "iss claim is required"},
			{"iss", null, "iss is invalid"}, {"iss", 7, "iss is invalid"}, {"iss", []string{testIssuer}, "iss is invalid"},

			{"aud", "other", "invalid audience"}, {"aud", "authgate2", "invalid audience"}, {"aud", "AUTHGATE", "invalid audience"},
			{"aud", []string{"other", "another"}, "invalid audience"}, {"aud", []string{}, "aud claim is required"}, {"aud", []string{""}, "aud claim is required"},
			{"aud", "", "aud claim is required"}, {"aud", null, "aud claim is required"}, {"aud", 7, "aud claim is required"},
			{"aud", map[string]any{"authgate": 1}, "aud claim is required"}, {"aud", []any{"authgate", 7}, "aud is invalid"},

			{"exp", fmt.Sprint(now + 900), "exp is invalid"}, {"exp", null, "exp is invalid"}, {"exp", true, "exp is invalid"},
			{"exp", []int64{now + 900}, "exp is invalid"}, {"exp", map[string]any{}, "exp is invalid"},
			{"exp", float64(now) + 900.5, "exp is not a whole number"}, {"exp", json.RawMessage("9e9"), "exp is not a whole number"},
			{"exp", json.RawMessage(fmt.Sprintf("%d.0", now+900)), "exp is not a whole number"}, {"exp", int64(253402300800), "exp is not a whole number"},
			{"exp", json.RawMessage("1e300"), "exp"}, {"exp", json.RawMessage("1e400"), "exp"}, {"exp", json.RawMessage("9223372036854775808"), "exp"},
			{"exp", -1, "expired"}, {"exp", 0, "expired"}, {"exp", now, "expired"}, {"exp", now - 1, "expired"}, {"exp", now - 900, "expired"},

			{"nbf", now + 6, "not valid yet"}, {"nbf", now + 900, "not valid yet"}, {"nbf", fmt.Sprint(now), "nbf is invalid"}, {"nbf", null, "nbf is invalid"},
			{"nbf", json.RawMessage("1e300"), ""}, {"nbf", float64(now) - 0.5, "nbf is not a whole number"}, {"nbf", -1, "nbf is not a whole number"},
			{"iat", now + 6, "used before issued"}, {"iat", now + 900, "used before issued"}, {"iat", "now", "iat is invalid"}, {"iat", null, "iat is invalid"},
			{"iat", json.RawMessage("1e300"), ""}, {"iat", float64(now) - 0.5, "iat is not a whole number"}, {"iat", json.RawMessage("-1e300"), "iat is not a whole number"},

			{"jti", "", "jti is missing"}, {"jti", 7, "jti is missing or not a string"}, {"jti", null, "jti is missing or not a string"}, {"jti", []string{"a"}, "jti is missing or not a string"},
			{"sub", "", "sub is missing"}, {"sub", 7, "sub is missing or not a string"}, {"sub", null, "sub is missing or not a string"}, {"sub", []string{"alice"}, "sub is missing or not a string"},
			{"sub", "nobody", "its account does not exist or is disabled"}, {"sub", "eve", "its account does not exist or is disabled"}, {"sub", "Alice", "its account does not exist or is disabled"}, {"sub", "alice ", "its account does not exist or is disabled"},
			{"sub", "local:alice", "its account does not exist or is disabled"}, {"sub", "bob", "its account has changed"},
			{"sid", other.login.ID, "its account has changed"}, {"sid", ended.login.ID, "its login has ended"}, {"sid", "NEVER", "its login has ended"},
			{"sid", "", "sid is not a string"}, {"sid", 7, "sid is not a string"}, {"sid", null, "sid is not a string"}, {"sid", []string{s.login.ID}, "sid is not a string"},
		} {
			value := must(json.Marshal(test.value))(t)
			tokens = append(tokens, hostile{fmt.Sprintf("%s %.30s", test.claim, value), good.with(map[string]any{test.claim: test.value}).token(), test.reason})
		}
		m.wantRefused(t, good, tokens)
	})
}

// Some claims are optional, and clocks may differ a little.
func TestAccessTokenAccepts(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	now := m.clock.Now().Unix()
	for name, changes := range map[string]map[string]any{
		"nothing changed":   {},
		"no nbf":            {"nbf": nil},
		"no iat":            {"iat": nil},
		"nbf within leeway": {"nbf": now + 5},
		"iat within leeway": {"iat": now + 5},
		"last second":       {"exp": now + 1},
		"several audiences": {"aud": []string{"other", "authgate"}},
		"no kid":            {"header kid": nil},
		"no typ":            {"header typ": nil},
		"no roles":          {"roles": nil},
		"no sid":            {"sid": nil},
		"more claims":       {"name": "x", "x": map[string]any{"a": []int{1}}},
	} {
		id, err := m.byToken(t, m.forge(t, s).with(changes).token())
		if err != nil || id.Username != "alice" {
			t.Errorf("%s: got %+v, %v", name, id, err)
			continue
		}
		if !slices.Equal(id.Roles, []string{"user", "admin"}) {
			t.Errorf("%s: the roles are %q: not those of the account", name, id.Roles)
		}
	}
}

func TestAccessTokenWithoutIssuerOrAudienceAcceptsNothing(t *testing.T) {
	t.Parallel()
	for _, change := range map[string]func(*mechanisms){
		"issuer":   func(m *mechanisms) { m.bearerOptions.Issuer = "" },
		"audience": func(m *mechanisms) { m.bearerOptions.Audience = nil },
	} {
		m := newMechanisms(t, change)
		s := m.signIn(t, "alice")
		for _, token := range []string{s.access, m.forge(t, s).token(), m.forge(t, s).with(map[string]any{"iss": nil, "aud": nil}).token()} {
			id, err := m.byToken(t, token)
			wantRejected(t, auth.DetailBadToken, "no issuer or audience is configured")(id, err)
		}
	}
}

// A token that was verified once is not verified again: it stays valid when the key
// is removed. Time, revocation and login are checked on every request.
func TestWarmAccessTokenComputesNoSignature(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, m *mechanisms) {
		signIn := func() (*signedIn, *policy.Identity) {
			t.Helper()
			s := m.signIn(t, "alice")
			id := must(m.byToken(t, s.access))(t)
			return s, id
		}
		s, id := signIn()
		revoked, _ := signIn()
		ended, _ := signIn()
		changed, _ := signIn()
		cold := m.signIn(t, "alice")
		m.keys.verify = nil // the keys are this test's own

		coldID, err := m.byToken(t, cold.access)
		wantRejected(t, auth.DetailBadToken, "signature")(coldID, err)
		if again, err := m.byToken(t, s.access); err != nil || again != id {
			t.Errorf("got %p, %v, want %p again", again, err, id)
		}
		must(m.bearer.Revoke(t.Context(), revoked.access))(t)
		must(m.logins.End(t.Context(), ended.login.ID))(t)
		wantRejected(t, auth.DetailBadToken, "revoked")(m.byToken(t, revoked.access))
		wantRejected(t, auth.DetailBadToken, "its login has ended")(m.byToken(t, ended.access))
		restore(t, m.store, loginPrefix+changed.login.ID, func(l *Login) { l.Version = "another" })
		wantRejected(t, auth.DetailBadToken, "its account has changed")(m.byToken(t, changed.access))
		m.clock.Advance(15*time.Minute - 1)
		must(m.byToken(t, s.access))(t)
		counter := m.store.Store.(store.Counter)
		if n, err := counter.Count(t.Context(), revokedPrefix); n != 1 || err != nil {
			t.Errorf("%d revocations before the token's end, %v", n, err)
		}
		m.clock.Advance(1)
		wantRejected(t, auth.DetailBadToken, "expired")(m.byToken(t, s.access))
		if n, err := counter.Count(t.Context(), revokedPrefix); n != 0 || err != nil {
			t.Errorf("%d revocations at the token's end, %v", n, err)
		}
	})
}

func TestRevokeEndsTheLogin(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, m *mechanisms) {
		s, other := m.signIn(t, "alice"), m.signIn(t, "alice")
		second := m.forge(t, s).token() // another access token of the login
		must(m.byToken(t, second))(t)
		id, err := m.bearer.Revoke(t.Context(), s.access)
		if err != nil || id.Username != "alice" || id.Login != s.login.ID {
			t.Fatalf("got %+v, %v, want who signed out", id, err)
		}
		m.wantDead(t, s)
		wantRejected(t, auth.DetailBadToken, "its login has ended")(m.byToken(t, second))
		m.wantAlive(t, other)
		wantRejected(t, auth.DetailBadToken, "revoked")(m.bearer.Revoke(t.Context(), s.access))
		wantRejected(t, auth.DetailBadToken, "malformed")(m.bearer.Revoke(t.Context(), "x.y.z"))
		m.wantAlive(t, other)
	})
}

// A token that was signed elsewhere with the gateway's key has no login. It is revoked
// by its jti.
func TestRevokeWithoutALogin(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	foreign := m.forge(t, s).with(map[string]any{"sid": nil, "jti": "one"})
	if id, err := m.bearer.Revoke(t.Context(), foreign.token()); err != nil || id.Login != "" {
		t.Fatalf("got %+v, %v", id, err)
	}
	wantRejected(t, auth.DetailBadToken, "revoked")(m.byToken(t, foreign.token()))
	must(m.byToken(t, foreign.with(map[string]any{"jti": "two"}).token()))(t)
	m.wantAlive(t, s)
}

// Tokens outlive a reload with the same keys. Other keys end them.
func TestAccessTokenAfterOtherKeys(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	m.wantAlive(t, m.signIn(t, "bob"))
	must(m.reloaded(t, alice()).byToken(t, s.access))(t)
	keys := must(NewHS256([]byte(strings.Repeat("another secret ", 3))))(t)
	for _, keys := range []*Keys{keys, testKeys(t, "RS256")} {
		other := *m
		other.keys = keys
		wantRejected(t, auth.DetailBadToken, "")(other.reloaded(t, alice()).byToken(t, s.access))
	}
}

func TestAccessTokenChallenge(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	for want, presented := range map[auth.Challenge][]auth.Credentials{
		`Bearer realm="authgate"`:                        {{}, {Scheme: "basic", Value: "x"}, {Session: "x", Refresh: "x"}},
		`Bearer realm="authgate", error="invalid_token"`: {{Scheme: "bearer", Value: "x"}, {Scheme: "bearer"}, {Access: "x"}},
	} {
		for _, creds := range presented {
			if got := m.bearer.Challenge(&creds); got != want {
				t.Errorf("%+v: got %s, want %s", creds, got, want)
			}
		}
	}
	if got, want := auth.BearerChallenge(`a "b"`, false), auth.Challenge(`Bearer realm="a \"b\""`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
