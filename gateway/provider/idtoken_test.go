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
	clock := clocktest.New()
	at := func(d time.Duration) int64 { return clock.Now().Add(d).Unix() }
	tests := []struct {
		name   string
		claims map[string]any
		header map[jose.HeaderKey]any
		text   string // of the error; empty: good
	}{
		{name: "good"},
		{name: "aud in an array", claims: map[string]any{"aud": []string{testClient}}},
		{name: "azp of ours", claims: map[string]any{"azp": testClient}},
		{name: "several aud with azp", claims: map[string]any{"aud": []string{"other", testClient}, "azp": testClient}},
		{name: "at_hash", claims: map[string]any{"at_hash": atHash("opaque-access-token")}},
		{name: "a clock ahead", claims: map[string]any{"iat": at(time.Minute), "nbf": at(time.Minute)}},
		{name: "typ in small letters", header: map[jose.HeaderKey]any{"typ": "jwt"}},
		{name: "no typ", header: map[jose.HeaderKey]any{"typ": nil}},
		{name: "a thumbprint", header: map[jose.HeaderKey]any{"x5t": "AAAAAAAAAAAAAAAAAAAAAAAAAAA"}}, // Microsoft

		{name: "wrong nonce", claims: map[string]any{"nonce": "another"}, text: "nonce"},
		{name: "no nonce", claims: map[string]any{"nonce": nil}, text: "nonce"},
		{name: "nonce in capitals", claims: map[string]any{"nonce": nil, "NONCE": testAttempt.Nonce}, text: "almost nonce"},
		{name: "wrong iss", claims: map[string]any{"iss": "https://evil.example"}, text: "different provider"},
		{name: "no iss", claims: map[string]any{"iss": nil}, text: "different provider"},
		{name: "wrong aud", claims: map[string]any{"aud": "other"}, text: "audience"},
		{name: "no aud", claims: map[string]any{"aud": nil}, text: "audience"},
		{name: "empty aud", claims: map[string]any{"aud": []string{}}, text: "audience"},
		{name: "wrong azp", claims: map[string]any{"azp": "other"}, text: "azp"},
		{name: "azp that is null", claims: map[string]any{"azp": (*int)(nil)}, text: "azp"},
		{name: "several aud without azp", claims: map[string]any{"aud": []string{testClient, "other"}}, text: "has no azp"},
		{name: "expired", claims: map[string]any{"exp": at(-time.Second)}, text: "expired"},
		{name: "expiring now", claims: map[string]any{"exp": at(0)}, text: "expired"},
		{name: "no exp", claims: map[string]any{"exp": nil}, text: "expired"},
		{name: "exp in words", claims: map[string]any{"exp": "never"}, text: "unmarshal"},
		{name: "exp as a string", claims: map[string]any{"exp": "4000000000"}, text: "exp is not a time"},
		{name: "exp beyond time", claims: map[string]any{"exp": 1e17}, text: "exp is not a time"},
		{name: "no iat", claims: map[string]any{"iat": nil}, text: "iat is missing"},
		{name: "iat in the future", claims: map[string]any{"iat": at(61 * time.Second)}, text: "iat is in the future"},
		{name: "nbf in the future", claims: map[string]any{"nbf": at(61 * time.Second)}, text: "nbf is in the future"},
		{name: "no sub", claims: map[string]any{"sub": nil}, text: "sub is missing"},
		{name: "empty sub", claims: map[string]any{"sub": ""}, text: "sub is not 1 to 255 bytes"},
		{name: "long sub", claims: map[string]any{"sub": strings.Repeat("x", 256)}, text: "sub is not 1 to 255 bytes"},
		{name: "sub with a line break", claims: map[string]any{"sub": "alice\nsub"}, text: "control characters"},
		{name: "sub that is a number", claims: map[string]any{"sub": 1}, text: "unmarshal"},
		{name: "sub in two cases", claims: map[string]any{"Sub": "bob-sub"}, text: "almost sub"},
		{name: "sid that is a number", claims: map[string]any{"sid": 1}, text: "sid is a number"},
		{name: "at_hash of another token", claims: map[string]any{"at_hash": atHash("another")}, text: "access token hash"},
		{name: "empty at_hash", claims: map[string]any{"at_hash": ""}, text: "access token hash"},

		{name: "missing kid", header: map[jose.HeaderKey]any{"kid": nil}, text: "no kid"},
		{name: "empty kid", header: map[jose.HeaderKey]any{"kid": ""}, text: "no kid"},
		{name: "unknown kid", header: map[jose.HeaderKey]any{"kid": "another"}, text: `no key with the kid "another"`},
		{name: "typ of an access token", header: map[jose.HeaderKey]any{"typ": "at+jwt"}, text: `typ is "at+jwt"`},
		{name: "typ of a logout token", header: map[jose.HeaderKey]any{"typ": "logout+jwt"}, text: `typ is "logout+jwt"`},
		{name: "typ that is a number", header: map[jose.HeaderKey]any{"typ": 1}, text: "typ"},
		{name: "crit", header: map[jose.HeaderKey]any{"crit": []string{"exp"}}, text: "the header has crit"},
		{name: "b64", header: map[jose.HeaderKey]any{"b64": true}, text: "the header has b64"},
		{name: "jku", header: map[jose.HeaderKey]any{"jku": "https://evil.example/keys"}, text: "the header has jku"},
		{name: "x5u", header: map[jose.HeaderKey]any{"x5u": "https://evil.example/cert"}, text: "the header has x5u"},
		{name: "x5c", header: map[jose.HeaderKey]any{"x5c": []string{"x"}}, text: "the header has x5c"},
		{name: "jwk", header: map[jose.HeaderKey]any{"jwk": newECKey(t, "first").public()}, text: "the header has jwk"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clock.Now).listen()
			f.id, f.header = test.claims, test.header
			_, err := exchange(t, f.provider(nil))
			wantResult(t, err, ErrFault, test.text)
			if test.text != "" && f.called("/userinfo") != 0 {
				t.Error("userinfo was asked with the token beside a bad ID token")
			}
		})
	}
}

// Tokens that are not signed as they should be, and other forms.
func TestIDTokenForms(t *testing.T) {
	rsa := newRSAKey(t, "first", 2048)
	tests := []struct {
		name string
		make func(f *fake, claims map[string]any) any
		text string
	}{
		{"alg none", func(_ *fake, claims map[string]any) any { return unsigned(claims, `{"alg":"none","kid":"first"}`) }, `signed with "none"`},
		{"alg None", func(_ *fake, claims map[string]any) any { return unsigned(claims, `{"alg":"None","kid":"first"}`) }, `signed with "None"`},
		{"no alg", func(_ *fake, claims map[string]any) any { return unsigned(claims, `{"kid":"first"}`) }, `signed with ""`},
		{"HS256 with the public key as the secret", func(_ *fake, claims map[string]any) any { return hs256(t, claims, rsa) }, `signed with "HS256"`},
		{"of another's key", func(_ *fake, claims map[string]any) any { return newRSAKey(t, "first", 2048).sign(t, claims, nil) }, "verify"},
		{"an algorithm that is not announced", func(_ *fake, claims map[string]any) any {
			return testKey{kid: "first", algorithm: jose.PS256, private: rsa.private}.sign(t, claims, nil)
		}, `signed with "PS256"`},
		{"not signed", func(f *fake, claims map[string]any) any {
			token := f.key.sign(t, claims, nil)
			return token[:strings.LastIndexByte(token, '.')+1]
		}, "verify"},
		{"no payload", func(f *fake, _ map[string]any) any { return f.key.sign(t, "", nil) }, "ID token"},
		{"null", func(f *fake, _ map[string]any) any { return f.key.sign(t, "null", nil) }, "ID token"},
		{"an array", func(f *fake, _ map[string]any) any { return f.key.sign(t, "[]", nil) }, "ID token"},
		{"a claim that appears twice", func(f *fake, claims map[string]any) any {
			return f.key.sign(t, strings.Replace(marshal(t, claims), `"sub":"alice-sub"`, `"sub":"bob-sub","sub":"alice-sub"`, 1), nil)
		}, `"sub" appears twice`},
		{"a header that appears twice", func(_ *fake, claims map[string]any) any {
			return unsigned(claims, `{"alg":"none","alg":"RS256","kid":"first"}`)
		}, `"alg" appears twice`},
		{"JSON serialization", func(f *fake, claims map[string]any) any {
			parts := strings.Split(f.key.sign(t, claims, nil), ".")
			return `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`
		}, "compact form"},
		{"white space", func(f *fake, claims map[string]any) any { return " " + f.key.sign(t, claims, nil) }, "compact form"},
		{"a line break", func(f *fake, claims map[string]any) any { return f.key.sign(t, claims, nil) + "\n" }, "compact form"},
		{"padding", func(f *fake, claims map[string]any) any { return f.key.sign(t, claims, nil) + "==" }, "compact form"},
		{"four parts", func(f *fake, claims map[string]any) any { return f.key.sign(t, claims, nil) + ".x" }, "compact form"},
		{"encrypted", func(*fake, map[string]any) any { return "a.b.c.d.e" }, "compact form"},
		{"empty", func(*fake, map[string]any) any { return "" }, "no id_token"},
		{"a number", func(*fake, map[string]any) any { return 1 }, "no id_token"},
	}
	logins := []loginTest{{"only symmetric algorithms are announced", func(f *fake) {
		f.discovery["id_token_signing_alg_values_supported"] = []string{"HS256", "none"}
	}, "expected one of []"}}
	for _, test := range tests {
		logins = append(logins, loginTest{test.name, func(f *fake) {
			f.key = rsa
			f.keys = []jose.JSONWebKey{rsa.public()}
			f.idToken = func(claims map[string]any) any { return test.make(f, claims) }
		}, test.text})
	}
	testLogins(t, logins)
}

// hs256 signs with a public key as if it were a shared secret.
func hs256(t testing.TB, claims map[string]any, key testKey) string {
	der, err := x509.MarshalPKIXPublicKey(key.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	signed := strings.TrimSuffix(unsigned(claims, `{"alg":"HS256","typ":"JWT","kid":"first"}`), ".")
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verifier returns a fake and what verifies its ID tokens.
func verifier(t testing.TB) (*fake, func(raw string) error) {
	f := newFake(t, clocktest.New().Now)
	p := f.provider(func(o *Options) { o.Transport = f })
	return f, func(raw string) error {
		m, err := p.metadata(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = p.verify(context.Background(), m, raw, plainTypes, &oidc.Config{ClientID: testClient, SupportedSigningAlgs: m.algorithms()})
		return err
	}
}

// One byte of a good token is changed, and it never verifies.
func FuzzIDToken(f *testing.F) {
	idp, verify := verifier(f)
	rsa := newRSAKey(f, "rsa", 2048)
	idp.keys = append(idp.keys, rsa.public())
	tokens := []string{idp.key.sign(f, idp.claims(nil), nil), rsa.sign(f, idp.claims(nil), nil)}
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

// In each place, every other character is tried, because a fuzzer may miss
// one.
func TestNoOtherSpellingVerifies(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n"
	idp, verify := verifier(t)
	token := idp.key.sign(t, idp.claims(nil), nil)
	for at := len(token) - 8; at < len(token); at++ {
		for _, c := range alphabet {
			changed := token[:at] + string(c) + token[at+1:]
			if err := verify(changed); (err == nil) != (changed == token) {
				t.Errorf("%q at %d: %v", c, at, err)
			}
		}
	}
}
