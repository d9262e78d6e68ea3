package provider

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"authgate/internal/test/clocktest"
)

// kinds are the tokens that the package verifies: the good claims of each, and what
// verifies it. An ID token comes with a login.
var kinds = []struct {
	name   string
	claims func(f *fake, change object) object
	verify func(ctx context.Context, f *fake, raw string) error
	fault  error
}{
	{"ID token", (*fake).claims, func(ctx context.Context, f *fake, raw string) error {
		f.idToken = func(object) any { return raw }
		_, err := f.provider(nil).Exchange(ctx, "the-code", testAttempt)
		return err
	}, ErrFault},
	{"access token", (*fake).accessClaims, func(ctx context.Context, f *fake, raw string) error {
		_, err := f.trusted(nil).Verify(ctx, raw)
		return err
	}, ErrInvalid},
	{"logout token", (*fake).logoutClaims, func(ctx context.Context, f *fake, raw string) error {
		_, err := f.provider(nil).VerifyLogoutToken(ctx, raw)
		return err
	}, ErrInvalid},
}

// What the claims and the header of a token may say.
func TestTokenClaims(t *testing.T) {
	at := func(d time.Duration) int64 { return clocktest.New().Now().Add(d).Unix() }
	all := func(text string) [3]string { return [3]string{text, text, text} }
	null, good := (*int)(nil), all("")
	const length, control, noTime, otherType = "is not 1 to 255 bytes", "control characters", "exp is not a time", "typ is"
	for _, test := range []struct {
		name   string
		claims object
		header joseHeader
		want   [3]string // of the error for each kind; empty: good
	}{
		{"good", nil, nil, good},
		{"another iss", object{"iss": "https://evil.example"}, nil, all("iss is")},
		{"no iss", object{"iss": nil}, nil, all("iss is")},
		{"another aud", object{"aud": "other"}, nil, all("aud is")},
		{"no aud", object{"aud": nil}, nil, all("aud is neither")},
		{"several aud", object{"aud": []string{testClient, "other-api"}}, nil, [3]string{"has no azp", "", ""}},
		{"several aud with azp", object{"aud": []string{"other-api", testClient}, "azp": testClient}, nil, good},
		{"another azp", object{"azp": "other"}, nil, [3]string{"azp", "", ""}},
		{"azp that is a number", object{"azp": 1}, nil, [3]string{`azp is 1, expected "authgate"`, "", ""}},
		{"azp that is null", object{"azp": null}, nil, good},
		{"empty azp", object{"azp": ""}, nil, good},
		{"several aud with azp that is null", object{"aud": []string{testClient, "other-api", "api"}, "azp": null}, nil,
			[3]string{"has no azp", "", ""}},
		{"expiring now", object{"exp": at(0)}, nil, all("expired")},
		{"no exp", object{"exp": nil}, nil, all("exp is missing")},
		{"exp that is null", object{"exp": null}, nil, all("exp is missing")},
		{"empty exp", object{"exp": ""}, nil, all("exp is missing")},
		{"nbf that is null", object{"nbf": null}, nil, good},
		{"nbf in words", object{"nbf": "soon"}, nil, good},
		{"iat that is null", object{"iat": null}, nil, [3]string{"", "", "iat is missing"}},
		{"iat in words", object{"iat": "now"}, nil, [3]string{"", "", "iat is not a time"}},
		{"exp in words", object{"exp": "never"}, nil, all(noTime)},
		{"exp as a string", object{"exp": "4000000000"}, nil, all(noTime)},
		{"exp beyond time", object{"exp": 1<<40 + 1}, nil, all(noTime)},
		{"a clock ahead", object{"iat": at(time.Minute), "nbf": at(time.Minute)}, nil, good},
		{"iat in the future", object{"iat": at(61 * time.Second)}, nil, all("iat is in the future")},
		{"nbf in the future", object{"nbf": at(61 * time.Second)}, nil, all("nbf")},
		{"no iat", object{"iat": nil}, nil, [3]string{"", "", "iat is missing"}},
		{"no sub", object{"sub": nil}, nil, [3]string{"sub is missing", "sub is missing", ""}},
		{"no sub and no sid", object{"sub": nil, "sid": nil}, nil,
			[3]string{"sub is missing", "sub is missing", "neither sub nor sid"}},
		{"empty sub", object{"sub": ""}, nil, all("sub " + length)},
		{"long sub", object{"sub": strings.Repeat("x", 256)}, nil, all("sub " + length)},
		{"sub with a line break", object{"sub": "alice\nsub"}, nil, all(control)},
		{"sub in two cases", object{"Sub": "bob-sub"}, nil, all("almost sub")},
		{"sub with outer space", object{"sub": "alice-sub "}, nil, [3]string{"outer space", "outer space", ""}},
		{"sub with a format character", object{"sub": "alice\u200b"}, nil, [3]string{"format", "format", ""}},
		{"sid that is a number", object{"sid": 1}, nil, [3]string{"", "", "sid is a number"}},
		{"empty sid", object{"sub": "alice-sub", "sid": ""}, nil, [3]string{"", "", "sid is not"}},
		{"sid that is null", object{"sid": null}, nil, [3]string{"", "", "sid is missing or null"}},
		{"another nonce", object{"nonce": "another"}, nil, [3]string{"nonce", "it has nonce", "nonce"}},
		{"nonce null", object{"nonce": null}, nil, [3]string{"nonce", "", "nonce"}},
		{"nonce in capitals", object{"nonce": nil, "NONCE": testAttempt.Nonce}, nil, all("almost nonce")},
		{"at_hash", object{"at_hash": atHash("opaque-access-token")}, nil, [3]string{"", "it has at_hash", ""}},
		{"at_hash of another token", object{"at_hash": atHash("another")}, nil,
			[3]string{"at_hash is not", "it has at_hash", ""}},
		{"at_hash that is a number", object{"at_hash": 1}, nil, [3]string{"at_hash is not", "it has at_hash", ""}},
		{"empty at_hash", object{"at_hash": ""}, nil, good},
		{"at_hash that is null", object{"at_hash": null}, nil, good},
		{"no event", object{"events": object{}}, nil, [3]string{"", "it has events", "events has no object"}},
		{"events that are null", object{"events": null}, nil, [3]string{"", "", "events has no object"}},
		{"an event that is no object", object{"events": object{logoutEvent: true}}, nil,
			[3]string{"", "it has events", "events has no object"}},
		{"events in capitals", object{"events": nil, "EVENTS": object{logoutEvent: object{}}}, nil,
			[3]string{"", "", "events has no object"}},
		{"no jti", object{"jti": nil}, nil, [3]string{"", "", "jti is missing"}},
		{"a long jti", object{"jti": strings.Repeat("x", 256)}, nil, [3]string{"", "", "jti " + length}},
		{"bound to a key", object{"cnf": object{"jkt": "x"}}, nil, [3]string{"", "bound to a key", ""}},
		{"cnf that is null", object{"cnf": null}, nil, good},
		{"scope that is a number", object{"scope": 1}, nil, good},
		{"sources of claims that make no sense", object{"_claim_names": 5, "_claim_sources": "x"}, nil, good},
		{"as old as a logout token may not be", object{"iat": at(-logoutTokenAge)}, nil, [3]string{"", "", "older than 10m"}},

		{"typ in small letters", nil, joseHeader{"typ": "jwt"}, good},
		{"no typ", nil, joseHeader{"typ": nil}, good},
		{"typ that is a number", nil, joseHeader{"typ": 1}, all("typ")},
		{"typ of an access token", nil, joseHeader{"typ": "AT+jwt"}, [3]string{otherType, "", otherType}},
		{"long typ of an access token", nil, joseHeader{"typ": "application/at+jwt"}, [3]string{otherType, "", otherType}},
		{"typ of a logout token", nil, joseHeader{"typ": "Logout+JWT"}, [3]string{otherType, otherType, ""}},
		{"a thumbprint", nil, joseHeader{"x5t": "AAAAAAAAAAAAAAAAAAAAAAAAAAA"}, good}, // Microsoft
		{"missing kid", nil, joseHeader{"kid": nil}, all("no kid")},
		{"empty kid", nil, joseHeader{"kid": ""}, all("no kid")},
		{"unknown kid", nil, joseHeader{"kid": "another"}, all(`no key with the kid "another"`)},
		{"crit", nil, joseHeader{"crit": []string{"exp"}}, all("the header has crit")},
		{"b64", nil, joseHeader{"b64": true}, all("the header has b64")},
		{"jku", nil, joseHeader{"jku": "https://evil.example/keys"}, good}, // UAA
		{"x5u", nil, joseHeader{"x5u": "https://evil.example/cert"}, good},
		{"x5c", nil, joseHeader{"x5c": []string{"x"}}, good},
		{"x5c that is a number", nil, joseHeader{"x5c": 1, "x5t#S256": 2}, good},
		{"jwk", nil, joseHeader{"jwk": newECKey("first").public()}, all("the header has jwk")},
	} {
		for i, kind := range kinds {
			t.Run(test.name+", "+kind.name, func(t *testing.T) {
				f := newFake(t)
				err := kind.verify(t.Context(), f, f.key.sign(kind.claims(f, test.claims), test.header))
				for path := range f.calls {
					if !slices.Contains(endpoints, path) {
						t.Errorf("%s was called", path)
					}
				}
				if wantError(t, err, kind.fault, test.want[i]); err != nil {
					f.wantCalled(t, "/userinfo", 0)
				}
			})
		}
	}
}

// Signatures and forms of a token.
func TestTokenForms(t *testing.T) {
	type makeToken = func(f *fake, claims object) string
	rsa, compact := newRSAKey(2048), "compact form"
	bare := func(header string) makeToken {
		return func(_ *fake, claims object) string { return unsigned(claims, header) }
	}
	by := func(key testKey) makeToken {
		return func(_ *fake, claims object) string { return key.sign(claims, nil) }
	}
	spelled := func(respell func(token string) string) makeToken {
		return func(f *fake, claims object) string { return respell(f.key.sign(claims, nil)) }
	}
	payload := func(raw string) makeToken { return func(f *fake, _ object) string { return f.key.sign(raw, nil) } }
	for name, test := range map[string]struct {
		make makeToken
		text string // of the error
	}{
		"alg none":                    {bare(algNone), `signed with "none"`},
		"alg None":                    {bare(`{"alg":"None","kid":"first"}`), `signed with "None"`},
		"no alg":                      {bare(`{"kid":"first"}`), `signed with ""`},
		"a header that appears twice": {bare(`{"alg":"none","alg":"RS256","kid":"first"}`), `"alg" appears twice`},
		"HS256 with the public key as the secret": {func(_ *fake, claims object) string {
			return hs256(claims, rsa)
		}, `signed with "HS256"`},
		"of another's key":                   {by(newRSAKey(2048)), "verify"},
		"an algorithm that is not announced": {by(testKey{"first", jose.PS256, rsa.private}), `signed with "PS256"`},
		"a claim that appears twice": {func(f *fake, claims object) string {
			return f.key.sign(twice(claims), nil)
		}, `"sub" appears twice`},
		"null":     {payload("null"), "token"},
		"an array": {payload("[]"), "token"},
		"not signed": {spelled(func(token string) string {
			return token[:strings.LastIndexByte(token, '.')+1]
		}), "verify"},
		"JSON serialization": {spelled(func(token string) string {
			parts := strings.Split(token, ".")
			return `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`
		}), compact},
		"white space":  {spelled(func(token string) string { return " " + token }), compact},
		"a line break": {spelled(func(token string) string { return token + "\n" }), compact},
		"padding":      {spelled(func(token string) string { return token + "==" }), compact},
		"four parts":   {spelled(func(token string) string { return token + ".x" }), compact},
		"encrypted":    {func(*fake, object) string { return "a.b.c.d.e" }, compact},
		"no JWT":       {func(*fake, object) string { return "x" }, compact},
	} {
		for _, kind := range kinds {
			f := newFake(t)
			f.key, f.keys = rsa, []jose.JSONWebKey{rsa.public()}
			err := kind.verify(t.Context(), f, test.make(f, kind.claims(f, nil)))
			if wantError(t, err, kind.fault, test.text); err == nil || f.called("/userinfo") != 0 {
				t.Errorf("%s, %s: %v, or userinfo was called", name, kind.name, err)
			}
		}
	}
	testLogins(t, "/userinfo", []loginTest{
		{"only symmetric algorithms are announced",
			announced("id_token_signing_alg_values_supported", []string{"HS256", "none"}), "expected one of []"},
		{"empty", func(f *fake) { f.answer["id_token"] = "" }, "no id_token"},
		{"a number", func(f *fake) { f.answer["id_token"] = 1 }, "id_token is a number"},
	})
}

// hs256 signs with a public key as if it were a shared secret.
func hs256(claims object, key testKey) string {
	der := must(x509.MarshalPKIXPublicKey(key.private.Public()))
	signed := strings.TrimSuffix(unsigned(claims, `{"alg":"HS256","typ":"JWT","kid":"first"}`), ".")
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verifier returns a fake and what verifies its ID tokens.
func verifier(t testing.TB) (*fake, func(raw string) error) {
	f := newFake(t)
	p := f.provider(nil)
	return f, func(raw string) error {
		m := must(p.metadata(context.Background()))
		_, err := p.verifyIDToken(context.Background(), m, Tokens{ID: raw}, "")
		return err
	}
}

// One byte of a good token is changed, and it never verifies.
func FuzzIDToken(f *testing.F) {
	idp, verify := verifier(f)
	rsa := newRSAKey(2048)
	rsa.kid = "rsa"
	idp.keys = append(idp.keys, rsa.public())
	tokens := []string{idp.key.sign(idp.claims(nil), nil), rsa.sign(idp.claims(nil), nil)}
	for which, token := range tokens {
		if err := verify(token); err != nil {
			f.Fatal(err)
		}
		for _, at := range []int{0, 1, len(token) / 2, strings.LastIndexByte(token, '.'), len(token) - 2} {
			f.Add(which, at, byte(1))
			f.Add(which, at, byte(0x20))
		}
		for by := range byte(128) { // the last character has bits that lax decoders ignore
			f.Add(which, len(token)-1, by)
		}
	}
	f.Fuzz(func(t *testing.T, which, at int, by byte) {
		token := []byte(tokens[uint(which)%uint(len(tokens))])
		changed := bytes.Clone(token)
		changed[uint(at)%uint(len(changed))] ^= by
		if err := verify(string(changed)); (err == nil) != bytes.Equal(changed, token) {
			t.Errorf("byte %d changed by %#x: %v", at, by, err)
		}
	})
}
