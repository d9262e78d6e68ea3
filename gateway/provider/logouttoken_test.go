package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

// newLogoutToken is a good logout token of the fake, but for the changes.
func newLogoutToken(t testing.TB, f *fake, change map[string]any, header map[jose.HeaderKey]any) string {
	return f.key.sign(t, f.logoutClaims(change), header)
}

func (f *fake) logoutClaims(change map[string]any) map[string]any {
	return over(map[string]any{
		"iss": f.idp, "aud": testClient, "iat": f.now().Unix(), "exp": f.now().Add(2 * time.Minute).Unix(),
		"jti": "the-jti", "sub": "alice-sub", "sid": "the-sid", "events": map[string]any{logoutEvent: map[string]any{}},
	}, change)
}

func TestLogoutToken(t *testing.T) {
	clock := clocktest.New()
	now := clock.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	good := &LogoutToken{ID: "the-jti", Subject: "alice-sub", Session: "the-sid", Expires: now.Add(2 * time.Minute)}
	tests := []struct {
		name   string
		claims map[string]any
		header map[jose.HeaderKey]any
		want   *LogoutToken
		text   string // of the error
	}{
		{name: "good", want: good},
		{name: "typ logout+jwt", header: map[jose.HeaderKey]any{"typ": "Logout+JWT"}, want: good},
		{name: "no typ", header: map[jose.HeaderKey]any{"typ": nil}, want: good},
		{name: "sid alone", claims: map[string]any{"sub": nil}, want: &LogoutToken{ID: "the-jti", Session: "the-sid", Expires: now.Add(2 * time.Minute)}},
		{name: "sub alone", claims: map[string]any{"sid": nil}, want: &LogoutToken{ID: "the-jti", Subject: "alice-sub", Expires: now.Add(2 * time.Minute)}},
		{name: "a far exp", claims: map[string]any{"exp": at(24 * time.Hour)}, want: &LogoutToken{ID: "the-jti", Subject: "alice-sub", Session: "the-sid", Expires: now.Add(logoutTokenAge)}},
		{name: "a clock ahead", claims: map[string]any{"iat": at(time.Minute)}, want: good},

		{name: "typ at+jwt", header: map[jose.HeaderKey]any{"typ": "at+jwt"}, text: "typ"},
		{name: "neither sub nor sid", claims: map[string]any{"sub": nil, "sid": nil}, text: "'sub' claim, a 'sid' claim, or both"},
		{name: "empty sub", claims: map[string]any{"sub": ""}, text: "sub is not 1 to 255 bytes"},
		{name: "sid in capitals", claims: map[string]any{"sub": nil, "sid": nil, "SID": "x"}, text: "neither sub nor sid"},
		{name: "sub in capitals", claims: map[string]any{"sub": nil, "SUB": "bob-sub"}, text: "almost sub"},
		{name: "no jti", claims: map[string]any{"jti": nil}, text: "'jti'"},
		{name: "a long jti", claims: map[string]any{"jti": strings.Repeat("x", 256)}, text: "jti is not 1 to 255 bytes"},
		{name: "no iat", claims: map[string]any{"iat": nil}, text: "iat is missing"},
		{name: "iat in the future", claims: map[string]any{"iat": at(61 * time.Second)}, text: "iat is in the future"},
		{name: "old", claims: map[string]any{"iat": at(-logoutTokenAge)}, text: "older than 10m"},
		{name: "no exp", claims: map[string]any{"exp": nil}, text: "'exp'"},
		{name: "expired", claims: map[string]any{"exp": at(-time.Second)}, text: "expired"},
		{name: "expiring now", claims: map[string]any{"exp": at(0)}, text: "expired"},
		{name: "of another issuer", claims: map[string]any{"iss": "https://evil.example"}, text: "different provider"},
		{name: "for another client", claims: map[string]any{"aud": "other"}, text: "audience"},
		{name: "with a nonce", claims: map[string]any{"nonce": "n"}, text: "nonce"},
		{name: "with nonce null", claims: map[string]any{"nonce": (*int)(nil)}, text: "nonce"},
		{name: "no events", claims: map[string]any{"events": nil}, text: "event"},
		{name: "another event", claims: map[string]any{"events": map[string]any{"x": map[string]any{}}}, text: "event"},
		{name: "an event that is no object", claims: map[string]any{"events": map[string]any{logoutEvent: true}}, text: "events has no object"},
		{name: "an event that is null", claims: map[string]any{"events": map[string]any{logoutEvent: nil}}, text: "events has no object"},
		{name: "events in capitals", claims: map[string]any{"events": nil, "EVENTS": map[string]any{logoutEvent: map[string]any{}}}, text: "events has no object"},
		{name: "with a key of its own", header: map[jose.HeaderKey]any{"jku": "https://evil.example/keys"}, text: "the header has jku"},
		{name: "without a kid", header: map[jose.HeaderKey]any{"kid": nil}, text: "no kid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clock.Now).listen()
			got, err := f.provider(nil).VerifyLogoutToken(t.Context(), newLogoutToken(t, f, test.claims, test.header))
			if wantResult(t, err, ErrInvalid, test.text); err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLogoutTokensThatAreNone(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	p := f.provider(nil)
	twice := strings.Replace(marshal(t, f.logoutClaims(nil)), `"sub":"alice-sub"`, `"sub":"bob-sub","sub":"alice-sub"`, 1)
	for name, raw := range map[string]string{
		"empty":                  "",
		"no JWT":                 "x",
		"an ID token":            f.key.sign(t, f.claims(nil), nil),
		"alg none":               unsigned(f.logoutClaims(nil), `{"alg":"none","kid":"first"}`),
		"of another's key":       newECKey(t, "first").sign(t, f.logoutClaims(nil), nil),
		"sub that appears twice": f.key.sign(t, twice, nil),
	} {
		_, err := p.VerifyLogoutToken(t.Context(), raw)
		if wantError(t, err, ErrInvalid, ""); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A logout token that cannot be verified now is not called invalid.
func TestLogoutTokenWithoutKeys(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.instead["/keys"] = say(500, "text/plain", "")
	_, err := f.provider(nil).VerifyLogoutToken(t.Context(), newLogoutToken(t, f, nil, nil))
	wantError(t, err, ErrFault, "500")

	_, err = f.github().VerifyLogoutToken(t.Context(), newLogoutToken(t, f, nil, nil))
	wantError(t, err, ErrInvalid, "no keys")
}
