package provider

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/policy"
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
	verified, unverified := object{"email": address, "email_verified": true},
		object{"email": address, "email_verified": false}
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
		{name: "null is missing", userinfo: object{"name": null, "email": null},
			id: object{"name": "I"}, want: want{"alice-sub", "I", ""}},
		{name: "a name that is a number", userinfo: object{"name": 1}, want: none},
		{name: "a name that is a number, and a name elsewhere", userinfo: object{"name": 1},
			id: object{"name": "I"}, want: want{"alice-sub", "I", ""}},
		{name: "a name that is an object", userinfo: object{"name": object{"first": "A"}}, want: none},
		{name: "a name with a line break", userinfo: object{"name": "A\nB"}, want: none},
		{name: "a name that reads backwards", userinfo: object{"name": "A\u202eB"}, want: none},
		{name: "a name of private use", userinfo: object{"name": "\ue000"}, want: none},
		{name: "a blank name", userinfo: object{"name": "  "}, want: none},
		{name: "a name for no header", userinfo: object{"name": strings.Repeat("A", maxName+1)}, want: none},
		{name: "an address that is an array", userinfo: object{"email": []string{address}}, want: none},
		{name: "an address that is an array, and one elsewhere", userinfo: object{"email": []string{address}},
			id: verified, want: byEmail},
		{name: "an address that is too long", userinfo: object{"email": strings.Repeat("a", 250) + "@b.org"}, want: none},

		{name: "verified", userinfo: verified, want: byEmail},
		{name: "verified in a string", userinfo: object{"email": address, "email_verified": "true"}, want: byEmail},
		{name: "verified is null", userinfo: object{"email": address, "email_verified": null}, want: byEmail},
		{name: "verified in another string", userinfo: object{"email": address, "email_verified": "True"}, want: none},
		{name: "verified is empty", userinfo: object{"email": address, "email_verified": ""}, want: none},
		{name: "verified is an object", userinfo: object{"email": address, "email_verified": object{}}, want: none},
		{name: "unverified", userinfo: unverified, want: none},
		{name: "unverified in a string", userinfo: object{"email": address, "email_verified": "false"}, want: none},
		{name: "email_verified that is a number", userinfo: object{"email": address, "email_verified": 1}, want: none},
		{name: "email_verified in other words", userinfo: object{"email": address, "email_verified": "yes"}, want: none},
		{name: "unverified elsewhere, without the address", userinfo: object{"email_verified": false},
			id: object{"email": address}, want: none},
		{name: "unverified, and verified elsewhere", userinfo: unverified, id: verified, want: none},
		{name: "verified, and unverified elsewhere", userinfo: verified,
			id: object{"email": "A@example.org", "email_verified": "false"}, want: none},
		{name: "another is unverified elsewhere", userinfo: verified,
			id: object{"email": "b@example.org", "email_verified": false}, want: byEmail},

		{name: "two addresses in one", userinfo: object{"email": "a@evil@company.com"}, want: none},
		{name: "nothing before the @", userinfo: object{"email": "@example.org"}, want: none},
		{name: "nothing after the @", userinfo: object{"email": "alice@"}, want: none},
		{name: "a line break", userinfo: object{"email": "alice@example.org\r\nX-Auth-User: root"}, want: none},
		{name: "a space of another kind", userinfo: object{"email": "alice@example.org\u00a0"}, want: none},
		{name: "a character that is not seen", userinfo: object{"email": "alice@example\u200b.org"}, want: none},

		{name: "a path", claim: "account.name", userinfo: object{"account": object{"name": "alice"}},
			want: want{Username: "alice"}},
		{name: "email as the claim", claim: "email", userinfo: object{"email": address}, want: byEmail},
		{name: "email as the claim, unverified", claim: "email", userinfo: unverified, want: none},
		{name: "sub as the claim", claim: "sub", userinfo: object{"email": address}, want: want{"alice-sub", "", address}},
		{name: "a number", userinfo: object{"preferred_username": 1}, want: none},
		{name: "a number, and a name elsewhere", userinfo: object{"preferred_username": 1},
			id: object{"preferred_username": "i"}, want: want{Username: "i"}},
		{name: "empty", userinfo: object{"preferred_username": ""}, want: none},
		{name: "empty, with an address", userinfo: object{"preferred_username": "", "email": address}, want: byEmail},
		{name: "too long", userinfo: object{"preferred_username": strings.Repeat("x", 256)}, want: none},
		{name: "a control character", userinfo: object{"preferred_username": "alice\x00"}, want: none},
		{name: "a control character of C1", userinfo: object{"preferred_username": "ali\u0085ce"}, want: none},
		{name: "a space without width", userinfo: object{"preferred_username": "alice\u200b"}, want: none},
		{name: "backwards", userinfo: object{"preferred_username": "c\u202edlr"}, want: none},
		{name: "a separator of lines", userinfo: object{"preferred_username": "alice\u2028x"}, want: none},
		{name: "a separator of paragraphs", userinfo: object{"preferred_username": "alice\u2029x"}, want: none},
		{name: "private use", userinfo: object{"preferred_username": "alice\U000f0000"}, want: none},
		{name: "outer space", userinfo: object{"preferred_username": " alice"}, want: none},
		{name: "outer space of another kind", userinfo: object{"preferred_username": "alice\u00a0"}, want: none},
		{name: "the own address in other case", userinfo: object{"preferred_username": "A@Example.org", "email": address},
			want: want{"A@Example.org", "", address}},
		{name: "another's address", userinfo: object{"preferred_username": "boss@example.org", "email": address},
			want: byEmail},
		{name: "another's address, without one of their own", userinfo: object{"preferred_username": "boss@example.org"},
			want: none},
		{name: "the own address, unverified", userinfo: over(object{"preferred_username": address}, unverified), want: none},
		{name: "another's address with a wide @", userinfo: object{"preferred_username": "boss\uff20example.org"},
			want: none},
		{name: "sub that looks like an address", userinfo: object{"sub": "boss@example.org"},
			id: object{"sub": "boss@example.org"}, want: want{Username: "boss@example.org"}},
		{name: "outer space in sub", userinfo: object{"sub": "alice "}, id: object{"sub": "alice "}, fault: "outer space"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := login(t, test.userinfo, test.id, func(o *Options) {
				if test.claim != "" {
					o.Mapping.Username = test.claim
				}
			})
			if wantError(t, err, ErrFault, test.fault); err != nil {
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
		object{"both": "id", "acr": "gold", "sid": "s", "azp": testClient, "jti": "j",
			"at_hash": atHash("opaque-access-token"), "email": "b@example.org",
			"_claim_sources": object{"src": object{"access_token": "secret"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := object{"both": "userinfo", "n": json.Number("9007199254740993"),
		"acr": "gold", "azp": testClient, "email_verified": false}
	if diff := cmp.Diff(want, got.Profile.Claims); diff != "" {
		t.Error(diff)
	}
}

// Claims that are too long are left out, the longest first, and the rest stays.
func TestClaimsAreBounded(t *testing.T) {
	for size, kept := range map[int]bool{maxClaims - 200: true, maxClaims: false} {
		got, err := login(t, object{"padding": strings.Repeat("x", size), "roles": "admin", "name": "Alice"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := got.Profile.Claims["padding"]; ok != kept || len(got.Profile.Roles) != 1 || got.Profile.Name != "Alice" {
			t.Errorf("%d bytes: kept %t, want %t; %v %s", size, ok, kept, got.Profile.Roles, got.Profile.Name)
		}
	}
	half := strings.Repeat("x", maxClaims/2)
	got, err := login(t, object{"padding": half}, object{"other": half + "xxx"}, nil)
	if err != nil || got.Profile.Claims["other"] != nil || got.Profile.Claims["padding"] == nil {
		t.Errorf("two sources: %v, %d claims", err, len(got.Profile.Claims))
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

		{name: "a string", userinfo: roles("admin"), want: "admin"},
		{name: "a string with spaces", userinfo: roles("admin user"), want: "admin user"},
		{name: "a string with a comma", userinfo: roles("admin,user")},
		{name: "an empty string", userinfo: roles(""), id: user, want: "user"},
		{name: "a number", userinfo: roles(1)},
		{name: "a boolean", userinfo: roles(true)},
		{name: "a number, and roles in the ID token", userinfo: roles(1), id: user, want: "user"},
		{name: "an object", userinfo: roles(object{"user": object{"1": "example.org"}, "admin": nil}), want: "admin user"},
		{name: "an empty object before others", userinfo: roles(object{}), id: admin},
		{name: "nested", userinfo: roles([]any{[]string{"admin"}})},
		{name: "an array with null", userinfo: roles([]any{"admin", nil})},
		{name: "an array with a number", userinfo: roles([]any{"admin", 1})},
		{name: "a string in the access token", access: token(roles("admin")), want: "admin"},
		{name: "a number in the access token", access: token(roles(5))},
		{name: "a number in userinfo, an array in the access token", userinfo: roles(5), access: token(nil), want: "admin"},
		{name: "a role for no header", userinfo: roles([]string{strings.Repeat("x", maxRole+1), "user"}), want: "user"},
		{name: "empty roles and those that no policy can name",
			userinfo: roles([]string{"", "a,admin", "admin\n", " admin", "user"}), want: "user"},

		{name: "access token about another person", access: token(object{"sub": "bob-sub"})},
		{name: "access token of another issuer", access: token(object{"iss": "https://evil.example"})},
		{name: "access token that has expired", access: token(object{"exp": 1})},
		{name: "access token of another's key",
			access: forged(func(claims object) string { return newECKey("first").sign(claims, nil) })},
		{name: "access token without a signature",
			access: forged(func(claims object) string { return unsigned(claims, algNone) })},
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
			if wantError(t, err, ErrFault, test.fault); err != nil {
				return
			}
			if got := strings.Join(got.Profile.Roles, " "); got != test.want {
				t.Errorf("roles %q, want %q", got, test.want)
			}
			if refused := f.log.Records(t, "no roles are read from the access token"); (len(refused) == 1) !=
				strings.HasPrefix(test.name, "access token") || strings.Contains(f.log.String(), f.access) {
				t.Errorf("the log says %s", &f.log)
			}
		})
	}
}

func TestDroppedRolesAreLogged(t *testing.T) {
	f := newFake(t)
	f.userinfo["roles"] = []string{"user", "", "a,admin"}
	must(exchange(t, f.provider(nil)))
	got := f.log.Last(t, "a role of the provider is ignored, because it has a comma, a control character, "+
		"or leading or trailing space, or is too long")
	if strings.Count(f.log.String(), "WARN") != 1 || got["role"] != "a,admin" || got["provider"] != "test" {
		t.Errorf("the log says %s", &f.log)
	}
}

func TestUserinfoAnswers(t *testing.T) {
	const body, path = `{"sub":"alice-sub"}`, "/userinfo"
	padded := func(size int) http.HandlerFunc { return sayJSON(strings.Repeat(" ", size-len(body)) + body) }
	testLogins(t, "", []loginTest{
		{"good", unchanged, ""},
		{"as text", answers(path, say(200, "text/plain", body)), ""},
		{"no such endpoint", announced("userinfo_endpoint", nil), ""},
		{"about another person", func(f *fake) { f.userinfo["sub"] = "bob-sub" }, "another person"},
		{"sub in capitals", answers(path, sayJSON(`{"SUB":"alice-sub"}`)), "sub is missing"},
		{"201", answers(path, say(201, "application/json", body)), "201 Created, expected 200"},
		{"401", answers(path, say(401, "application/json",
			`{"error":"invalid_token","error_description":"opaque-access-token is revoked"}`)), `error "invalid_token"`},
		{"403", answers(path, say(403, "text/html", "opaque-access-token")), "403 Forbidden"},
		{"999", answers(path, say(999, "", "")), "999"},
		{"no JSON", answers(path, sayJSON("opaque-access-token")), "invalid character"},
		{"an array", answers(path, sayJSON("[]")), "cannot unmarshal"},
		{"null", answers(path, sayJSON("null")), "null"},
		{"two objects", answers(path, sayJSON(body+" {}")), "more than one JSON value"},
		{"a member that appears twice", answers(path, sayJSON(`{"sub":"bob-sub","sub":"alice-sub"}`)), `"sub" appears twice`},
		{"nesting without end", answers(path, sayJSON(strings.Repeat(`{"a":`, 200_000))), "exceeded max depth"},
		{"at the limit", answers(path, padded(maxAnswer)), ""},
		{"above the limit", answers(path, padded(maxAnswer+1)), "longer than 1048576 bytes"},
		{"above the limit when it is decompressed", func(f *fake) {
			f.listen().instead[path] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				io.WriteString(z, strings.Repeat(" ", 8<<20)+body)
				z.Close()
			}
		}, "longer than 1048576 bytes"},
	})
}

// A userinfo answer may be a JWT.
func TestSignedUserinfo(t *testing.T) {
	type makeToken = func(*fake) string
	claims := object{"sub": "alice-sub", "preferred_username": "alice"}
	signed := func(change object, header joseHeader) makeToken {
		return func(f *fake) string { return f.key.sign(over(object{"sub": "alice-sub"}, change), header) }
	}
	var logins []loginTest
	for _, test := range []struct {
		name string
		make makeToken
		text string
	}{
		{"good", signed(nil, nil), ""},
		{"good with iss, aud and exp", func(f *fake) string { return f.key.sign(f.claims(nil), nil) }, ""},
		{"of another's key", func(*fake) string { return newECKey("first").sign(claims, nil) }, "verify"},
		{"alg none", func(*fake) string { return unsigned(claims, algNone) }, `signed with "none"`},
		{"an unknown kid", signed(nil, joseHeader{"kid": "x"}), "no key with the kid"},
		{"a logout token", signed(nil, joseHeader{"typ": "logout+jwt"}), "typ is"},
		{"of another issuer", signed(object{"iss": "https://evil.example"}, nil), "iss is"},
		{"for another client", signed(object{"aud": "other"}, nil), "aud is"},
		{"expired", signed(object{"exp": 1}, nil), "expired"},
		{"about another person", signed(object{"sub": "bob-sub"}, nil), "another person"},
		{"a claim twice", func(f *fake) string { return f.key.sign(twice(claims), nil) }, "appears twice"},
		{"not signed at all", func(*fake) string { return marshal(claims) }, "compact form"},
	} {
		logins = append(logins, loginTest{test.name, func(f *fake) {
			f.instead["/userinfo"] = say(200, "application/jwt; charset=utf-8", test.make(f))
		}, test.text})
	}
	testLogins(t, "", logins)

	f := newFake(t)
	f.instead["/userinfo"] = say(200, "application/jwt", f.key.sign(object{"id": 1}, nil))
	_, err := exchange(t, f.github())
	wantError(t, err, ErrFault, "no keys")
}

// Whatever a provider says, the profile can be shown, sent in headers and stored, a
// renewal that says the same changes nothing, and one that is silent neither.
func FuzzProfile(f *testing.F) {
	p := newFake(f).provider(nil)
	for _, seed := range [][2]string{
		{`{"name":"Alice","email":"a@example.org","preferred_username":"alice","roles":["user"]}`, `{"roles":"admin"}`},
		{`{"name":{"a":1},"email":"a@b@c","email_verified":"True","preferred_username":"boss@example.org","roles":{"a":{}}}`,
			`{"email":"x@y","roles":[1]}`},
		{`{"name":"A\u202e","preferred_username":"\u200b","roles":["a,b"," c","\n"]}`,
			`{"name":"\ue000","email":"A@example.org","email_verified":false}`},
		{`{"roles":5,"email_verified":1}`, `{"a":{"b":{"c":[null]}}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, userinfo, id string) {
		said := Said{Access: []byte(`{}`)}
		if json.Valid([]byte(userinfo)) && json.Valid([]byte(id)) {
			said.Userinfo, said.ID = []byte(userinfo), []byte(id)
		}
		profile, known := p.Profile("alice-sub", said, Said{})
		if profile.Username == "" || strings.TrimSpace(profile.Username) != profile.Username {
			t.Errorf("the user name %q", profile.Username)
		}
		for _, text := range []string{profile.Username, profile.Name, profile.Email} {
			if strings.ContainsFunc(text, policy.Hidden) || len(text) > maxName {
				t.Errorf("%q cannot be shown", text)
			}
		}
		if strings.Contains(profile.Username, "@") && !strings.EqualFold(profile.Username, profile.Email) {
			t.Errorf("the user name %q is an address, and the user's is %q", profile.Username, profile.Email)
		}
		for _, role := range profile.Roles {
			if policy.CheckRole(role) != nil || role == "" || len(role) > maxRole {
				t.Errorf("the role %q", role)
			}
		}
		for name, now := range map[string]Said{"the same": known, "silent": {}} {
			if again, _ := p.Profile("alice-sub", now, known); marshal(again) != marshal(profile) {
				t.Errorf("%s: %s, after %s", name, marshal(again), marshal(profile))
			}
		}
	})
}
