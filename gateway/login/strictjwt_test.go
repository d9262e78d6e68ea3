package login

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"authgate/gateway/identity/auth"
	"authgate/internal/test/must"
)

// forger makes tokens by hand. By default they are valid and signed with the gateway's key.
type forger struct {
	header, claims map[string]any
	sign           func(input string) []byte
}

func signHS256(secret []byte) func(string) []byte {
	return func(input string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return mac.Sum(nil)
	}
}

func signRS256(tb testing.TB, key *rsa.PrivateKey) func(string) []byte {
	return func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		return must.Get(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))(tb)
	}
}

// forge returns a forger of tokens of the login.
func (r *rig) forge(tb testing.TB, s *signedIn) *forger {
	tb.Helper()
	now := r.now().Unix()
	f := &forger{
		header: map[string]any{"alg": r.keys.Algorithm(), "typ": "JWT", "kid": r.keys.ID()},
		claims: map[string]any{
			"iss": testIssuer, "sub": s.login.Username, "aud": "authgate", "iat": now, "nbf": now, "exp": now + 900,
			"jti": "a-token", "sid": s.login.ID, "roles": []string{"user"},
		},
	}
	if r.keys.Algorithm() == "HS256" {
		f.sign = signHS256(testSecret)
	} else {
		f.sign = signRS256(tb, must.Get(testRSA())(tb))
	}
	return f
}

// with returns f with changed claims, and changed members of the header, whose names begin
// with "header ". nil removes a member, and json.RawMessage is written as it is.
func (f *forger) with(changes map[string]any) *forger {
	next := &forger{header: maps.Clone(f.header), claims: maps.Clone(f.claims), sign: f.sign}
	for name, value := range changes {
		in := next.claims
		if member, ok := strings.CutPrefix(name, "header "); ok {
			in, name = next.header, member
		}
		if in[name] = value; value == nil {
			delete(in, name)
		}
	}
	return next
}

// by returns f with another signature.
func (f *forger) by(sign func(string) []byte) *forger {
	return &forger{header: f.header, claims: f.claims, sign: sign}
}

func (f *forger) token() string {
	header, errHeader := json.Marshal(f.header)
	claims, errClaims := json.Marshal(f.claims)
	if err := errors.Join(errHeader, errClaims); err != nil {
		panic(err)
	}
	return f.raw(string(header), string(claims))
}

// raw signs a header and claims that may be invalid JSON.
func (f *forger) raw(header, claims string) string {
	return f.signed(encode(header) + "." + encode(claims))
}

func (f *forger) signed(input string) string { return input + "." + base64url(f.sign(input)) }

func encode(s string) string { return base64url([]byte(s)) }

// unsigned returns the token with another signature.
func unsigned(token, signature string) string {
	return token[:strings.LastIndexByte(token, '.')+1] + signature
}

// loosen changes a bit of the last character that decodes to nothing.
func loosen(tb testing.TB, s string) string {
	tb.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, s[len(s)-1])
	loose := s[:len(s)-1] + alphabet[last^1:last^1+1]
	if decoded(tb, s) != decoded(tb, loose) {
		tb.Fatalf("%s has no loose bits", s)
	}
	return loose
}

// hostile is a token that must be rejected, with a part of the reason.
type hostile struct{ name, token, reason string }

// wantRefused fails the test unless all tokens are rejected for their reasons, as a bearer
// token and as a cookie. The tokens of f itself must be accepted before and after.
func (r *rig) wantRefused(t *testing.T, f *forger, tokens []hostile) {
	t.Helper()
	control := func() {
		t.Helper()
		if id, err := r.byToken(t, f.token()); err != nil || id.Username != "alice" {
			t.Fatalf("the control is refused: %+v, %v", id, err)
		}
	}
	control()
	for _, each := range tokens {
		t.Run(each.name, func(t *testing.T) {
			for _, creds := range []*auth.Credentials{{Scheme: "bearer", Value: each.token}, {Access: each.token}} {
				id, err := r.bearer.Authenticate(t.Context(), creds)
				if each.token == "" && creds.Scheme == "" {
					continue // no cookie
				}
				wantRejected(t, auth.DetailBadToken, each.reason)(id, err)
				var rejection *auth.Rejection
				if errors.As(err, &rejection) && (rejection.Cookie == auth.AccessCookie) != (creds.Access != "") {
					t.Errorf("%+v: the rejection names the cookie role %d", creds, rejection.Cookie)
				}
			}
		})
	}
	control()
}

// No header selects another algorithm or another key, and no form of the public key works as
// an HMAC secret.
func TestAccessTokenFixesAlgorithmAndKey(t *testing.T) {
	t.Parallel()
	attacker := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	const attackersSecret = "a secret of the attacker's choice"
	bothAlgorithms(t, func(t *testing.T, r *rig) {
		good := r.forge(t, r.signIn(t, "alice"))
		alg := r.keys.Algorithm()
		other := map[string]string{"HS256": "RS256", "RS256": "HS256"}[alg]
		tokens := []hostile{{"no signature", unsigned(good.token(), ""), "signature is invalid"}}
		add := func(f *forger, reason, member string, values ...any) {
			for _, value := range values {
				tokens = append(tokens, hostile{fmt.Sprintf("%s %v", member, value),
					f.with(map[string]any{"header " + member: value}).token(), reason})
			}
		}
		for _, none := range []string{"none", "nOnE"} {
			tokens = append(tokens, hostile{none + " unsigned",
				unsigned(good.with(map[string]any{"header alg": none}).token(), ""), "signing method "})
		}
		add(good, "signing method "+other+" is invalid", "alg", other)
		add(good, "signing method ", "alg", "none", "HS384", "RS512", "PS256", "ES256", "EdDSA", strings.ToLower(alg),
			alg+" ", "", nil, 7, []string{"HS256"})
		add(good, "kid names another key", "kid", "other", "", "../../../../dev/null", 7, []string{r.keys.ID()},
			json.RawMessage("null"))
		add(good, "typ is not JWT", "typ", "JOSE", "at+jwt", "JWE", "", 7, json.RawMessage("null"))
		add(good.with(map[string]any{"header b64": false, "header x": 1}), "crit names an unknown extension",
			"crit", []string{"exp"}, []string{"b64"}, []string{}, "exp", json.RawMessage("null"))

		forged := good.by(signRS256(t, attacker))
		if alg == "HS256" {
			forged = good.by(signHS256([]byte(attackersSecret)))
		}
		jwk := map[string]any{"kty": "RSA", "n": base64url(attacker.N.Bytes()), "e": "AQAB", "kid": r.keys.ID(),
			"alg": "RS256", "use": "sig"}
		add(forged, "signature is invalid", "kid", r.keys.ID(), nil)
		add(forged, "signature is invalid", "jwk", jwk, map[string]any{"kty": "oct", "k": encode(attackersSecret)})
		add(forged, "signature is invalid", "jku", "https://attacker.example/jwks.json")
		add(forged, "signature is invalid", "x5u", "https://attacker.example/chain.pem")
		add(forged, "signature is invalid", "x5c", []string{encode("certificate")})

		key := must.Get(testRSA())(t)
		spki := must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t)
		for name, secret := range map[string][]byte{
			"SPKI, DER": spki, "SPKI, PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}),
			"JWKS": must.Get(r.keys.JWKS())(t),
			"PKCS 1, PEM": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY",
				Bytes: x509.MarshalPKCS1PublicKey(&key.PublicKey)}),
			"modulus": key.N.Bytes(), "nothing": {},
		} {
			forged := good.by(signHS256(secret))
			tokens = append(tokens, hostile{name, forged.token(), "signature is invalid"})
			if alg == "RS256" {
				tokens = append(tokens, hostile{name + ", HS256", forged.with(map[string]any{"header alg": "HS256"}).token(),
					"signing method HS256 is invalid"})
			}
		}
		r.wantRefused(t, good, tokens)
	})
}

// A token has one spelling and one meaning.
func TestAccessTokenRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, r *rig) {
		good := r.forge(t, r.signIn(t, "alice"))
		token := good.token()
		part := strings.Split(token, ".")
		header, claims := decoded(t, part[0]), decoded(t, part[1])
		inHeader, inClaims := strings.TrimPrefix(header, "{"), strings.TrimPrefix(claims, "{")
		// Spaces until base64 has loose bits.
		loose := func(text string) string { return loosen(t, encode(text+strings.Repeat(" ", 2-len(text)%3))) }
		r.wantRefused(t, good, []hostile{
			{"alg twice", good.raw(`{"alg":"none",`+inHeader, claims), `header: member "alg" appears twice`},
			{"sub twice", good.raw(header, `{"sub":"bob",`+inClaims), `the claims: member "sub" appears twice`},
			{"sub twice, escaped", good.raw(header, `{"s\u0075b":"bob",`+inClaims), `the claims: member "sub" appears twice`},
			{"twice further in", good.raw(header, `{"x":[{"a":1,"a":2}],`+inClaims), `the claims: member "a" appears twice`},
			{"two payloads", good.raw(header, claims+claims), "more than one JSON value"},
			{"garbage after the header", good.raw(header+"x", claims), "the header: more than one"},
			{"payload is a list", good.raw(header, "["+claims+"]"), "the claims: "},
			{"payload is null", good.raw(header, "null"), "the claims: is null"},
			{"payload is empty", good.raw(header, ""), "the claims: EOF"},
			{"header is null", good.raw("null", claims), "the header: is null"},
			{"header is empty", good.raw("", claims), "the header: EOF"},

			{"loose bits in the signature", unsigned(token, loosen(t, part[2])), "compact form"},
			{"loose bits in the header", good.signed(loose(header) + "." + part[1]), "compact form"},
			{"loose bits in the payload", good.signed(part[0] + "." + loose(claims)), "compact form"},
			{"padding", token + "=", "compact form"},
			{"padding in the payload", good.signed(part[0] + "." + part[1] + "="), "compact form"},
			{"standard base64", good.signed(part[0] + "." +
				base64.RawStdEncoding.EncodeToString([]byte(`{"x":"???>>>~~~",`+inClaims))), "compact form"},
			{"line break in the signature", token[:len(token)-5] + "\n" + token[len(token)-5:], "compact form"},
			{"line break behind", token + "\r\n", "compact form"},
			{"line break in the payload", good.signed(part[0] + "." + part[1][:8] + "\n" + part[1][8:]), "compact form"},
			{"space in front", " " + token, "compact form"},

			{"empty", "", "compact form"},
			{"two parts", part[0] + "." + part[1], "compact form"},
			{"four parts", token + ".", "compact form"},
			{"JSON serialisation with dots", fmt.Sprintf(`{"payload":".%s","protected":"%s.","signature":%q}`, part[1], part[0],
				part[2]), "compact form"},
			{"overlong", good.with(map[string]any{"x": strings.Repeat("x", 8<<10)}).token(), "longer than 8192 bytes"},
		})
	})
}

// One changed byte of an access token never verifies.
func FuzzAccessTokenChangedByte(f *testing.F)      { fuzzChangedByte(f, "HS256") }
func FuzzAccessTokenChangedByteRS256(f *testing.F) { fuzzChangedByte(f, "RS256") }

// fuzzChangedByte changes one byte of a token. It must not be accepted.
func fuzzChangedByte(f *testing.F, algorithm string) {
	r := newRig(f, func(r *rig) { r.keys = testKeys(f, algorithm) })
	s := r.signIn(f, "alice")
	for _, at := range []uint16{0, 10, 36, 37, 100, 300, 400, uint16(len(s.access) - 2), uint16(len(s.access) - 1)} {
		for _, with := range []byte{'A', 'g', '.', '=', '\r', '\n', '-', '_', 0, 0xff} {
			f.Add(at, with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(s.access)
		changed[int(at)%len(changed)] = with
		if string(changed) == s.access {
			must.Get(r.byToken(t, s.access))(t)
			return
		}
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byToken(t, string(changed)))
	})
}

// Only a header and payload that the gateway's key signed are accepted, and only as a
// token of the login.
func FuzzAccessTokenClaims(f *testing.F) {
	r := newRig(f)
	s := r.signIn(f, "alice")
	good := r.forge(f, s)
	part := strings.Split(good.token(), ".")
	header, claims := decoded(f, part[0]), decoded(f, part[1])
	f.Add(header, claims)
	f.Add(strings.Replace(header, "HS256", "none", 1), claims)
	f.Add(header, strings.Replace(claims, "alice", "bob", 1))
	f.Add(header, strings.Replace(claims, "{", `{"sub":"bob",`, 1))
	f.Add(header, `{"exp":1e300}`)
	forger := good.by(signHS256([]byte("not the gateway's secret, but one of its length")))
	f.Fuzz(func(t *testing.T, header, claims string) {
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byToken(t, forger.raw(header, claims)))
		id, err := r.byToken(t, good.raw(header, claims))
		if err != nil {
			wantRejected(t, auth.DetailBadToken, "access token: ")(id, err)
			return
		}
		said := map[string]any{}
		if err := json.Unmarshal([]byte(claims), &said); err != nil {
			t.Fatalf("%s passes and is no object: %v", claims, err)
		}
		if said["sub"] != id.Username || said["iss"] != testIssuer || !r.now().Before(id.Expires) {
			t.Errorf("%s passes as %+v", claims, id)
		}
		if sid, given := said["sid"]; given && (sid != s.login.ID || id.Login != s.login.ID || id.Username != "alice") ||
			!given && id.Login != "" {
			t.Errorf("%s passes as %+v, of the login %s", claims, id, s.login.ID)
		}
	})
}
