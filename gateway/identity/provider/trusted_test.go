package provider

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	gocmp "github.com/google/go-cmp/cmp"

	"authgate/internal/test/clocktest"
)

// trusted is the fake as an outside issuer.
func (f *fake) trusted(change func(*TrustedOptions)) *Trusted {
	o := TrustedOptions{
		Issuer: f.idp, Audience: []string{"api", "other-api"},
		Mapping: Mapping{Roles: "roles", Username: "preferred_username"}, Connection: f.connection(),
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

// TestTokenClaims has what refuses an access token.
func TestAccessToken(t *testing.T) {
	f := newFake(t)
	got, err := f.trusted(nil).Verify(t.Context(),
		f.key.sign(f.accessClaims(object{"aud": []string{"x", "other-api"}}), nil))
	if err != nil {
		t.Fatal(err)
	}
	want := &AccessToken{
		Profile: Profile{Subject: "alice-sub", Username: "alice", Roles: []string{"admin"}, Claims: object{
			"roles": []any{"admin"}, "preferred_username": "alice", "scope": "read write", "client_id": "a-client",
		}},
		Scopes: []string{"read", "write"}, ID: "the-jti", Expires: f.now().Add(5 * time.Minute),
	}
	if diff := gocmp.Diff(want, got, gocmp.Comparer(time.Time.Equal)); diff != "" {
		t.Error(diff)
	}
}

// A claim that cannot be used refuses no token. It is absent.
func TestAccessTokenDecoration(t *testing.T) {
	for name, values := range map[string][]any{
		"preferred_username": {"", " alice", "ali\u200bce", 5, object{}, "boss@example.org", strings.Repeat("x", 256)},
		"name":               {"", object{"first": "A"}, []string{"A"}, "A\u202e", strings.Repeat("x", maxName+1)},
		"email":              {"alice", []string{"a@example.org"}, "a@evil@example.org", 1},
		"email_verified":     {1, "True", "", object{}},
		"roles":              {5, true, []any{"admin", nil}, ""},
		"scope":              {5, object{}},
		"sid":                {"", 5},
		"azp":                {"", nil, 5},
		"at_hash":            {"", (*int)(nil)},
		"padding":            {strings.Repeat("x", maxClaims)},
	} {
		for _, value := range values {
			f := newFake(t)
			change := object{name: value}
			if name != "email" {
				change["email"] = "a@example.org"
			}
			got, err := f.trusted(nil).Verify(t.Context(), f.key.sign(f.accessClaims(change), nil))
			if err != nil {
				t.Errorf("%s %v: %v", name, value, err)
				continue
			}
			want := Profile{Subject: "alice-sub", Username: "alice", Email: "a@example.org", Roles: []string{"admin"}}
			switch name {
			case "preferred_username":
				want.Username = "a@example.org"
			case "email":
				want.Email = ""
			case "email_verified":
				want.Email, want.Unverified = "", want.Email
			case "roles":
				want.Roles = nil
			}
			got.Profile.Claims = nil
			if diff := gocmp.Diff(want, got.Profile); diff != "" {
				t.Errorf("%s %.50v: %s", name, value, diff)
			}
		}
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
			wantError(t, err, ErrInvalid, test.text)
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
		wantError(t, err, kind, text)
	}
	verify(raw, nil, "", nil)
	f.wantCalled(t, discoveryPath, 1)
	verify(raw, ErrInvalid, "aud is", func(o *TrustedOptions) { o.Audience = nil })
	verify(raw, ErrFault, "the issuer is missing", func(o *TrustedOptions) { o.Issuer = "" })
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
		"an empty scope":     {claims{"scope": "", "scp": "write"}, []string{"write"}},
		"a number":           {claims{"scope": 1}, nil},
		"numbers":            {claims{"scp": []any{"read", 1}}, nil},
	} {
		if got := scopesOf(test.claims); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestIntrospect(t *testing.T) {
	clock := clocktest.New()
	for _, test := range []struct {
		name   string
		change object // of a good answer
		answer string // instead
		status int    // default 200
		url    string // default: the announced endpoint
		kind   error  // nil: good
		text   string
	}{
		{name: "good"},
		{name: "with iss and aud", change: object{"iss": "OWN", "aud": "api"}},
		{name: "no token_type", change: object{"token_type": nil}},
		{name: "token_type access_token", change: object{"token_type": "access_token"}},
		{name: "no exp", change: object{"exp": nil}},
		{name: "inactive", answer: `{"active":false}`, kind: ErrInvalid, text: "not active"},
		{name: "active in a string", change: object{"active": "true"}, kind: ErrInvalid, text: "not active"},
		{name: "expired", change: object{"exp": clock.Now().Unix()}, kind: ErrInvalid, text: "expired"},
		{name: "another issuer", change: object{"iss": "https://evil.example"}, kind: ErrInvalid, text: "iss is"},
		{name: "another audience", change: object{"aud": "x"}, kind: ErrInvalid, text: "aud is"},
		{name: "a refresh token", change: object{"token_type": "refresh_token"}, kind: ErrInvalid, text: "expected Bearer"},
		{name: "bound to a key", change: object{"cnf": object{"jkt": "x"}}, kind: ErrInvalid, text: "bound to a key"},
		{name: "no sub", change: object{"sub": nil}, kind: ErrInvalid, text: "sub is missing"},
		{name: "twice active", answer: `{"active":false,"active":true,"sub":"alice-sub"}`,
			kind: ErrFault, text: "appears twice"},
		{name: "no JSON", answer: `opaque-access-token`, kind: ErrFault, text: "invalid character"},
		{name: "refused", answer: `{"error":"invalid_client","error_description":"for opaque-access-token"}`,
			status: 401, kind: ErrFault, text: `401 Unauthorized, error "invalid_client"`},
		{name: "an endpoint in the clear", url: "http://id.example.org/", kind: ErrFault, text: "is not https"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.discovery["introspection_endpoint"] = f.idp + "/introspect"
			answer := over(object{
				"active": true, "sub": "alice-sub", "token_type": "Bearer", "scope": "read",
				"client_id": "a-client", "jti": "the-jti", "exp": clock.Now().Add(time.Minute).Unix(),
				"preferred_username": "alice", "roles": []string{"admin"},
			}, test.change)
			f.instead["/introspect"] = say(cmp.Or(test.status, 200), "application/json",
				strings.ReplaceAll(cmp.Or(test.answer, marshal(answer)), "OWN", f.idp))
			issuer := f.trusted(func(o *TrustedOptions) {
				o.Introspection = &Introspection{URL: test.url, Client: Client{ID: testClient, Secret: testSecret}}
			})
			got, err := issuer.Introspect(t.Context(), "opaque-access-token")
			if wantError(t, err, test.kind, test.text); err != nil {
				return
			}
			want := &AccessToken{
				Profile: Profile{Subject: "alice-sub", Username: "alice", Roles: []string{"admin"}, Claims: got.Profile.Claims},
				Scopes:  []string{"read"}, ID: "the-jti",
			}
			if answer["exp"] != nil {
				want.Expires = clock.Now().Add(time.Minute)
			}
			if diff := gocmp.Diff(want, got, gocmp.Comparer(time.Time.Equal)); diff != "" ||
				got.Profile.Claims["active"] != nil {
				t.Errorf("claims %v (-want +got):\n%s", got.Profile.Claims, diff)
			}
			form, header := f.lastCall("/introspect")
			wantForm := url.Values{"token": {"opaque-access-token"}, "token_type_hint": {"access_token"},
				"client_id": {testClient}}
			if diff := gocmp.Diff(wantForm, form); diff != "" || header != basicHeader {
				t.Errorf("Authorization %q, want %q; the form (-want +got):\n%s", header, basicHeader, diff)
			}
		})
	}
}

// Introspection needs a configuration, and an endpoint that is configured or announced.
func TestIntrospectionEndpoint(t *testing.T) {
	f := newFake(t)
	f.instead["/own"] = sayJSON(`{"active":true,"sub":"alice-sub"}`)
	introspect := func(i *Introspection, kind error, text string) {
		t.Helper()
		_, err := f.trusted(func(o *TrustedOptions) { o.Introspection = i }).Introspect(t.Context(), "opaque-access-token")
		wantError(t, err, kind, text)
	}
	introspect(nil, ErrInvalid, "not taken")
	introspect(&Introspection{URL: f.idp + "/own"}, nil, "")
	f.wantCalled(t, discoveryPath, 0)
	introspect(&Introspection{}, ErrFault, "introspection_endpoint is missing")
}
