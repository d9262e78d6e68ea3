package provider

import (
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"authgate/gateway/clocktest"
)

func TestUserinfoAnswers(t *testing.T) {
	testLogins(t, []loginTest{
		{"good", func(f *fake) {}, ""},
		{"as text", func(f *fake) { f.instead["/userinfo"] = say(200, "text/plain", `{"sub":"alice-sub"}`) }, ""},
		{"no such endpoint", func(f *fake) { f.discovery["userinfo_endpoint"] = nil }, ""},
		{"about another person", func(f *fake) { f.userinfo["sub"] = "bob-sub" }, "another person"},
		{"sub in capitals", func(f *fake) { f.userinfo = map[string]any{"SUB": "alice-sub"} }, "sub is missing"},
		{"without sub", func(f *fake) { delete(f.userinfo, "sub") }, "sub is missing"},
		{"201", func(f *fake) { f.instead["/userinfo"] = say(201, "application/json", `{"sub":"alice-sub"}`) }, "201 Created, expected 200"},
		{"204", func(f *fake) { f.instead["/userinfo"] = say(204, "", "") }, "204 No Content, expected 200"},
		{"401", func(f *fake) {
			f.instead["/userinfo"] = say(401, "application/json", `{"error":"invalid_token","error_description":"opaque-access-token is revoked"}`)
		}, `error "invalid_token"`},
		{"403", func(f *fake) { f.instead["/userinfo"] = say(403, "text/html", "opaque-access-token") }, "403 Forbidden"},
		{"500", func(f *fake) { f.instead["/userinfo"] = say(500, "", "") }, "500 Internal"},
		{"999", func(f *fake) { f.instead["/userinfo"] = say(999, "", "") }, "999"},
		{"no JSON", func(f *fake) { f.instead["/userinfo"] = say(200, "application/json", "opaque-access-token") }, "invalid character"},
		{"an array", func(f *fake) { f.instead["/userinfo"] = say(200, "application/json", "[]") }, "cannot unmarshal"},
		{"null", func(f *fake) { f.instead["/userinfo"] = say(200, "application/json", "null") }, "null"},
		{"two objects", func(f *fake) { f.instead["/userinfo"] = say(200, "application/json", `{"sub":"alice-sub"} {}`) }, "more than one JSON value"},
		{"a member that appears twice", func(f *fake) {
			f.instead["/userinfo"] = say(200, "application/json", `{"sub":"bob-sub","sub":"alice-sub"}`)
		}, `"sub" appears twice`},
		{"nesting without end", func(f *fake) { f.instead["/userinfo"] = say(200, "application/json", strings.Repeat(`{"a":`, 200_000)) }, "exceeded max depth"},
	})
}

// A userinfo answer may be a JWT.
func TestSignedUserinfo(t *testing.T) {
	clock := clocktest.New()
	claims := map[string]any{"sub": "alice-sub", "preferred_username": "alice"}
	with := func(name string, value any) map[string]any { return map[string]any{"sub": "alice-sub", name: value} }
	tests := []struct {
		name string
		make func(f *fake) string
		text string
	}{
		{"good", func(f *fake) string { return f.key.sign(t, claims, nil) }, ""},
		{"good with iss, aud and exp", func(f *fake) string { return f.key.sign(t, f.claims(nil), nil) }, ""},
		{"of another's key", func(f *fake) string { return newECKey(t, "first").sign(t, claims, nil) }, "verify"},
		{"alg none", func(f *fake) string { return unsigned(claims, `{"alg":"none","kid":"first"}`) }, `signed with "none"`},
		{"without a kid", func(f *fake) string { return f.key.sign(t, claims, map[jose.HeaderKey]any{"kid": nil}) }, "no kid"},
		{"an unknown kid", func(f *fake) string { return f.key.sign(t, claims, map[jose.HeaderKey]any{"kid": "x"}) }, "no key with the kid"},
		{"a logout token", func(f *fake) string { return f.key.sign(t, claims, map[jose.HeaderKey]any{"typ": "logout+jwt"}) }, "typ is"},
		{"of another issuer", func(f *fake) string { return f.key.sign(t, with("iss", "https://evil.example"), nil) }, "iss is"},
		{"for another client", func(f *fake) string { return f.key.sign(t, with("aud", "other"), nil) }, "aud is"},
		{"expired", func(f *fake) string { return f.key.sign(t, with("exp", clock.Now().Unix()), nil) }, "expired"},
		{"about another person", func(f *fake) string { return f.key.sign(t, map[string]any{"sub": "bob-sub"}, nil) }, "another person"},
		{"not signed at all", func(f *fake) string { return marshal(t, claims) }, "compact form"},
	}
	var logins []loginTest
	for _, test := range tests {
		logins = append(logins, loginTest{test.name, func(f *fake) {
			f.instead["/userinfo"] = say(200, "application/jwt; charset=utf-8", test.make(f))
		}, test.text})
	}
	testLogins(t, logins)
	t.Run("without keys to verify it by", func(t *testing.T) {
		f := newFake(t, clock.Now).listen()
		f.instead["/userinfo"] = say(200, "application/jwt", f.key.sign(t, map[string]any{"id": 1}, nil))
		_, err := exchange(t, f.github())
		wantError(t, err, ErrFault, "no keys")
	})
}
