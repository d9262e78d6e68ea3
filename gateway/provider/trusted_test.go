package provider

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

// trusted is the fake as an outside issuer.
func (f *fake) trusted(change func(*TrustedOptions)) *Trusted {
	o := TrustedOptions{
		Issuer: f.idp, Audience: []string{"api", "other-api"}, Mapping: Mapping{Roles: "roles", Username: "preferred_username"}, Connection: f.connection(),
	}
	if change != nil {
		change(&o)
	}
	issuer := NewTrusted(o)
	f.t.Cleanup(issuer.Close)
	return issuer
}

// accessClaims are those of a good access token, but for the changes.
func (f *fake) accessClaims(change object) object {
	return over(f.claims(object{
		"aud": "api", "nonce": nil, "jti": "the-jti", "scope": "read write", "client_id": "a-client",
		"roles": []string{"admin"}, "preferred_username": "alice",
	}), change)
}

// What an access token may say of itself. TestIDTokenClaims has what all tokens share.
func TestAccessToken(t *testing.T) {
	ahead := clocktest.New().Now().Add(2 * time.Minute).Unix()
	for _, test := range []struct {
		name   string
		claims object
		header joseHeader
		text   string // of the error; empty: good
	}{
		{name: "good"},
		{name: "at+jwt", header: joseHeader{"typ": "at+jwt"}},
		{name: "application/at+jwt", header: joseHeader{"typ": "application/AT+JWT"}},
		{name: "the other audience", claims: object{"aud": []string{"x", "other-api"}}},
		{name: "no iat", claims: object{"iat": nil}},

		{name: "another audience", claims: object{"aud": "x"}, text: "aud is"},
		{name: "no audience", claims: object{"aud": nil}, text: "aud is"},
		{name: "another issuer", claims: object{"iss": "https://evil.example"}, text: "different provider"},
		{name: "nbf in the future", claims: object{"nbf": ahead}, text: "nbf"},
		{name: "iat in the future", claims: object{"iat": ahead}, text: "iat"},
		{name: "an ID token", claims: object{"nonce": "n"}, text: "it has nonce"},
		{name: "an ID token without nonce", claims: object{"at_hash": "h"}, text: "it has at_hash"},
		{name: "a logout token", claims: object{"events": object{}}, text: "it has events"},
		{name: "typ of a logout token", header: joseHeader{"typ": "logout+jwt"}, text: "typ"},
		{name: "bound to a key", claims: object{"cnf": object{"jkt": "x"}}, text: "bound to a key"},
		{name: "scope that is a number", claims: object{"scope": 1}, text: "scope is a number"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			got, err := f.trusted(nil).Verify(t.Context(), f.key.sign(f.accessClaims(test.claims), test.header))
			if wantResult(t, err, ErrInvalid, test.text); err != nil {
				return
			}
			want := &AccessToken{
				Profile: Profile{Subject: "alice-sub", Username: "alice", Roles: []string{"admin"}, Claims: object{
					"roles": []any{"admin"}, "preferred_username": "alice", "scope": "read write", "client_id": "a-client",
				}},
				Scopes: []string{"read", "write"}, ID: "the-jti", Expires: f.now().Add(5 * time.Minute),
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAccessTokenAlgorithms(t *testing.T) {
	rsa := newRSAKey(2048)
	pss := testKey{"first", jose.PS256, rsa.private}
	const refused = "it is signed with"
	for _, test := range []struct {
		name       string
		configured []string
		announced  any
		sign       testKey
		text       string // of the error
	}{
		{"announced", nil, []string{"RS256"}, rsa, ""},
		{"not announced", nil, []string{"RS256"}, pss, refused},
		{"none announced", nil, nil, pss, ""},
		{"configured", []string{"PS256"}, []string{"RS256"}, pss, ""},
		{"announced but not configured", []string{"PS256"}, []string{"RS256"}, rsa, refused},
		{"symmetric ones alone configured", []string{"HS256", "none"}, nil, rsa, refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.discovery["id_token_signing_alg_values_supported"] = test.announced
			public := rsa.public()
			public.Algorithm = ""
			f.keys = []jose.JSONWebKey{public}
			issuer := f.trusted(func(o *TrustedOptions) { o.Algorithms = test.configured })
			_, err := issuer.Verify(t.Context(), test.sign.sign(f.accessClaims(nil), nil))
			wantResult(t, err, ErrInvalid, test.text)
		})
	}
}

// A resource server needs nothing but the keys of an issuer. Without them, or with a
// configuration that accepts nothing, no token is accepted.
func TestTrustedFaults(t *testing.T) {
	f := newFake(t)
	f.discovery = object{"authorization_endpoint": nil, "token_endpoint": nil, "userinfo_endpoint": nil}
	raw := f.key.sign(f.accessClaims(nil), nil)
	verify := func(raw string, kind error, text string, change func(*TrustedOptions)) {
		t.Helper()
		_, err := f.trusted(change).Verify(t.Context(), raw)
		wantResult(t, err, kind, text)
	}
	verify(raw, nil, "", nil)
	f.wantCalled(t, discoveryPath, 1)
	verify(raw, ErrInvalid, "aud is", func(o *TrustedOptions) { o.Audience = nil })
	verify(raw, ErrFault, "the issuer is missing", func(o *TrustedOptions) { o.Issuer = "" })
	verify(f.key.sign(f.accessClaims(object{"roles": "admin"}), nil), ErrFault, "roles is a string", nil)
	for _, forged := range []string{"", "x", "a.b.c", newECKey("first").sign(f.accessClaims(nil), nil), unsigned(f.accessClaims(nil), algNone)} {
		verify(forged, ErrInvalid, "token not valid", nil)
	}
	f.fail("/keys")
	verify(raw, ErrFault, "503", nil)
	f.discovery["jwks_uri"] = nil
	verify(raw, ErrFault, "jwks_uri", nil)
	f.fail(discoveryPath)
	verify(raw, ErrFault, "503", nil)
}

func TestScopes(t *testing.T) {
	for name, test := range map[string]struct {
		claims claims
		want   []string
	}{
		"none":               {claims{}, nil},
		"words":              {claims{"scope": " read  write "}, []string{"read", "write"}},
		"scp in an array":    {claims{"scp": []any{"read", "write"}}, []string{"read", "write"}},
		"scope before scp":   {claims{"scope": "read", "scp": "write"}, []string{"read"}},
		"scope that is null": {claims{"scope": nil, "scp": "write"}, []string{"write"}},
	} {
		if got, err := scopesOf(test.claims); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := scopesOf(claims{"scp": []any{1}}); err == nil {
		t.Error("an array of numbers was accepted")
	}
}

func TestIntrospect(t *testing.T) {
	clock := clocktest.New()
	for _, test := range []struct {
		name   string
		change object // of a good answer
		answer string // instead
		kind   error  // nil: good
		text   string
	}{
		{name: "good"},
		{name: "with iss and aud", change: object{"iss": "OWN", "aud": "api"}},
		{name: "no token_type", change: object{"token_type": nil}},
		{name: "token_type access_token", change: object{"token_type": "access_token"}},
		{name: "inactive", answer: `{"active":false}`, kind: ErrInvalid, text: "not active"},
		{name: "active in a string", change: object{"active": "true"}, kind: ErrInvalid, text: "not active"},
		{name: "nothing", answer: `{}`, kind: ErrInvalid, text: "not active"},
		{name: "expired", change: object{"exp": clock.Now().Unix()}, kind: ErrInvalid, text: "expired"},
		{name: "another issuer", change: object{"iss": "https://evil.example"}, kind: ErrInvalid, text: "iss is"},
		{name: "another audience", change: object{"aud": "x"}, kind: ErrInvalid, text: "aud is"},
		{name: "a refresh token", change: object{"token_type": "refresh_token"}, kind: ErrInvalid, text: "expected Bearer"},
		{name: "bound to a key", change: object{"cnf": object{"jkt": "x"}}, kind: ErrInvalid, text: "bound to a key"},
		{name: "no sub", change: object{"sub": nil}, kind: ErrInvalid, text: "sub is missing"},
		{name: "twice active", answer: `{"active":false,"active":true,"sub":"alice-sub"}`, kind: ErrFault, text: "appears twice"},
		{name: "no JSON", answer: `opaque-access-token`, kind: ErrFault, text: "invalid character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.discovery["introspection_endpoint"] = f.idp + "/introspect"
			if test.answer == "" {
				test.answer = marshal(over(object{
					"active": true, "sub": "alice-sub", "token_type": "Bearer", "scope": "read", "client_id": "a-client", "jti": "the-jti",
					"exp": clock.Now().Add(time.Minute).Unix(), "preferred_username": "alice", "roles": []string{"admin"},
				}, test.change))
			}
			f.instead["/introspect"] = sayJSON(strings.ReplaceAll(test.answer, "OWN", f.idp))
			issuer := f.trusted(func(o *TrustedOptions) {
				o.Introspection = &Introspection{Client: Client{ID: testClient, Secret: testSecret}}
			})
			got, err := issuer.Introspect(t.Context(), "opaque-access-token")
			if wantResult(t, err, test.kind, test.text); err != nil {
				return
			}
			if got.Profile.Subject != "alice-sub" || got.Profile.Username != "alice" || got.ID != "the-jti" || !got.Expires.Equal(clock.Now().Add(time.Minute)) ||
				!cmp.Equal(got.Scopes, []string{"read"}) || !cmp.Equal(got.Profile.Roles, []string{"admin"}) || got.Profile.Claims["active"] != nil {
				t.Errorf("got %+v", got)
			}
			form, header := f.lastCall("/introspect")
			wantForm := url.Values{"token": {"opaque-access-token"}, "token_type_hint": {"access_token"}, "client_id": {testClient}}
			if diff := cmp.Diff(wantForm, form); diff != "" || header != basicHeader {
				t.Errorf("Authorization %q, want %q; the form (-want +got):\n%s", header, basicHeader, diff)
			}
		})
	}
}

func TestIntrospectionEndpoint(t *testing.T) {
	client := Client{ID: testClient, Secret: testSecret}
	for name, test := range map[string]struct {
		options func(*fake) *Introspection
		answer  int
		kind    error // nil: good
		text    string
	}{
		"configured":   {func(f *fake) *Introspection { return &Introspection{URL: f.idp + "/own", Client: client} }, 200, nil, ""},
		"refused":      {func(f *fake) *Introspection { return &Introspection{URL: f.idp + "/own", Client: client} }, 401, ErrFault, "401 Unauthorized"},
		"none":         {func(*fake) *Introspection { return nil }, 200, ErrInvalid, "not taken"},
		"unannounced":  {func(*fake) *Introspection { return &Introspection{Client: client} }, 200, ErrFault, "introspection_endpoint is missing"},
		"in the clear": {func(*fake) *Introspection { return &Introspection{URL: "http://id.example.org/", Client: client} }, 200, ErrFault, "is not https"},
	} {
		f := newFake(t)
		f.instead["/own"] = say(test.answer, "application/json", `{"active":true,"sub":"alice-sub","error":"invalid_client","error_description":"for opaque-access-token"}`)
		got, err := f.trusted(func(o *TrustedOptions) { o.Introspection = test.options(f) }).Introspect(t.Context(), "opaque-access-token")
		if wantResult(t, err, test.kind, test.text); err == nil && (!got.Expires.IsZero() || f.called(discoveryPath) != 0) {
			t.Errorf("%s: expires %v, %d calls of discovery", name, got.Expires, f.called(discoveryPath))
		}
	}
}
