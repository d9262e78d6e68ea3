package provider

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

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
		{"401", answers(path, say(401, "application/json", `{"error":"invalid_token","error_description":"opaque-access-token is revoked"}`)), `error "invalid_token"`},
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
		{"above the limit when it is decompressed", answers(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, strings.Repeat(" ", 8<<20)+body)
			z.Close()
		}), "longer than 1048576 bytes"},
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
