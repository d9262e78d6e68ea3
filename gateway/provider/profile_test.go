package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// login logs in with these claims in userinfo and ID token.
func login(t *testing.T, userinfo, id object, change func(*Options)) (*Grant, error) {
	t.Helper()
	f := newFake(t)
	f.userinfo, f.id = over(object{"sub": "alice-sub"}, userinfo), id
	return exchange(t, f.provider(change))
}

func TestNameEmailAndUsername(t *testing.T) {
	type want struct{ Username, Name, Email string }
	const address = "a@example.org"
	verified, unverified := object{"email": address, "email_verified": true}, object{"email": address, "email_verified": false}
	null, none := (*int)(nil), want{Username: "alice-sub"}
	byEmail := want{address, "", address}
	of := func(letter string) object {
		return object{"name": strings.ToUpper(letter), "email": letter + "@example.org", "preferred_username": letter}
	}
	for _, test := range []struct {
		name         string
		claim        string // username_claim; default preferred_username
		userinfo, id object
		want         want
		fault        string
	}{
		{name: "userinfo comes first", userinfo: of("u"), id: of("i"), want: want{"u", "U", "u@example.org"}},
		{name: "then the ID token", id: of("i"), want: want{"i", "I", "i@example.org"}},
		{name: "each for itself", userinfo: object{"name": "U"}, id: of("i"), want: want{"i", "U", "i@example.org"}},
		{name: "null is missing", userinfo: object{"name": null, "email": null}, id: object{"name": "I"}, want: want{"alice-sub", "I", ""}},
		{name: "a name that is a number", userinfo: object{"name": 1}, fault: "name is a number"},
		{name: "an address that is an array", userinfo: object{"email": []string{address}}, fault: "email is an array"},

		{name: "verified", userinfo: verified, want: byEmail},
		{name: "verified in a string", userinfo: object{"email": address, "email_verified": "true"}, want: none},
		{name: "unverified", userinfo: unverified, want: none},
		{name: "unverified in a string", userinfo: object{"email": address, "email_verified": "false"}, want: none},
		{name: "email_verified that is a number", userinfo: object{"email": address, "email_verified": 1}, fault: "email_verified is a number"},
		{name: "email_verified in other words", userinfo: object{"email": address, "email_verified": "yes"}, fault: "email_verified is a string"},
		{name: "unverified, and verified elsewhere", userinfo: unverified, id: verified, want: none},
		{name: "verified, and unverified elsewhere", userinfo: verified, id: object{"email": "A@example.org", "email_verified": "false"}, want: none},
		{name: "another is unverified elsewhere", userinfo: verified, id: object{"email": "b@example.org", "email_verified": false}, want: byEmail},

		{name: "two addresses in one", userinfo: object{"email": "a@evil@company.com"}, fault: "not one address"},
		{name: "nothing before the @", userinfo: object{"email": "@example.org"}, fault: "not one address"},
		{name: "nothing after the @", userinfo: object{"email": "alice@"}, fault: "not one address"},
		{name: "a line break", userinfo: object{"email": "alice@example.org\r\nX-Auth-User: root"}, fault: "not one address"},
		{name: "a space of another kind", userinfo: object{"email": "alice@example.org\u00a0"}, fault: "not one address"},

		{name: "a path", claim: "account.name", userinfo: object{"account": object{"name": "alice"}}, want: want{Username: "alice"}},
		{name: "email as the claim", claim: "email", userinfo: object{"email": address}, want: byEmail},
		{name: "email as the claim, unverified", claim: "email", userinfo: unverified, want: none},
		{name: "sub as the claim", claim: "sub", userinfo: object{"email": address}, want: want{"alice-sub", "", address}},
		{name: "a number", userinfo: object{"preferred_username": 1}, fault: "preferred_username is a number"},
		{name: "empty", userinfo: object{"preferred_username": ""}, fault: "preferred_username is not 1 to 255 bytes"},
		{name: "a control character", userinfo: object{"preferred_username": "alice\x00"}, fault: "control characters"},
		{name: "outer space", userinfo: object{"preferred_username": " alice"}, fault: "outer space"},
		{name: "outer space in sub", userinfo: object{"sub": "alice "}, id: object{"sub": "alice "}, fault: "outer space"},
	} {
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
	for size, text := range map[int]string{maxClaims: "let the provider send fewer", maxClaims - 100: ""} {
		_, err = login(t, object{"padding": strings.Repeat("x", size)}, nil, nil)
		wantResult(t, err, ErrFault, text)
	}
}

func TestRoles(t *testing.T) {
	const name = "https://example.org/roles"
	roles := func(value any) object { return object{"roles": value} }
	admin, user := roles([]string{"admin"}), roles([]string{"user"})
	token := func(change object) func(*fake) string {
		return func(f *fake) string { return f.key.sign(f.accessClaims(change), nil) }
	}
	forged := func(make func(claims object) string) func(*fake) string {
		return func(f *fake) string { return make(f.accessClaims(nil)) }
	}
	for _, test := range []struct {
		name         string
		claim        string // roles_claim; default roles
		userinfo, id object
		access       func(*fake) string // nil: opaque
		want         string
		fault        string
	}{
		{name: "in userinfo", userinfo: admin, want: "admin"},
		{name: "in the ID token", id: admin, want: "admin"},
		{name: "in the access token", access: token(nil), want: "admin"},
		{name: "nowhere"},
		{name: "userinfo before the ID token", userinfo: user, id: admin, want: "user"},
		{name: "an empty array before others", userinfo: roles([]string{}), id: admin},
		{name: "the ID token before the access token", id: user, access: token(nil), want: "user"},
		{name: "a path", claim: "realm_access.roles", id: object{"realm_access": admin}, want: "admin"},
		{name: "a name with dots", claim: name, userinfo: object{name: []string{"admin"}}, want: "admin"},
		{name: "no claim is configured", claim: "-", userinfo: object{"roles": []string{"admin"}, "": []string{"admin"}}},
		{name: "null", userinfo: roles((*int)(nil))},

		{name: "a string", userinfo: roles("admin"), fault: "roles is a string, expected an array of strings; let the provider"},
		{name: "a number", userinfo: roles(1), fault: "roles is a number"},
		{name: "a boolean", userinfo: roles(true), fault: "roles is a boolean"},
		{name: "an object", userinfo: roles(object{"admin": true}), fault: "roles is an object"},
		{name: "nested", userinfo: roles([]any{[]string{"admin"}}), fault: "roles is an array with an array in it"},
		{name: "an array with null", userinfo: roles([]any{"admin", nil}), fault: "with missing or null in it"},
		{name: "a string in the access token", access: token(roles("admin")), fault: "roles is a string"},
		{name: "empty roles and those that no policy can name", userinfo: roles([]string{"", "a,admin", "admin\n", " admin", "user"}), want: "user"},

		{name: "access token about another person", access: token(object{"sub": "bob-sub"})},
		{name: "access token of another issuer", access: token(object{"iss": "https://evil.example"})},
		{name: "access token that has expired", access: token(object{"exp": 1})},
		{name: "access token of another's key", access: forged(func(claims object) string { return newECKey("first").sign(claims, nil) })},
		{name: "access token without a signature", access: forged(func(claims object) string { return unsigned(claims, algNone) })},
		{name: "access token that is no JWT", access: forged(func(object) string { return "a.b.c" })},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.userinfo, f.id = over(object{"sub": "alice-sub"}, test.userinfo), test.id
			if test.access != nil {
				f.access = test.access(f)
			}
			got, err := exchange(t, f.provider(func(o *Options) {
				if test.claim != "" {
					o.Mapping.Roles = strings.TrimPrefix(test.claim, "-")
				}
			}))
			if wantResult(t, err, ErrFault, test.fault); err != nil {
				return
			}
			if got := strings.Join(got.Profile.Roles, " "); got != test.want {
				t.Errorf("roles %q, want %q", got, test.want)
			}
			if refused := f.log.Records(t, "no roles are read from the access token"); (len(refused) == 1) != strings.HasPrefix(test.name, "access token") || strings.Contains(f.log.String(), f.access) {
				t.Errorf("the log says %s", &f.log)
			}
		})
	}
}

func TestDroppedRolesAreLogged(t *testing.T) {
	f := newFake(t)
	f.userinfo["roles"] = []string{"user", "", "a,admin"}
	mustExchange(t, f.provider(nil))
	got := f.log.Last(t, "a role of the provider is ignored, because it has a comma, a control character, or leading or trailing space")
	if strings.Count(f.log.String(), "WARN") != 1 || got["role"] != "a,admin" || got["provider"] != "test" {
		t.Errorf("the log says %s", &f.log)
	}
}
