package provider

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

// login logs in with these claims in userinfo and ID token.
func login(t *testing.T, userinfo, id map[string]any, change func(*Options)) (*Grant, error) {
	t.Helper()
	f := newFake(t, clocktest.New().Now).listen()
	f.userinfo = over(map[string]any{"sub": "alice-sub"}, userinfo)
	f.id = id
	return exchange(t, f.provider(change))
}

type object = map[string]any

func TestNameEmailAndUsername(t *testing.T) {
	type want struct{ Username, Name, Email string }
	tests := []struct {
		name         string
		userinfo, id object
		claim        string // username_claim; default preferred_username
		want         want
		fault        string
	}{
		{name: "userinfo comes first", userinfo: object{"name": "U", "email": "u@example.org", "preferred_username": "u"},
			id: object{"name": "I", "email": "i@example.org", "preferred_username": "i"}, want: want{"u", "U", "u@example.org"}},
		{name: "then the ID token", id: object{"name": "I", "email": "i@example.org", "preferred_username": "i"}, want: want{"i", "I", "i@example.org"}},
		{name: "each for itself", userinfo: object{"name": "U"}, id: object{"email": "i@example.org", "preferred_username": "i"}, want: want{"i", "U", "i@example.org"}},
		{name: "null is missing", userinfo: object{"name": (*int)(nil), "email": (*int)(nil)}, id: object{"name": "I"}, want: want{"alice-sub", "I", ""}},
		{name: "a name that is a number", userinfo: object{"name": 1}, fault: "name is a number"},
		{name: "an address that is an array", userinfo: object{"email": []string{"a@example.org"}}, fault: "email is an array"},

		{name: "verified", userinfo: object{"email": "a@example.org", "email_verified": true}, want: want{"a@example.org", "", "a@example.org"}},
		{name: "verified in a string", userinfo: object{"email": "a@example.org", "email_verified": "true"}, want: want{Username: "alice-sub"}},
		{name: "unverified", userinfo: object{"email": "a@example.org", "email_verified": false}, want: want{Username: "alice-sub"}},
		{name: "unverified in a string", userinfo: object{"email": "a@example.org", "email_verified": "false"}, want: want{Username: "alice-sub"}},
		{name: "email_verified that is a number", userinfo: object{"email": "a@example.org", "email_verified": 1}, fault: "email_verified is a number"},
		{name: "email_verified in other words", userinfo: object{"email": "a@example.org", "email_verified": "yes"}, fault: "email_verified is a string"},
		{name: "unverified, and verified elsewhere", userinfo: object{"email": "a@example.org", "email_verified": false},
			id: object{"email": "a@example.org", "email_verified": true}, want: want{Username: "alice-sub"}},
		{name: "verified elsewhere alone", userinfo: object{"email": "a@example.org", "email_verified": false}, id: object{"email_verified": true}, want: want{Username: "alice-sub"}},

		{name: "two addresses in one", userinfo: object{"email": "a@evil@company.com"}, fault: "not one address"},
		{name: "no address", userinfo: object{"email": "alice"}, fault: "not one address"},
		{name: "nothing before the @", userinfo: object{"email": "@example.org"}, fault: "not one address"},
		{name: "nothing after the @", userinfo: object{"email": "alice@"}, fault: "not one address"},
		{name: "a space", userinfo: object{"email": "alice smith@example.org"}, fault: "not one address"},
		{name: "a line break", userinfo: object{"email": "alice@example.org\r\nX-Auth-User: root"}, fault: "not one address"},
		{name: "a space of another kind", userinfo: object{"email": "alice@example.org\u00a0"}, fault: "not one address"},

		{name: "a path", claim: "account.name", userinfo: object{"account": object{"name": "alice"}}, want: want{Username: "alice"}},
		{name: "a name with dots", claim: "https://example.org/name", id: object{"https://example.org/name": "alice"}, want: want{Username: "alice"}},
		{name: "email as the claim", claim: "email", userinfo: object{"email": "a@example.org"}, want: want{"a@example.org", "", "a@example.org"}},
		{name: "email as the claim, unverified", claim: "email", userinfo: object{"email": "root@example.org", "email_verified": false}, want: want{Username: "alice-sub"}},
		{name: "sub as the claim", claim: "sub", userinfo: object{"email": "a@example.org"}, want: want{"alice-sub", "", "a@example.org"}},
		{name: "missing, with an address", userinfo: object{"email": "a@example.org"}, want: want{"a@example.org", "", "a@example.org"}},
		{name: "a number", userinfo: object{"preferred_username": 1}, fault: "preferred_username is a number"},
		{name: "empty", userinfo: object{"preferred_username": ""}, fault: "preferred_username is not 1 to 255 bytes"},
		{name: "long", userinfo: object{"preferred_username": strings.Repeat("x", 256)}, fault: "preferred_username is not 1 to 255 bytes"},
		{name: "a control character", userinfo: object{"preferred_username": "alice\x00"}, fault: "control characters"},
		{name: "outer space", userinfo: object{"preferred_username": " alice"}, fault: "outer space"},
		{name: "outer space in sub", userinfo: object{"sub": "alice "}, id: object{"sub": "alice "}, fault: "outer space"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := login(t, test.userinfo, test.id, func(o *Options) {
				if test.claim != "" {
					o.Mapping.Username = test.claim
				}
			})
			if wantResult(t, err, ErrFault, test.fault); err != nil {
				return
			}
			if diff := cmp.Diff(test.want, want{got.Profile.Username, got.Profile.Name, got.Profile.Email}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	got, err := login(t,
		object{"both": "userinfo", "n": json.Number("9007199254740993"), "email": "a@example.org", "email_verified": false},
		object{"both": "id", "acr": "gold", "sid": "s", "azp": testClient, "jti": "j", "at_hash": atHash("opaque-access-token"), "email": "b@example.org",
			"_claim_sources": object{"src": object{"access_token": "secret"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := object{"both": "userinfo", "n": json.Number("9007199254740993"), "acr": "gold", "azp": testClient, "email_verified": false}
	if diff := cmp.Diff(want, got.Profile.Claims); diff != "" {
		t.Error(diff)
	}

	_, err = login(t, object{"padding": strings.Repeat("x", maxClaims)}, nil, nil)
	wantError(t, err, ErrFault, "let the provider send fewer")
	if _, err := login(t, object{"padding": strings.Repeat("x", maxClaims-100)}, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestRoles(t *testing.T) {
	const name = "https://example.org/roles"
	tests := []struct {
		name         string
		claim        string // roles_claim; default roles
		userinfo, id object
		access       object // claims of a JWT access token; nil: it is opaque
		want         []string
		fault        string
	}{
		{name: "in userinfo", userinfo: object{"roles": []string{"admin"}}, want: []string{"admin"}},
		{name: "in the ID token", id: object{"roles": []string{"admin"}}, want: []string{"admin"}},
		{name: "in the access token", access: object{"roles": []string{"admin"}}, want: []string{"admin"}},
		{name: "nowhere"},
		{name: "userinfo before the ID token", userinfo: object{"roles": []string{"user"}}, id: object{"roles": []string{"admin"}}, want: []string{"user"}},
		{name: "an empty array before others", userinfo: object{"roles": []string{}}, id: object{"roles": []string{"admin"}}},
		{name: "the ID token before the access token", id: object{"roles": []string{"user"}}, access: object{"roles": []string{"admin"}}, want: []string{"user"}},
		{name: "a path", claim: "realm_access.roles", id: object{"realm_access": object{"roles": []string{"admin"}}}, want: []string{"admin"}},
		{name: "a name with dots", claim: name, userinfo: object{name: []string{"admin"}}, want: []string{"admin"}},
		{name: "a path through a name with dots", claim: "https://example.org/access.roles", id: object{"https://example.org/access": object{"roles": []string{"admin"}}}, want: []string{"admin"}},
		{name: "a path through what is no object", claim: "realm_access.roles", id: object{"realm_access": "admin"}},
		{name: "no claim is configured", claim: "-", userinfo: object{"roles": []string{"admin"}, "": []string{"admin"}}},
		{name: "null", userinfo: object{"roles": (*int)(nil)}},

		{name: "a string", userinfo: object{"roles": "admin"}, fault: "roles is a string, expected an array of strings; let the provider"},
		{name: "an empty string", userinfo: object{"roles": ""}, fault: "roles is a string"},
		{name: "a number", userinfo: object{"roles": 1}, fault: "roles is a number"},
		{name: "a boolean", userinfo: object{"roles": true}, fault: "roles is a boolean"},
		{name: "an object", userinfo: object{"roles": object{"admin": true}}, fault: "roles is an object"},
		{name: "nested", userinfo: object{"roles": []any{[]string{"admin"}}}, fault: "roles is an array with an array in it"},
		{name: "an array with a number", userinfo: object{"roles": []any{"admin", 1}}, fault: "roles is an array with a number in it"},
		{name: "an array with null", userinfo: object{"roles": []any{"admin", nil}}, fault: "with missing or null in it"},
		{name: "a string in the access token", access: object{"roles": "admin"}, fault: "roles is a string"},

		{name: "an empty role", userinfo: object{"roles": []string{"", "user"}}, want: []string{"user"}},
		{name: "empty roles alone", userinfo: object{"roles": []string{""}}},
		{name: "roles that no policy can name", userinfo: object{"roles": []string{"a,admin", "admin\n", " admin", "user"}}, want: []string{"user"}},

		{name: "access token about another person", access: object{"sub": "bob-sub", "roles": []string{"admin"}}},
		{name: "access token of another issuer", access: object{"iss": "https://evil.example", "roles": []string{"admin"}}},
		{name: "access token that has expired", access: object{"exp": 1, "roles": []string{"admin"}}},
		{name: "access token without exp", access: object{"exp": nil, "roles": []string{"admin"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			f.userinfo, f.id = over(object{"sub": "alice-sub"}, test.userinfo), test.id
			if test.access != nil {
				f.access = f.key.sign(t, f.accessClaims(test.access), nil)
			}
			got, err := exchange(t, f.provider(func(o *Options) {
				if test.claim != "" {
					o.Mapping.Roles = strings.TrimPrefix(test.claim, "-")
				}
			}))
			if wantResult(t, err, ErrFault, test.fault); err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got.Profile.Roles); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An access token with a wrong signature gives no roles, and no error.
func TestForgedAccessTokenGivesNoRoles(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	delete(f.userinfo, "roles")
	claims := f.claims(object{"roles": []string{"admin"}})
	for name, access := range map[string]string{
		"another's key": newECKey(t, "first").sign(t, claims, nil),
		"alg none":      unsigned(claims, `{"alg":"none","kid":"first"}`),
		"not a JWT":     "a.b.c",
	} {
		f.access = access
		got, logged := exchangeLogged(t, f)
		if got.Profile.Roles != nil {
			t.Errorf("%s: roles %q", name, got.Profile.Roles)
		}
		if !strings.Contains(logged, "level=DEBUG") || strings.Contains(logged, access) {
			t.Errorf("%s: the log says %q", name, logged)
		}
	}
}

func TestDroppedRolesAreLogged(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.userinfo["roles"] = []string{"user", "", "a,admin"}
	_, logged := exchangeLogged(t, f)
	if strings.Count(logged, "level=WARN") != 1 || !strings.Contains(logged, "role=a,admin") || !strings.Contains(logged, "provider=test") {
		t.Errorf("the log says %q", logged)
	}
}

// exchangeLogged logs in, and returns the log of it too.
func exchangeLogged(t *testing.T, f *fake) (*Grant, string) {
	t.Helper()
	var logged strings.Builder
	logger := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	grant := mustExchange(t, f.provider(func(o *Options) { o.Logger = logger }))
	return grant, logged.String()
}
