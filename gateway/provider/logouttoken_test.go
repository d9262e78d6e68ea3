package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

// logoutClaims are those of a good logout token, but for the changes.
func (f *fake) logoutClaims(change object) object {
	return over(object{
		"iss": f.idp, "aud": testClient, "iat": f.now().Unix(), "exp": f.now().Add(2 * time.Minute).Unix(),
		"jti": "the-jti", "sub": "alice-sub", "sid": "the-sid", "events": object{logoutEvent: object{}},
	}, change)
}

func TestLogoutToken(t *testing.T) {
	now := clocktest.New().Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	good := &LogoutToken{ID: "the-jti", Subject: "alice-sub", Session: "the-sid", Expires: now.Add(2 * time.Minute)}
	for _, test := range []struct {
		name   string
		claims object
		header joseHeader
		want   *LogoutToken
		text   string // of the error
	}{
		{name: "good", want: good},
		{name: "typ logout+jwt", header: joseHeader{"typ": "Logout+JWT"}, want: good},
		{name: "sid alone", claims: object{"sub": nil}, want: &LogoutToken{ID: "the-jti", Session: "the-sid", Expires: good.Expires}},
		{name: "sub alone", claims: object{"sid": nil}, want: &LogoutToken{ID: "the-jti", Subject: "alice-sub", Expires: good.Expires}},
		{name: "a far exp", claims: object{"exp": at(24 * time.Hour)}, want: &LogoutToken{ID: "the-jti", Subject: "alice-sub", Session: "the-sid", Expires: now.Add(logoutTokenAge)}},
		{name: "a clock ahead", claims: object{"iat": at(time.Minute)}, want: good},

		{name: "typ at+jwt", header: joseHeader{"typ": "at+jwt"}, text: "typ"},
		{name: "neither sub nor sid", claims: object{"sub": nil, "sid": nil}, text: "'sub' claim, a 'sid' claim, or both"},
		{name: "empty sub", claims: object{"sub": ""}, text: "sub is not 1 to 255 bytes"},
		{name: "sid in capitals", claims: object{"sub": nil, "sid": nil, "SID": "x"}, text: "neither sub nor sid"},
		{name: "sub in capitals", claims: object{"sub": nil, "SUB": "bob-sub"}, text: "almost sub"},
		{name: "no jti", claims: object{"jti": nil}, text: "'jti'"},
		{name: "a long jti", claims: object{"jti": strings.Repeat("x", 256)}, text: "jti is not 1 to 255 bytes"},
		{name: "no iat", claims: object{"iat": nil}, text: "iat is missing"},
		{name: "iat in the future", claims: object{"iat": at(61 * time.Second)}, text: "iat is in the future"},
		{name: "old", claims: object{"iat": at(-logoutTokenAge)}, text: "older than 10m"},
		{name: "no exp", claims: object{"exp": nil}, text: "'exp'"},
		{name: "expiring now", claims: object{"exp": at(0)}, text: "expired"},
		{name: "of another issuer", claims: object{"iss": "https://evil.example"}, text: "different provider"},
		{name: "for another client", claims: object{"aud": "other"}, text: "audience"},
		{name: "with nonce null", claims: object{"nonce": (*int)(nil)}, text: "nonce"},
		{name: "no events", claims: object{"events": nil}, text: "event"},
		{name: "an event that is no object", claims: object{"events": object{logoutEvent: true}}, text: "events has no object"},
		{name: "events in capitals", claims: object{"events": nil, "EVENTS": object{logoutEvent: object{}}}, text: "events has no object"},
		{name: "with a key of its own", header: joseHeader{"jku": "https://evil.example/keys"}, text: "the header has jku"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			got, err := f.provider(nil).VerifyLogoutToken(t.Context(), f.key.sign(f.logoutClaims(test.claims), test.header))
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
	f := newFake(t)
	for _, raw := range []string{
		"", "x", f.key.sign(f.claims(nil), nil), unsigned(f.logoutClaims(nil), algNone),
		newECKey("first").sign(f.logoutClaims(nil), nil), f.key.sign(twice(f.logoutClaims(nil)), nil),
	} {
		_, err := f.provider(nil).VerifyLogoutToken(t.Context(), raw)
		wantError(t, err, ErrInvalid, "")
	}
	token := f.key.sign(f.logoutClaims(nil), nil)
	_, err := f.github().VerifyLogoutToken(t.Context(), token)
	wantError(t, err, ErrInvalid, "no keys")

	f.fail("/keys") // what cannot be verified now is not called invalid
	_, err = f.provider(nil).VerifyLogoutToken(t.Context(), token)
	wantError(t, err, ErrFault, "503")
}
