package jose

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// part returns a part of a token.
func part(text string) string { return base64url([]byte(text)) }

// A token has one spelling, and its header and claims have one meaning.
func TestParseRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	header, claims, signature := part(`{"alg":"HS256","n":1}`), part(`{"sub":"alice"}`), part("0123456789abcde")
	token := must.Get(Parse(header + "." + claims + "." + signature))(t)
	if said, err := token.Claims(); err != nil || said["sub"] != "alice" || token.Header["n"] != json.Number("1") {
		t.Errorf("got %v, %v, of the header %v", said, err, token.Header)
	}
	for raw, reason := range map[string]string{
		"":                                   "compact form",
		header + "." + claims:                "compact form",
		header + "." + claims + "..":         "compact form",
		header + "." + claims + ".a.b":       "compact form",
		" " + header + "." + claims + ".":    "compact form",
		header + "." + claims + ".\n":        "compact form",
		header + ".\r" + claims + ".":        "compact form",
		header + "." + claims + "." + "AB":   "compact form", // unused bits
		header + "." + claims + "." + "AA==": "compact form",
		header + "." + claims + "." + "+/+/": "compact form",
		"." + claims + ".":                   "the header: EOF",
		part("null") + "." + claims + ".":    "the header: is null",
		part("[]") + "." + claims + ".":      "the header: ",
		part("{}{}") + "." + claims + ".":    "the header: more than one JSON value",
		part(`{"a":1,"a":2}`) + "..":         `the header: member "a" appears twice`,
		part(`{"x":{"a":1,"a":2}}`) + "..":   `the header: member "a" appears twice`,
	} {
		if _, err := Parse(raw); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want %q", raw, err, reason)
		}
	}
	for raw, reason := range map[string]string{
		"": "EOF", "null": "is null", "[]": "cannot unmarshal", `{"sub":"a"} x`: "more than one",
		`{"sub":"a","s\u0075b":"b"}`: `"sub" appears twice`,
	} {
		token := must.Get(Parse(header + "." + part(raw) + "."))(t)
		if _, err := token.Claims(); err == nil || !strings.Contains(err.Error(), "the claims: ") ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", raw, err, reason)
		}
	}
}

// No algorithm without a key verifies anything, and neither does an unknown one.
func TestVerify(t *testing.T) {
	t.Parallel()
	keys := testKeys(t, "HS256")
	token := must.Get(Parse(must.Get(keys.Sign(map[string]any{"sub": "alice"}))(t)))(t)
	must.Do(t, token.Verify("HS256", testSecret))
	for _, algorithm := range []string{"", "none", "HS384", "RS256", "hs256"} {
		if err := token.Verify(algorithm, testSecret); err == nil {
			t.Errorf("%q verifies", algorithm)
		}
	}
	if err := token.Verify("HS256", []byte("another secret of the same length")); err == nil {
		t.Error("another secret verifies")
	}
}

// What a token says about its origin can be read although another reader would have to
// ignore a mistake in it. Names are exact.
func TestPeek(t *testing.T) {
	t.Parallel()
	loose := base64.RawURLEncoding.EncodeToString([]byte(`{"kid":"K","iss":"I"}`))
	for token, want := range map[string][2]any{
		loose + "." + loose + ".":                              {"K", "I"},
		loose + "." + loose + ".x":                             {"K", "I"},
		loose + "\n." + loose + "\n.":                          {"K", "I"},
		part(`{"kid":"a","kid":"K"}`) + "." + part("{}") + ".": {"K", nil},
		part(`{"KID":"K"}`) + "." + part(`{"ISS":"I"}`) + ".":  {nil, nil},
		part(`{"kid":7}`) + "." + part(`["iss"]`) + ".":        {7.0, nil},
		loose: {"K", nil}, "": {nil, nil}, "..": {nil, nil}, "%.%.%": {nil, nil},
	} {
		if kid, iss := KeyID(token), IssuerOf(token); kid != want[0] || iss != want[1] {
			t.Errorf("%q: %v and %v, want %v", token, kid, iss, want)
		}
	}
}

// A reader without an issuer or an audience accepts nothing, and tells whose signature a
// token has, with any claims.
func TestReader(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for _, algorithm := range []string{"HS256", "RS256"} {
		keys := testKeys(t, algorithm)
		reader := NewReader(keys, ReaderOptions{Issuer: "I", Audience: []string{"A"}, Now: func() time.Time { return now }})
		token := must.Get(keys.Sign(map[string]any{"iss": "I", "aud": "A", "exp": now.Unix() + 1}))(t)
		if claims, expires, err := reader.Read(token); err != nil || claims["iss"] != "I" ||
			!expires.Equal(now.Add(time.Second)) {
			t.Errorf("%s: %v until %v, %v", algorithm, claims, expires, err)
		}
		elsewhere := must.Get(keys.Sign(map[string]any{"iss": "other"}))(t)
		if _, _, err := reader.Read(elsewhere); err == nil || !reader.Signed(elsewhere) {
			t.Errorf("%s: a token for another issuer: %v, signed: %t", algorithm, err, reader.Signed(elsewhere))
		}
		for _, o := range []ReaderOptions{{Audience: []string{"A"}}, {Issuer: "I"}, {}} {
			o.Now = func() time.Time { return now }
			if _, _, err := NewReader(keys, o).Read(token); err == nil ||
				!strings.Contains(err.Error(), "no issuer or audience") {
				t.Errorf("%s: %+v: %v", algorithm, o, err)
			}
		}
		if forged := token[:strings.LastIndexByte(token, '.')+1] + base64url(sha256.New().Sum(nil)); reader.Signed(forged) {
			t.Errorf("%s: another signature counts", algorithm)
		}
	}
}

// A token of one type is none of another, and all of a type begin alike.
func TestTypes(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	for _, algorithm := range []string{"HS256", "RS256"} {
		keys := testKeys(t, algorithm)
		o := ReaderOptions{Issuer: "I", AnyAudience: true, Now: now}
		readers := map[string]*Reader{"JWT": NewReader(keys, o)}
		o.Type = "at+jwt"
		readers["at+jwt"] = NewReader(keys, o)
		for _, typ := range []string{"JWT", "at+jwt", "AT+JWT", "logout+jwt", ""} {
			token := must.Get(keys.SignType(typ, map[string]any{"iss": "I", "exp": now().Unix() + 1}))(t)
			if !strings.HasPrefix(token, keys.Header(typ)+".") {
				t.Errorf("%s: %s does not begin with %s", algorithm, token, keys.Header(typ))
			}
			for want, reader := range readers {
				if _, _, err := reader.Read(token); (err == nil) != (typ == want) {
					t.Errorf("%s: a token of the type %q is one of the type %s: %v", algorithm, typ, want, err)
				}
			}
		}
		o.Issuer = ""
		token := must.Get(keys.SignType("at+jwt", map[string]any{"exp": now().Unix() + 1}))(t)
		if _, _, err := NewReader(keys, o).Read(token); err == nil {
			t.Errorf("%s: a token is read without an issuer", algorithm)
		}
	}
}

// What Parse accepts is spelled in one way, and its parts are objects without doubles.
func FuzzTokenForm(f *testing.F) {
	f.Add(part(`{"alg":"HS256"}`) + "." + part(`{"sub":"alice"}`) + "." + part("signature"))
	f.Add(part(`{"a":1,"a":2}`) + "." + part(`{"a":1,"a":2}`) + ".")
	f.Add("AB.AB.AB")
	f.Add("..")
	f.Fuzz(func(t *testing.T, raw string) {
		token, err := Parse(raw)
		if err != nil {
			return
		}
		again := strings.Split(raw, ".")[0] + "." + base64url(token.payload) + "." + base64url(token.signature)
		if again != raw {
			t.Errorf("%q is spelled %q too", raw, again)
		}
		claims, err := token.Claims()
		if err != nil {
			return
		}
		if iss := IssuerOf(raw); iss != nil && claims["iss"] == nil {
			t.Errorf("%q names the issuer %v, and no reader sees it", raw, iss)
		}
	})
}
