package e2e

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TestIssuedToken: an access token has the claims of design B.5 with the
// configured audience, and jwks.json has the key that verifies it.
func TestIssuedToken(t *testing.T) {
	t.Parallel()
	g := start(t, secure+app(record(t).url)+"token: {algorithm: RS256, audience: [one, two]}\n")
	c := g.stranger()
	began := time.Now().Add(-time.Second)
	alice := g.signIn(c, "alice").access
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(g.do(c, "GET", "/.well-known/jwks.json", "").body), &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 1 || set.Keys[0]["d"] != "" {
		t.Fatalf("jwks.json has the keys %v, expected one public key", set.Keys)
	}
	public, claims := publicKey(t, set.Keys[0]), jwt.MapClaims{}
	token, err := jwt.ParseWithClaims(strings.TrimPrefix(alice, "Bearer "), claims, func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(g.public), jwt.WithAudience("two"), jwt.WithExpirationRequired())
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(token.Header["typ"], token.Header["kid"], claims["sub"], claims["aud"], claims["roles"])
	if want := "JWT" + set.Keys[0]["kid"] + "alice[one two] [user admin]"; got != want {
		t.Errorf("typ, kid, sub, aud and roles are %s, expected %s", got, want)
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
	if got := g.status(c, "GET", "/secure-resource", "Authorization", alice); got != http.StatusOK {
		t.Errorf("the gateway answers its own token with %d", got)
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

// sign returns an HS256 token of header and payload, which it does not check.
func sign(header, payload string, key []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// unsigned returns a token without its signature.
func unsigned(token string) string { return token[:strings.LastIndexByte(token, '.')+1] }
