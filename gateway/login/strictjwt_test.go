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
	"time"

	"authgate/gateway/auth"
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
		return must(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))(tb)
	}
}

// forge returns a forger of tokens of the login.
func (m *mechanisms) forge(tb testing.TB, s *signedIn) *forger {
	tb.Helper()
	now := m.clock.Now().Unix()
	f := &forger{
		header: map[string]any{"alg": m.keys.method.Alg(), "typ": "JWT", "kid": m.keys.id},
		claims: map[string]any{
			"iss": testIssuer, "sub": s.login.Username, "aud": "authgate", "iat": now, "nbf": now, "exp": now + 900,
			"jti": "a-token", "sid": s.login.ID, "roles": []string{"user"},
		},
	}
	if secret, ok := m.keys.sign.([]byte); ok {
		f.sign = signHS256(secret)
	} else {
		f.sign = signRS256(tb, m.keys.sign.(*rsa.PrivateKey))
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

func (f *forger) token() string {
	header, errHeader := json.Marshal(f.header)
	claims, errClaims := json.Marshal(f.claims)
	if errHeader != nil || errClaims != nil {
		panic(fmt.Sprint("a test gives what JSON cannot hold: ", errHeader, errClaims))
	}
	return f.raw(string(header), string(claims))
}

// raw signs a header and claims that may be invalid JSON.
func (f *forger) raw(header, claims string) string {
	return f.signed(encode(header) + "." + encode(claims))
}

func (f *forger) signed(input string) string { return input + "." + encode(string(f.sign(input))) }

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// loosen changes a bit of the last character that decodes to nothing.
func loosen(tb testing.TB, s string) string {
	tb.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, s[len(s)-1])
	loose := s[:len(s)-1] + alphabet[last^1:last^1+1]
	before, err := base64.RawURLEncoding.DecodeString(s)
	after, errLoose := base64.RawURLEncoding.DecodeString(loose)
	if err != nil || errLoose != nil || string(before) != string(after) {
		tb.Fatalf("%s has no loose bits", s)
	}
	return loose
}

// hostile is a token that must be rejected, with a part of the reason.
type hostile struct{ name, token, reason string }

// wantRefused fails the test unless all tokens are rejected for their reasons. The tokens
// of f itself must be accepted before and after.
func (m *mechanisms) wantRefused(t *testing.T, f *forger, tokens []hostile) {
	t.Helper()
	control := func() {
		t.Helper()
		if id, err := m.byToken(t, f.token()); err != nil || id.Username != "alice" {
			t.Fatalf("the control is refused: %+v, %v", id, err)
		}
	}
	control()
	for _, each := range tokens {
		t.Run(each.name, func(t *testing.T) {
			for _, creds := range []*auth.Credentials{{Scheme: "bearer", Value: each.token}, {Access: each.token}} {
				id, err := m.bearer.Authenticate(t.Context(), creds)
				if each.token == "" && creds.Scheme == "" {
					continue // no cookie
				}
				wantRejected(t, auth.DetailBadToken, each.reason)(id, err)
				var r *auth.Rejection
				if errors.As(err, &r) && (r.Cookie == auth.AccessCookie) != (creds.Access != "") {
					t.Errorf("%+v: the rejection names the cookie role %d", creds, r.Cookie)
				}
			}
		})
	}
	control()
}

func bothAlgorithms(t *testing.T, test func(*testing.T, *mechanisms)) {
	for _, algorithm := range []string{"HS256", "RS256"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			test(t, newMechanisms(t, func(m *mechanisms) { m.keys = testKeys(t, algorithm) }))
		})
	}
}

// No header selects another algorithm or another key.
func TestAccessTokenFixesAlgorithmAndKey(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, m *mechanisms) {
		s := m.signIn(t, "alice")
		good := m.forge(t, s)
		var tokens []hostile
		for _, alg := range []string{"none", "None", "NONE", "nOnE"} {
			f := good.with(map[string]any{"header alg": alg})
			for name, signature := range map[string]string{"unsigned": "", "signed": encode(string(f.sign(""))), "well signed": "*"} {
				token := f.token()
				if signature != "*" {
					token = token[:strings.LastIndexByte(token, '.')+1] + signature
				}
				tokens = append(tokens, hostile{alg + " " + name, token, "signing method "})
			}
		}
		for _, alg := range []any{"HS384", "HS512", "RS384", "RS512", "PS256", "ES256", "EdDSA", strings.ToLower(m.keys.method.Alg()), m.keys.method.Alg() + " ", "", nil, 7, []string{"HS256"}} {
			f := good.with(map[string]any{"header alg": alg})
			tokens = append(tokens, hostile{fmt.Sprintf("alg %v", alg), f.token(), "signing method "})
		}
		other := map[string]string{"HS256": "RS256", "RS256": "HS256"}[m.keys.method.Alg()]
		unsigned := good.token()
		tokens = append(tokens, hostile{other, good.with(map[string]any{"header alg": other}).token(), "signing method " + other + " is invalid"})
		tokens = append(tokens, hostile{"no signature", unsigned[:strings.LastIndexByte(unsigned, '.')+1], "signature is invalid"})

		attacker := must(rsa.GenerateKey(rand.Reader, 2048))(t)
		forged := m.forge(t, s)
		forged.sign = signRS256(t, attacker)
		if m.keys.method.Alg() == "HS256" {
			forged.sign = signHS256([]byte("a secret of the attacker's choice"))
		}
		jwk := map[string]any{
			"kty": "RSA", "n": encode(string(attacker.N.Bytes())), "e": "AQAB", "kid": m.keys.id, "alg": "RS256", "use": "sig",
		}
		for name, changes := range map[string]map[string]any{
			"another key":      {},
			"another key, kid": {"header kid": m.keys.id},
			"embedded jwk":     {"header jwk": jwk},
			"embedded oct jwk": {"header jwk": map[string]any{"kty": "oct", "k": encode("a secret of the attacker's choice")}},
			"jku":              {"header jku": "https://attacker.example/jwks.json"},
			"x5u":              {"header x5u": "https://attacker.example/chain.pem"},
			"x5c":              {"header x5c": []string{encode("certificate")}},
		} {
			tokens = append(tokens, hostile{name, forged.with(changes).token(), "signature is invalid"})
		}
		for _, kid := range []any{"other", "", "../../../../dev/null", "' UNION SELECT 'x", 7, true, []string{m.keys.id}, json.RawMessage("null")} {
			tokens = append(tokens, hostile{fmt.Sprintf("kid %v", kid), good.with(map[string]any{"header kid": kid}).token(), "kid names another key"})
		}
		for _, crit := range []any{[]string{"exp"}, []string{"b64"}, []string{}, []string{"x"}, "exp", json.RawMessage("null"), 7} {
			f := good.with(map[string]any{"header crit": crit, "header b64": false, "header x": 1})
			tokens = append(tokens, hostile{fmt.Sprintf("crit %v", crit), f.token(), "crit names an unknown extension"})
		}
		for _, typ := range []any{"JOSE", "at+jwt", "JWE", "", 7, json.RawMessage("null")} {
			tokens = append(tokens, hostile{fmt.Sprintf("typ %v", typ), good.with(map[string]any{"header typ": typ}).token(), "typ is not JWT"})
		}
		m.wantRefused(t, good, tokens)
	})
}

// No form of the public key works as an HMAC secret.
func TestAccessTokenDoesNotTakeThePublicKeyForASecret(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, func(m *mechanisms) { m.keys = testKeys(t, "RS256") })
	s := m.signIn(t, "alice")
	public := m.keys.verify.(*rsa.PublicKey)
	spki := must(x509.MarshalPKIXPublicKey(public))(t)
	pkcs1 := x509.MarshalPKCS1PublicKey(public)
	jwks := must(m.keys.JWKS())(t)
	spkiPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})
	var tokens []hostile
	for name, secret := range map[string][]byte{
		"SPKI, DER":          spki,
		"SPKI, PEM":          spkiPEM,
		"SPKI, PEM, trimmed": []byte(strings.TrimSpace(string(spkiPEM))),
		"PKCS 1, DER":        pkcs1,
		"PKCS 1, PEM":        pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}),
		"modulus":            public.N.Bytes(),
		"JWKS":               jwks,
		"nothing":            {},
	} {
		f := m.forge(t, s).with(map[string]any{"header alg": "HS256"})
		f.sign = signHS256(secret)
		tokens = append(tokens, hostile{name, f.token(), "signing method HS256 is invalid"})
		f = m.forge(t, s)
		f.sign = signHS256(secret)
		tokens = append(tokens, hostile{name + ", said to be RS256", f.token(), "signature is invalid"})
	}
	m.wantRefused(t, m.forge(t, s), tokens)
}

// A token has one spelling and one meaning.
func TestAccessTokenRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	bothAlgorithms(t, func(t *testing.T, m *mechanisms) {
		s := m.signIn(t, "alice")
		good := m.forge(t, s)
		token := good.token()
		part := strings.Split(token, ".")
		header, claims := decoded(t, part[0]), decoded(t, part[1])
		rest := strings.TrimPrefix(claims, "{")
		// Add spaces until base64 has loose bits.
		looseHeader, looseClaims := header, claims
		for len(looseHeader)%3 == 0 {
			looseHeader += " "
		}
		for len(looseClaims)%3 == 0 {
			looseClaims += " "
		}
		now := m.clock.Now()
		tokens := []hostile{
			{"alg twice", good.raw(`{"alg":"none",`+strings.TrimPrefix(header, "{"), claims), "header: member \"alg\" appears twice"},
			{"alg twice, the same", good.raw(`{"alg":"`+m.keys.method.Alg()+`",`+strings.TrimPrefix(header, "{"), claims), "header: member \"alg\" appears twice"},
			{"kid twice", good.raw(`{"kid":"other",`+strings.TrimPrefix(header, "{"), claims), "header: member \"kid\" appears twice"},
			{"sub twice", good.raw(header, `{"sub":"bob",`+rest), `payload: member "sub" appears twice`},
			{"sub twice, escaped", good.raw(header, `{"s\u0075b":"bob",`+rest), `payload: member "sub" appears twice`},
			{"exp twice", good.raw(header, fmt.Sprintf(`{"exp":%d,`, now.Add(time.Hour).Unix())+rest), `payload: member "exp" appears twice`},
			{"jti twice", good.raw(header, `{"jti":"another",`+rest), `payload: member "jti" appears twice`},
			{"twice further in", good.raw(header, `{"x":[{"a":1,"a":2}],`+rest), `payload: member "a" appears twice`},
			{"two payloads", good.raw(header, claims+claims), "more than one JSON value"},
			{"garbage after the payload", good.raw(header, claims+"x"), "more than one JSON value"},
			{"garbage after the header", good.raw(header+"x", claims), "malformed"},
			{"payload is a list", good.raw(header, "["+claims+"]"), "malformed"},
			{"payload is null", good.raw(header, "null"), "missing"},
			{"payload is no JSON", good.raw(header, "x"), "malformed"},
			{"payload is empty", good.raw(header, ""), "malformed"},
			{"header is null", good.raw("null", claims), "signing method "},
			{"header is empty", good.raw("", claims), "malformed"},

			{"loose bits in the signature", part[0] + "." + part[1] + "." + loosen(t, part[2]), "malformed"},
			{"loose bits in the header", good.signed(loosen(t, encode(looseHeader)) + "." + part[1]), "malformed"},
			{"loose bits in the payload", good.signed(part[0] + "." + loosen(t, encode(looseClaims))), "malformed"},
			{"padding", token + "=", "malformed"},
			{"more padding", token + "==", "malformed"},
			{"padding in the payload", good.signed(part[0] + "." + part[1] + "="), "malformed"},
			{"standard base64", good.signed(part[0] + "." + base64.RawStdEncoding.EncodeToString([]byte(`{"x":"???>>>~~~",`+rest))), "malformed"},
			{"line break in the signature", token[:len(token)-5] + "\n" + token[len(token)-5:], "line break"},
			{"line break behind", token + "\r\n", "line break"},
			{"line break in the payload", good.signed(part[0] + "." + part[1][:8] + "\n" + part[1][8:]), "line break"},
			{"space behind", token + " ", "malformed"},
			{"space in front", " " + token, "malformed"},

			{"empty", "", "malformed"},
			{"dots", "..", "malformed"},
			{"one part", part[0], "malformed"},
			{"two parts", part[0] + "." + part[1], "malformed"},
			{"four parts", token + ".", "malformed"},
			{"a dot in front", "." + token, "malformed"},
			{"twice", token + "." + token, "malformed"},
			{"JWE", strings.Join([]string{encode(`{"alg":"RSA-OAEP","enc":"A256GCM"}`), encode("key"), encode("iv"), encode("ciphertext"), encode("tag")}, "."), "malformed"},
			{"signed JWE", good.signed(encode(`{"alg":"dir","enc":"A256GCM"}`) + ".." + encode("iv") + "." + encode("ciphertext")), "malformed"},
			{"JSON serialisation", fmt.Sprintf(`{"payload":%q,"signatures":[{"protected":%q,"signature":%q}]}`, part[1], part[0], part[2]), "malformed"},
			{"flattened JSON serialisation", fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, part[1], part[0], part[2]), "malformed"},
			{"JSON serialisation with dots", fmt.Sprintf(`{"payload":".%s","protected":"%s.","signature":%q}`, part[1], part[0], part[2]), "malformed"},
			{"scheme within", "Bearer " + token, "malformed"},
			{"two tokens", token + "," + token, "malformed"},
			{"quoted", `"` + token + `"`, "malformed"},
			{"overlong", good.with(map[string]any{"x": strings.Repeat("x", 8<<10)}).token(), "longer than 8192 bytes"},
		}
		m.wantRefused(t, good, tokens)
	})
}

func decoded(tb testing.TB, part string) string {
	tb.Helper()
	raw := must(base64.RawURLEncoding.DecodeString(part))(tb)
	return string(raw)
}
