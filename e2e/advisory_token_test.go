package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// tokenKey is the key of the gateway in these tests.
const tokenKey = "this key has at least 256 bits, as it has to"

// forge makes tokens for a gateway with tokenKey.
type forge struct{ issuer string }

// header is the header of a valid token.
const header = `{"alg":"HS256","typ":"JWT"}`

// claims are valid claims with changes: name, JSON, ... An empty value removes
// the claim.
func (f forge) claims(changes ...string) string {
	claims := map[string]json.RawMessage{}
	now := time.Now().Unix()
	for name, value := range map[string]string{
		"iss": fmt.Sprintf("%q", f.issuer), "sub": `"alice"`, "aud": `"authgate"`, "jti": `"1"`,
		"iat": fmt.Sprint(now), "exp": fmt.Sprint(now + 600),
	} {
		claims[name] = json.RawMessage(value)
	}
	for i := 0; i+1 < len(changes); i += 2 {
		if claims[changes[i]] = json.RawMessage(changes[i+1]); changes[i+1] == "" {
			delete(claims, changes[i])
		}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err) // the changes are constants
	}
	return string(text)
}

// signed is a token that is signed with tokenKey.
func (f forge) signed(header string, changes ...string) string {
	return sign(header, f.claims(changes...), []byte(tokenKey))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// tokenAdvisories are tokens that a library or a program accepted.
func tokenAdvisories(f forge) []advisory {
	good := f.signed(header)
	parts := strings.Split(good, ".")
	past := fmt.Sprint(time.Now().Unix() - 60)
	none := func(alg string) string { return encode(`{"alg":"`+alg+`","typ":"JWT"}`) + "." + encode(f.claims()) }
	return []advisory{
		// The algorithm is the configured one, whatever the token names.
		{"CVE-2021-22160 Apache Pulsar, none", []string{none("none") + ".", none("None") + ".", none("NONE") + "." + parts[2], none("nOnE") + ".", none("none") + "." + encode("x")}},
		{"CVE-2022-23540 jsonwebtoken, no algorithm", []string{none("") + ".", encode(`{"typ":"JWT"}`) + "." + parts[1] + ".", encode(`{"alg":null}`) + "." + parts[1] + ".", encode(`{}`) + "." + parts[1] + "." + parts[2]}},
		{"CVE-2020-28042 ServiceStack, short signatures", []string{parts[0] + "." + parts[1] + ".", good[:len(good)-4], parts[0] + "." + parts[1] + "." + parts[2][:1], parts[0] + "." + parts[1]}},
		{"CVE-2021-22573 google-oauth-client, no verification", []string{parts[0] + "." + encode(f.claims("jti", `"2"`)) + "." + parts[2], sign(header, f.claims(), []byte("another key of at least 32 bytes, too"))}},
		{"CVE-2020-26160 jwt-go, a list of audiences", []string{f.signed(header, "aud", `[]`), f.signed(header, "aud", `[""]`), f.signed(header, "aud", `["x"]`), f.signed(header, "aud", `{}`), f.signed(header, "aud", `null`), f.signed(header, "aud", ``), f.signed(header, "aud", `7`), f.signed(header, "aud", `[["authgate"]]`)}},
		{"CVE-2023-22482 Argo CD, tokens for others", []string{f.signed(header, "aud", `"another"`), f.signed(header, "aud", `["one","two"]`), f.signed(header, "aud", `"authgate "`), f.signed(header, "aud", `"AUTHGATE"`), f.signed(header, "aud", `"authgatex"`)}},
		{"CVE-2024-51744 golang-jwt, several errors", []string{sign(header, f.claims("exp", past), []byte("another key of at least 32 bytes, too")), f.signed(header, "exp", past), f.signed(header, "exp", ``), f.signed(header, "exp", `"`+past+`0"`), f.signed(header, "exp", `1e300`), f.signed(header, "exp", `-1`), f.signed(header, "exp", `[]`)}},
		{"CVE-2025-59420 Authlib, CVE-2026-32597 PyJWT, crit", []string{
			f.signed(`{"alg":"HS256","typ":"JWT","crit":["bork"],"bork":1}`), f.signed(`{"alg":"HS256","crit":["b64"],"b64":false}`), f.signed(`{"alg":"HS256","crit":[]}`), f.signed(`{"alg":"HS256","crit":["exp"],"exp":1}`), f.signed(`{"alg":"HS256","crit":"x"}`),
		}},
		{"CVE-2024-53861 PyJWT, a part of the issuer", []string{f.signed(header, "iss", fmt.Sprintf("%q", f.issuer[:len(f.issuer)-1])), f.signed(header, "iss", `"https"`), f.signed(header, "iss", `""`), f.signed(header, "iss", `"l"`), f.signed(header, "iss", fmt.Sprintf("%q", f.issuer+"/"))}},
		{"CVE-2025-30144 fast-jwt, a list of issuers", []string{f.signed(header, "iss", fmt.Sprintf("[%q]", f.issuer)), f.signed(header, "iss", fmt.Sprintf(`["https://evil.example",%q]`, f.issuer)), f.signed(header, "iss", `{}`)}},
		{"CVE-2022-39227 python-jwt, two forms in one", []string{
			fmt.Sprintf(`{"  %s.%s.":"","protected":"%s","payload":"%s","signature":"%s"}`, parts[0], encode(f.claims("sub", `"bob"`)), parts[0], parts[1], parts[2]),
			fmt.Sprintf(`{"protected":"%s","payload":"%s","signature":"%s"}`, parts[0], parts[1], parts[2]),
			fmt.Sprintf(`{"payload":"%s","signatures":[{"protected":"%s","signature":"%s"}]}`, parts[1], parts[0], parts[2]),
		}},
		{"CVE-2025-30204 golang-jwt, CVE-2025-27144 go-jose, dots", []string{strings.Repeat(".", 60_000), good + strings.Repeat(".", 60_000), strings.Repeat("a.", 30_000)}},
		{"CVE-2024-28180 go-jose, CVE-2022-36083 jose, costly JWE", []string{
			encode(`{"alg":"dir","enc":"A128CBC-HS256","zip":"DEF"}`) + ".." + encode("0123456789abcdef") + "." + encode(strings.Repeat("x", 5_000)) + "." + encode("0123456789abcdef"),
			encode(`{"alg":"PBES2-HS256+A128KW","enc":"A128CBC-HS256","p2c":2147483647,"p2s":"c2FsdA"}`) + "." + encode(strings.Repeat("k", 40)) + "." + encode("0123456789abcdef") + "." + encode("x") + "." + encode("0123456789abcdef"),
		}},
	}
}

// TestAdvisoriesToken: the gateway accepts only its own tokens, and its answers
// and log say nothing that helps to forge one.
func TestAdvisoriesToken(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"token: {secret: \""+tokenKey+"\"}\nlog: {level: debug}\npolicies: {admin: {roles: [admin]}}\n"+`
routes:
  - {match: /secure, upstream: app, auth: [bearer]}
  - {match: /admin, upstream: app, auth: [bearer], policy: admin}
  - {match: /public, upstream: app, auth: [none]}
`)
	f := forge{g.public}
	c := g.stranger()
	g.do(c, "GET", "/secure", "", "Authorization", "Bearer "+f.signed(header))
	if got := up.one(t).value(t, "X-Auth-User"); got != "alice" {
		t.Fatalf("a good token is for %q, so the test would prove nothing", got)
	}
	for _, a := range tokenAdvisories(f) {
		t.Run(a.name, func(t *testing.T) {
			for _, token := range a.attacks {
				g.do(c, "GET", "/secure", "", "Authorization", "Bearer "+token) // do has a time limit
				up.none(t)
				if a := g.do(c, "GET", "/me", "", "Authorization", "Bearer "+token); strings.Contains(a.body, `"alice"`) {
					t.Errorf("%.60q is accepted: %s", token, a.body)
				}
			}
		})
	}
	t.Run("CVE-2022-29165 Argo CD, tokens where none is needed", func(t *testing.T) {
		for _, token := range []string{encode(`{"alg":"none"}`) + "." + encode(f.claims()) + ".", sign(header, f.claims(), []byte("x")), f.signed(header)} {
			g.do(c, "GET", "/public", "", "Authorization", "Bearer "+token)
			m := up.one(t)
			for _, name := range identityNames {
				if got := m.values(name); len(got) > 0 {
					t.Errorf("the upstream gets %s: %q", name, got)
				}
			}
		}
	})
	t.Run("CVE-2021-32701 Oathkeeper, a cache for all rules", func(t *testing.T) {
		bob := f.signed(header, "sub", `"bob"`, "roles", `["admin"]`, "scope", `"admin"`)
		for range 3 {
			g.do(c, "GET", "/secure", "", "Authorization", "Bearer "+bob)
			if got := up.one(t).value(t, "X-Auth-Roles"); got != "user" {
				t.Errorf("the upstream gets the roles %q", got)
			}
			g.do(c, "GET", "/admin", "", "Authorization", "Bearer "+bob)
			up.none(t)
		}
	})
	t.Run("messages", func(t *testing.T) { tokenMessages(t, g, f) })
}

// tokenMessages: neither an answer about a bad token nor the log has the right
// signature or the key.
func tokenMessages(t *testing.T, g *instance, f forge) {
	wrong := f.claims("jti", `"wrong"`)
	right := sign(header, wrong, []byte(tokenKey))
	signature := right[strings.LastIndexByte(right, '.')+1:]
	var said strings.Builder
	for _, token := range []string{unsigned(right) + encode("wrong"), unsigned(right), unsigned(right) + signature[:8], "x." + right, right + ".x"} {
		for _, accept := range []string{"application/json", "text/html", "application/problem+json"} {
			a := g.do(g.stranger(), "GET", "/secure", "", "Authorization", "Bearer "+token, "Accept", accept)
			fmt.Fprintln(&said, a.header, a.body)
		}
	}
	said.WriteString(g.log.String())
	t.Run("CVE-2019-7644 Auth0-WCF-Service-JWT, the right signature", func(t *testing.T) {
		if strings.Contains(said.String(), signature) {
			t.Error("the right signature is in an answer or in the log")
		}
	})
	t.Run("CVE-2022-29266 Apache APISIX, the secret", func(t *testing.T) {
		for _, form := range []string{tokenKey, encode(tokenKey), base64.StdEncoding.EncodeToString([]byte(tokenKey)), fmt.Sprintf("%x", tokenKey)} {
			if strings.Contains(said.String(), form) {
				t.Error("the key is in an answer or in the log")
			}
		}
	})
}

// TestAdvisoriesKey: the configuration decides about key and algorithm. The token
// does not.
func TestAdvisoriesKey(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"token: {algorithm: RS256}\nroutes: [{match: /secure, upstream: app, auth: [bearer]}]\n")
	c := g.stranger()
	g.do(c, "GET", "/secure", "", "Authorization", g.signIn(c, "alice").access)
	up.one(t)
	document := g.do(c, "GET", "/.well-known/jwks.json", "").body
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(document), &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%v in %s", err, document)
	}
	public, kid := publicKey(t, set.Keys[0]), set.Keys[0]["kid"]
	claims := forge{g.public}.claims()
	for name, keys := range map[string][][]byte{
		"CVE-2015-9235 jsonwebtoken, CVE-2016-10555 jwt-simple, RS256 as HS256": pemForms(t, public),
		"CVE-2022-29217 PyJWT, a key of OpenSSH":                                {sshForm(t, public), []byte(strings.TrimSpace(string(sshForm(t, public))))},
		"CVE-2024-54150 cjwt, algorithms by the token":                          {x509.MarshalPKCS1PublicKey(public), public.N.Bytes(), []byte(set.Keys[0]["n"]), []byte(document), {}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				for _, alg := range []string{"HS256", "HS384", "HS512", "hs256"} {
					token := sign(fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, alg, kid), claims, key)
					g.do(c, "GET", "/secure", "", "Authorization", "Bearer "+token)
					up.none(t)
				}
			}
		})
	}
	t.Run("CVE-2018-0114 node-jose, a key in the token", func(t *testing.T) {
		for _, token := range selfMade(t, claims, kid) {
			g.do(c, "GET", "/secure", "", "Authorization", "Bearer "+token)
			up.none(t)
		}
	})
}

func pemForms(t *testing.T, key *rsa.PublicKey) [][]byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pkix := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(key)})
	return [][]byte{pkix, pkix[:len(pkix)-1], pkcs1, der}
}

func sshForm(t *testing.T, key *rsa.PublicKey) []byte {
	t.Helper()
	public, err := ssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.MarshalAuthorizedKey(public)
}

// selfMade are tokens signed with a key of the attacker. The header has the key or
// its address.
func selfMade(t *testing.T, claims, kid string) []string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwk := fmt.Sprintf(`{"kty":"RSA","kid":%q,"n":%q,"e":%q}`, kid,
		base64.RawURLEncoding.EncodeToString(key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()))
	served := listen(t, answering(`{"keys":[`+jwk+`]}`))
	var tokens []string
	for _, more := range []string{
		`"jwk":` + jwk, `"jku":"` + served + `"`, `"x5u":"` + served + `"`, `"x5c":["` + base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PublicKey(&key.PublicKey)) + `"]`,
		`"jwk":` + jwk + `,"jku":"` + served + `"`, `"kid":"` + served + `"`, `"kid":"../../../../dev/null"`,
	} {
		head := `{"alg":"RS256","typ":"JWT",` + more + `}`
		if !strings.Contains(more, `"kid":"`) || strings.Contains(more, "jwk") {
			head = fmt.Sprintf(`{"alg":"RS256","typ":"JWT","kid":%q,%s}`, kid, more)
		}
		text := encode(head) + "." + encode(claims)
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, text+"."+base64.RawURLEncoding.EncodeToString(signature))
	}
	return tokens
}
