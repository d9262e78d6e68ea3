package provider

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"authgate/gateway/clocktest"
)

// What an ID token may say of itself, and what refuses the login.
func TestIDTokenClaims(t *testing.T) {
	at := func(d time.Duration) int64 { return clocktest.New().Now().Add(d).Unix() }
	null := (*int)(nil)
	var logins []loginTest
	for _, test := range []struct {
		name   string
		claims object
		text   string // of the error; empty: good
	}{
		{"good", object{}, ""},
		{"aud in an array", object{"aud": []string{testClient}}, ""},
		{"azp of ours", object{"azp": testClient}, ""},
		{"several aud with azp", object{"aud": []string{"other", testClient}, "azp": testClient}, ""},
		{"at_hash", object{"at_hash": atHash("opaque-access-token")}, ""},
		{"a clock ahead", object{"iat": at(time.Minute), "nbf": at(time.Minute)}, ""},

		{"wrong nonce", object{"nonce": "another"}, "nonce"},
		{"no nonce", object{"nonce": nil}, "nonce"},
		{"nonce in capitals", object{"nonce": nil, "NONCE": testAttempt.Nonce}, "almost nonce"},
		{"wrong iss", object{"iss": "https://evil.example"}, "different provider"},
		{"no iss", object{"iss": nil}, "different provider"},
		{"wrong aud", object{"aud": "other"}, "audience"},
		{"no aud", object{"aud": nil}, "audience"},
		{"wrong azp", object{"azp": "other"}, "azp"},
		{"azp that is null", object{"azp": null}, "azp"},
		{"several aud without azp", object{"aud": []string{testClient, "other"}}, "has no azp"},
		{"expiring now", object{"exp": at(0)}, "expired"},
		{"no exp", object{"exp": nil}, "expired"},
		{"exp in words", object{"exp": "never"}, "unmarshal"},
		{"exp as a string", object{"exp": "4000000000"}, "exp is not a time"},
		{"exp beyond time", object{"exp": 1e17}, "exp is not a time"},
		{"no iat", object{"iat": nil}, "iat is missing"},
		{"iat in the future", object{"iat": at(61 * time.Second)}, "iat is in the future"},
		{"nbf in the future", object{"nbf": at(61 * time.Second)}, "nbf is in the future"},
		{"no sub", object{"sub": nil}, "sub is missing"},
		{"empty sub", object{"sub": ""}, "sub is not 1 to 255 bytes"},
		{"long sub", object{"sub": strings.Repeat("x", 256)}, "sub is not 1 to 255 bytes"},
		{"sub with a line break", object{"sub": "alice\nsub"}, "control characters"},
		{"sub in two cases", object{"Sub": "bob-sub"}, "almost sub"},
		{"sid that is a number", object{"sid": 1}, "sid is a number"},
		{"at_hash of another token", object{"at_hash": atHash("another")}, "access token hash"},
		{"empty at_hash", object{"at_hash": ""}, "access token hash"},
	} {
		logins = append(logins, loginTest{test.name, func(f *fake) { f.id = test.claims }, test.text})
	}
	testLogins(t, "/userinfo", logins)
}

// Headers, signatures and forms of an ID token.
func TestIDTokenForms(t *testing.T) {
	rsa := newRSAKey(2048)
	type makeToken = func(f *fake, claims object) any
	header := func(name jose.HeaderKey, value any) makeToken {
		return func(f *fake, claims object) any { return f.key.sign(claims, joseHeader{name: value}) }
	}
	bare := func(header string) makeToken {
		return func(_ *fake, claims object) any { return unsigned(claims, header) }
	}
	spelled := func(respell func(token string) string) makeToken {
		return func(f *fake, claims object) any { return respell(f.key.sign(claims, nil)) }
	}
	fixed := func(token any) makeToken { return func(*fake, object) any { return token } }
	payload := func(raw string) makeToken { return func(f *fake, _ object) any { return f.key.sign(raw, nil) } }
	logins := []loginTest{{"only symmetric algorithms are announced", announced("id_token_signing_alg_values_supported", []string{"HS256", "none"}), "expected one of []"}}
	for _, test := range []struct {
		name string
		make makeToken
		text string // of the error; empty: good
	}{
		{"typ in small letters", header("typ", "jwt"), ""},
		{"no typ", header("typ", nil), ""},
		{"a thumbprint", header("x5t", "AAAAAAAAAAAAAAAAAAAAAAAAAAA"), ""}, // Microsoft

		{"missing kid", header("kid", nil), "no kid"},
		{"empty kid", header("kid", ""), "no kid"},
		{"unknown kid", header("kid", "another"), `no key with the kid "another"`},
		{"typ of an access token", header("typ", "at+jwt"), `typ is "at+jwt"`},
		{"typ of a logout token", header("typ", "logout+jwt"), `typ is "logout+jwt"`},
		{"typ that is a number", header("typ", 1), "typ"},
		{"crit", header("crit", []string{"exp"}), "the header has crit"},
		{"b64", header("b64", true), "the header has b64"},
		{"jku", header("jku", "https://evil.example/keys"), "the header has jku"},
		{"x5u", header("x5u", "https://evil.example/cert"), "the header has x5u"},
		{"x5c", header("x5c", []string{"x"}), "the header has x5c"},
		{"jwk", header("jwk", newECKey("first").public()), "the header has jwk"},
		{"alg none", bare(algNone), `signed with "none"`},
		{"alg None", bare(`{"alg":"None","kid":"first"}`), `signed with "None"`},
		{"no alg", bare(`{"kid":"first"}`), `signed with ""`},
		{"a header that appears twice", bare(`{"alg":"none","alg":"RS256","kid":"first"}`), `"alg" appears twice`},
		{"HS256 with the public key as the secret", func(_ *fake, claims object) any { return hs256(claims, rsa) }, `signed with "HS256"`},
		{"of another's key", func(_ *fake, claims object) any { return newRSAKey(2048).sign(claims, nil) }, "verify"},
		{"an algorithm that is not announced", func(_ *fake, claims object) any { return testKey{"first", jose.PS256, rsa.private}.sign(claims, nil) }, `signed with "PS256"`},
		{"a claim that appears twice", func(f *fake, claims object) any { return f.key.sign(twice(claims), nil) }, `"sub" appears twice`},
		{"no payload", payload(""), "ID token"},
		{"null", payload("null"), "ID token"},
		{"an array", payload("[]"), "ID token"},
		{"not signed", spelled(func(token string) string { return token[:strings.LastIndexByte(token, '.')+1] }), "verify"},
		{"JSON serialization", spelled(func(token string) string {
			parts := strings.Split(token, ".")
			return `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`
		}), "compact form"},
		{"white space", spelled(func(token string) string { return " " + token }), "compact form"},
		{"a line break", spelled(func(token string) string { return token + "\n" }), "compact form"},
		{"padding", spelled(func(token string) string { return token + "==" }), "compact form"},
		{"four parts", spelled(func(token string) string { return token + ".x" }), "compact form"},
		{"encrypted", fixed("a.b.c.d.e"), "compact form"},
		{"empty", fixed(""), "no id_token"},
		{"a number", fixed(1), "no id_token"},
	} {
		logins = append(logins, loginTest{test.name, func(f *fake) {
			f.key, f.keys = rsa, []jose.JSONWebKey{rsa.public()}
			f.idToken = func(claims object) any { return test.make(f, claims) }
		}, test.text})
	}
	testLogins(t, "/userinfo", logins)
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
	f := makeFake(t)
	f.transport = f
	p := f.provider(nil)
	return f, func(raw string) error {
		m := must(p.metadata(context.Background()))
		_, _, err := p.verify(context.Background(), m, raw, plainTypes, &oidc.Config{ClientID: testClient, SupportedSigningAlgs: m.algorithms()})
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
		// The last character of a signature has bits that lax decoders ignore.
		for _, at := range []int{0, 1, len(token) / 2, strings.LastIndexByte(token, '.'), len(token) - 2, len(token) - 1} {
			for _, by := range []byte{1, 2, 3, 0x20, 0x80} {
				f.Add(which, at, by)
			}
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

// In each of the last places every other character is tried, because a fuzzer may
// miss one.
func TestNoOtherSpellingVerifies(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n"
	idp, verify := verifier(t)
	token := idp.key.sign(idp.claims(nil), nil)
	for at := len(token) - 8; at < len(token); at++ {
		for _, c := range alphabet {
			changed := token[:at] + string(c) + token[at+1:]
			if err := verify(changed); (err == nil) != (changed == token) {
				t.Errorf("%q at %d: %v", c, at, err)
			}
		}
	}
}
