package provider

import (
	"encoding/base64"
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
		Issuer: f.idp, Audience: []string{"api", "other-api"}, Mapping: Mapping{Roles: "roles", Username: "preferred_username"},
		Connection: Connection{Timeout: time.Hour, Now: f.now},
	}
	if change != nil {
		change(&o)
	}
	issuer := NewTrusted(o)
	f.t.Cleanup(issuer.Close)
	return issuer
}

// accessClaims are those of a good access token, but for the changes.
func (f *fake) accessClaims(change map[string]any) map[string]any {
	return over(f.claims(object{
		"aud": "api", "nonce": nil, "jti": "the-jti", "scope": "read write", "client_id": "a-client",
		"roles": []string{"admin"}, "preferred_username": "alice",
	}), change)
}

// What an access token may say of itself. TestIDTokenClaims has what all tokens share.
func TestAccessToken(t *testing.T) {
	clock := clocktest.New()
	ahead := clock.Now().Add(2 * time.Minute).Unix()
	tests := []struct {
		name   string
		claims map[string]any
		header map[jose.HeaderKey]any
		kind   error // nil: good
		text   string
	}{
		{name: "good"},
		{name: "at+jwt", header: map[jose.HeaderKey]any{"typ": "at+jwt"}},
		{name: "application/at+jwt", header: map[jose.HeaderKey]any{"typ": "application/AT+JWT"}},
		{name: "no typ", header: map[jose.HeaderKey]any{"typ": nil}},
		{name: "the other audience", claims: object{"aud": []string{"x", "other-api"}}},
		{name: "no iat", claims: object{"iat": nil}},

		{name: "another audience", claims: object{"aud": "x"}, kind: ErrInvalid, text: "aud is"},
		{name: "no audience", claims: object{"aud": nil}, kind: ErrInvalid, text: "aud is"},
		{name: "another issuer", claims: object{"iss": "https://evil.example"}, kind: ErrInvalid, text: "different provider"},
		{name: "nbf in the future", claims: object{"nbf": ahead}, kind: ErrInvalid, text: "nbf"},
		{name: "iat in the future", claims: object{"iat": ahead}, kind: ErrInvalid, text: "iat"},
		{name: "an ID token", claims: object{"nonce": "n"}, kind: ErrInvalid, text: "it has nonce"},
		{name: "an ID token without nonce", claims: object{"at_hash": "h"}, kind: ErrInvalid, text: "it has at_hash"},
		{name: "a logout token", claims: object{"events": object{}}, kind: ErrInvalid, text: "it has events"},
		{name: "typ of a logout token", header: map[jose.HeaderKey]any{"typ": "logout+jwt"}, kind: ErrInvalid, text: "typ"},
		{name: "bound to a key", claims: object{"cnf": object{"jkt": "x"}}, kind: ErrInvalid, text: "bound to a key"},
		{name: "scope that is a number", claims: object{"scope": 1}, kind: ErrInvalid, text: "scope is a number"},
		{name: "roles that are a string", claims: object{"roles": "admin"}, kind: ErrFault, text: "roles is a string"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clock.Now).listen()
			got, err := f.trusted(nil).Verify(t.Context(), f.key.sign(t, f.accessClaims(test.claims), test.header))
			if wantResult(t, err, test.kind, test.text); err != nil {
				return
			}
			want := &AccessToken{
				Profile: Profile{Subject: "alice-sub", Username: "alice", Roles: []string{"admin"}, Claims: object{
					"roles": []any{"admin"}, "preferred_username": "alice", "scope": "read write", "client_id": "a-client",
				}},
				Scopes: []string{"read", "write"}, ID: "the-jti", Expires: clock.Now().Add(5 * time.Minute),
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAccessTokenAlgorithms(t *testing.T) {
	rsa := newRSAKey(t, "first", 2048)
	pss := testKey{kid: "first", algorithm: jose.PS256, private: rsa.private}
	tests := []struct {
		name       string
		configured []string
		announced  any
		sign       testKey
		text       string // of the error
	}{
		{"announced", nil, []string{"RS256"}, rsa, ""},
		{"not announced", nil, []string{"RS256"}, pss, "it is signed with"},
		{"none announced", nil, nil, pss, ""},
		{"configured", []string{"PS256"}, []string{"RS256"}, pss, ""},
		{"announced but not configured", []string{"PS256"}, []string{"RS256"}, rsa, "it is signed with"},
		{"symmetric ones alone configured", []string{"HS256", "none"}, nil, rsa, "it is signed with"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			f.discovery["id_token_signing_alg_values_supported"] = test.announced
			public := rsa.public()
			public.Algorithm = ""
			f.keys = []jose.JSONWebKey{public}
			raw := test.sign.sign(t, f.accessClaims(nil), nil)
			_, err := f.trusted(func(o *TrustedOptions) { o.Algorithms = test.configured }).Verify(t.Context(), raw)
			wantResult(t, err, ErrInvalid, test.text)
		})
	}
}

func TestTrustedFaults(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	claims := f.accessClaims(nil)
	raw := f.key.sign(t, claims, nil)

	_, err := f.trusted(func(o *TrustedOptions) { o.Audience = nil }).Verify(t.Context(), raw)
	wantError(t, err, ErrInvalid, "aud is")
	_, err = f.trusted(func(o *TrustedOptions) { o.Issuer = "" }).Verify(t.Context(), raw)
	wantError(t, err, ErrFault, "the issuer is missing")
	for _, forged := range []string{"", "x", "a.b.c", newECKey(t, "first").sign(t, claims, nil), unsigned(claims, `{"alg":"none","kid":"first"}`)} {
		_, err = f.trusted(nil).Verify(t.Context(), forged)
		wantError(t, err, ErrInvalid, "")
	}
	f.instead["/keys"] = say(500, "", "")
	_, err = f.trusted(nil).Verify(t.Context(), raw)
	wantError(t, err, ErrFault, "500")
	f.discovery["jwks_uri"] = nil
	_, err = f.trusted(nil).Verify(t.Context(), raw)
	wantError(t, err, ErrFault, "jwks_uri")
	f.instead[discoveryPath] = say(500, "", "")
	_, err = f.trusted(nil).Verify(t.Context(), raw)
	wantError(t, err, ErrFault, "500")
}

// A resource server needs nothing but the keys of an issuer.
func TestTrustedNeedsKeysAlone(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.discovery = object{"authorization_endpoint": nil, "token_endpoint": nil, "userinfo_endpoint": nil}
	claims := f.accessClaims(nil)
	issuer := f.trusted(nil)
	for range 2 {
		if _, err := issuer.Verify(t.Context(), f.key.sign(t, claims, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if f.called(discoveryPath) != 1 || f.called("/keys") != 1 {
		t.Errorf("calls %v", f.calls)
	}
}

func TestScopes(t *testing.T) {
	for name, test := range map[string]struct {
		claims claims
		want   []string
	}{
		"none":               {claims{}, nil},
		"words":              {claims{"scope": " read  write "}, []string{"read", "write"}},
		"scp in words":       {claims{"scp": "read write"}, []string{"read", "write"}},
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
	tests := []struct {
		name   string
		change object // of a good answer
		answer string // instead
		kind   error  // nil: good
		text   string
	}{
		{name: "good"},
		{name: "with iss and aud", change: object{"iss": "OWN", "aud": "api"}},
		{name: "no token_type", change: object{"token_type": nil}},
		{name: "inactive", answer: `{"active":false}`, kind: ErrInvalid, text: "not active"},
		{name: "active in a string", change: object{"active": "true"}, kind: ErrInvalid, text: "not active"},
		{name: "nothing", answer: `{}`, kind: ErrInvalid, text: "not active"},
		{name: "expired", change: object{"exp": clock.Now().Unix()}, kind: ErrInvalid, text: "expired"},
		{name: "nbf in the future", change: object{"nbf": clock.Now().Add(time.Hour).Unix()}, kind: ErrInvalid, text: "nbf"},
		{name: "another issuer", change: object{"iss": "https://evil.example"}, kind: ErrInvalid, text: "iss is"},
		{name: "another audience", change: object{"aud": "x"}, kind: ErrInvalid, text: "aud is"},
		{name: "a refresh token", change: object{"token_type": "refresh_token"}, kind: ErrInvalid, text: "expected Bearer"},
		{name: "a DPoP token", change: object{"token_type": "DPoP"}, kind: ErrInvalid, text: "expected Bearer"},
		{name: "bound to a key", change: object{"cnf": object{"jkt": "x"}}, kind: ErrInvalid, text: "bound to a key"},
		{name: "no sub", change: object{"sub": nil}, kind: ErrInvalid, text: "sub is missing"},
		{name: "twice active", answer: `{"active":false,"active":true,"sub":"alice-sub"}`, kind: ErrFault, text: "appears twice"},
		{name: "no JSON", answer: `opaque-access-token`, kind: ErrFault, text: "invalid character"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clock.Now).listen()
			f.discovery["introspection_endpoint"] = f.idp + "/introspect"
			if test.answer == "" {
				test.answer = marshal(t, over(object{
					"active": true, "sub": "alice-sub", "token_type": "Bearer", "scope": "read", "client_id": "a-client", "jti": "the-jti",
					"exp": clock.Now().Add(time.Minute).Unix(), "preferred_username": "alice", "roles": []string{"admin"},
				}, test.change))
			}
			f.instead["/introspect"] = say(200, "application/json", strings.ReplaceAll(test.answer, "OWN", f.idp))
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
			wantForm := url.Values{"token": {"opaque-access-token"}, "token_type_hint": {"access_token"}, "client_id": {testClient}}
			if diff := cmp.Diff(wantForm, f.form("/introspect")); diff != "" {
				t.Error(diff)
			}
			if want := "Basic " + base64.StdEncoding.EncodeToString([]byte(testClient+":"+url.QueryEscape(testSecret))); f.authorization("/introspect") != want {
				t.Errorf("Authorization %q", f.authorization("/introspect"))
			}
		})
	}
}

func TestIntrospectionEndpoint(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.instead["/own"] = say(200, "application/json", `{"active":true,"sub":"alice-sub"}`)
	with := func(i *Introspection) (*AccessToken, error) {
		return f.trusted(func(o *TrustedOptions) { o.Introspection = i }).Introspect(t.Context(), "opaque-access-token")
	}
	got, err := with(&Introspection{URL: f.idp + "/own", Client: Client{ID: testClient, Secret: testSecret}})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Expires.IsZero() || f.called(discoveryPath) != 0 {
		t.Errorf("expires %v, calls %v", got.Expires, f.calls)
	}
	_, err = with(nil)
	wantError(t, err, ErrInvalid, "not taken")
	_, err = with(&Introspection{Client: Client{ID: testClient}})
	wantError(t, err, ErrFault, "introspection_endpoint is missing")
	_, err = with(&Introspection{URL: "http://id.example.org/", Client: Client{ID: testClient}})
	wantError(t, err, ErrFault, "is not https")
	f.instead["/own"] = say(401, "application/json", `{"error":"invalid_client","error_description":"for opaque-access-token"}`)
	_, err = with(&Introspection{URL: f.idp + "/own", Client: Client{ID: testClient, Secret: testSecret}})
	wantError(t, err, ErrFault, "invalid_client")
}
