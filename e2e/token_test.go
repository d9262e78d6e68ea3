package e2e

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TestIssuedToken: an access token says what design B.5 lists, and whoever
// reads jwks.json can verify it.
func TestIssuedToken(t *testing.T) {
	t.Parallel()
	g := start(t, secure+app(record(t).url)+"token: {algorithm: RS256, audience: [one, two]}\n")
	c := g.stranger()
	began := time.Now().Add(-time.Second)
	alice := strings.TrimPrefix(g.signIn(c, "alice").access, "Bearer ")
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(g.do(c, "GET", "/.well-known/jwks.json", "").body), &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 1 || set.Keys[0]["d"] != "" {
		t.Fatalf("jwks.json has the keys %v, expected one public key", set.Keys)
	}
	public := publicKey(t, set.Keys[0])
	claims := jwt.MapClaims{}
	token, err := jwt.ParseWithClaims(alice, claims, func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(g.public), jwt.WithAudience("two"), jwt.WithExpirationRequired())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(token.Header["typ"], token.Header["kid"]); got != "JWT"+set.Keys[0]["kid"] {
		t.Errorf("typ and kid are %s", got)
	}
	if got := fmt.Sprint(claims["sub"], claims["aud"], claims["roles"]); got != "alice[one two] [user admin]" {
		t.Errorf("sub, aud and roles are %s", got)
	}
	for _, name := range []string{"jti", "sid"} {
		if got, _ := claims[name].(string); len(got) < 22 {
			t.Errorf("%s is %v", name, claims[name])
		}
	}
	issued, err := claims.GetIssuedAt()
	if err != nil || issued.Before(began) || claims["nbf"] != claims["iat"] || claims["exp"].(float64)-claims["iat"].(float64) != 900 {
		t.Errorf("iat %v, nbf %v, exp %v; %v", claims["iat"], claims["nbf"], claims["exp"], err)
	}

	// The public key is no secret, and must not do for one.
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(alice, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), {}} {
		forged := sign(`{"alg":"HS256","typ":"JWT"}`, string(payload), key)
		if got := g.status(c, "GET", "/secure-resource", "Authorization", "Bearer "+forged); got != http.StatusUnauthorized {
			t.Errorf("signed with the public key: %d", got)
		}
	}
}

func publicKey(t *testing.T, jwk map[string]string) *rsa.PublicKey {
	t.Helper()
	n, err := base64.RawURLEncoding.DecodeString(jwk["n"])
	if err != nil {
		t.Fatal(err)
	}
	e, err := base64.RawURLEncoding.DecodeString(jwk["e"])
	if err != nil {
		t.Fatal(err)
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
}

// sign makes a token of header and payload as they stand, by HS256.
func sign(header, payload string, key []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// unsigned is a token with its signature cut off.
func unsigned(token string) string { return token[:strings.LastIndexByte(token, '.')+1] }

// TestForgedTokens: a good signature is not all that it takes.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	const key = "this key has at least 256 bits, as it has to"
	up := record(t)
	g := start(t, secure+app(up.url)+"token: {secret: \""+key+"\"}\n")
	c := g.stranger()
	const header = `{"alg":"HS256","typ":"JWT"}`
	now := time.Now().Unix()
	iss := fmt.Sprintf(`"iss":%q`, g.public)
	exp := fmt.Sprintf(`"exp":%d`, now+600)
	const sub, aud, jti = `"sub":"alice"`, `"aud":"authgate"`, `"jti":"1"`
	claims := func(all ...string) string { return "{" + strings.Join(all, ",") + "}" }
	good := claims(iss, sub, aud, exp, jti)
	for _, test := range []struct {
		name, token string
		want        int
	}{
		{"as it should be", sign(header, good, []byte(key)), 200},
		{"another key", sign(header, good, []byte(key+".")), 401},
		{"no key", sign(header, good, nil), 401},
		{"no signature", unsigned(sign(header, good, []byte(key))), 401},
		{"alg none", unsigned(sign(`{"alg":"none","typ":"JWT"}`, good, nil)), 401},
		{"alg none, signed", sign(`{"alg":"none","typ":"JWT"}`, good, []byte(key)), 401},
		{"alg HS512", sign(`{"alg":"HS512","typ":"JWT"}`, good, []byte(key)), 401},
		{"no alg", sign(`{"typ":"JWT"}`, good, []byte(key)), 401},
		{"another kid", sign(`{"alg":"HS256","typ":"JWT","kid":"../../dev/null"}`, good, []byte(key)), 401},
		{"crit", sign(`{"alg":"HS256","typ":"JWT","crit":["x"],"x":1}`, good, []byte(key)), 401},
		{"alg twice", sign(`{"alg":"none","alg":"HS256","typ":"JWT"}`, good, []byte(key)), 401},
		{"without iss", sign(header, claims(sub, aud, exp, jti), []byte(key)), 401},
		{"without sub", sign(header, claims(iss, aud, exp, jti), []byte(key)), 401},
		{"without aud", sign(header, claims(iss, sub, exp, jti), []byte(key)), 401},
		{"without exp", sign(header, claims(iss, sub, aud, jti), []byte(key)), 401},
		{"without jti", sign(header, claims(iss, sub, aud, exp), []byte(key)), 401},
		{"another iss", sign(header, claims(`"iss":"https://evil.example"`, sub, aud, exp, jti), []byte(key)), 401},
		{"another aud", sign(header, claims(iss, sub, `"aud":["x","y"]`, exp, jti), []byte(key)), 401},
		{"aud among others", sign(header, claims(iss, sub, `"aud":["x","authgate"]`, exp, `"jti":"2"`), []byte(key)), 200},
		{"nobody's sub", sign(header, claims(iss, `"sub":"carol"`, aud, exp, jti), []byte(key)), 401},
		{"empty sub", sign(header, claims(iss, `"sub":""`, aud, exp, jti), []byte(key)), 401},
		{"exp as a string", sign(header, claims(iss, sub, aud, `"exp":"`+fmt.Sprint(now+600)+`"`, jti), []byte(key)), 401},
		{"exp is over", sign(header, claims(iss, sub, aud, fmt.Sprintf(`"exp":%d`, now-1), jti), []byte(key)), 401},
		{"exp without end", sign(header, claims(iss, sub, aud, `"exp":1e300`, jti), []byte(key)), 401},
		{"nbf to come", sign(header, claims(iss, sub, aud, exp, jti, fmt.Sprintf(`"nbf":%d`, now+60)), []byte(key)), 401},
		{"sub twice", sign(header, claims(iss, `"sub":"bob"`, sub, aud, exp, jti), []byte(key)), 401},
		{"sid of no login", sign(header, claims(iss, sub, aud, exp, jti, `"sid":"x"`), []byte(key)), 401},
		{"no JSON", sign(header, "nonsense", []byte(key)), 401},
		{"three dots", "...", 401},
		{"nothing", "", 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := g.do(c, "GET", "/secure-resource", "", "Authorization", "Bearer "+test.token)
			if a.status != test.want {
				t.Fatalf("status %d, expected %d", a.status, test.want)
			}
			if test.want == http.StatusUnauthorized {
				wantProblem(t, a, test.want)
				if got := a.header.Get("WWW-Authenticate"); got != `Bearer realm="authgate", error="invalid_token"` {
					t.Errorf("challenge %q", got)
				}
				up.none(t)
				return
			}
			up.one(t)
		})
	}
}
