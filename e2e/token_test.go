package e2e

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
)

// publicKey returns the key of a JWK.
func publicKey(t *testing.T, jwk map[string]string) *rsa.PublicKey {
	t.Helper()
	number := func(member string) *big.Int {
		bytes := must(base64.RawURLEncoding.DecodeString(jwk[member]))(t)
		return new(big.Int).SetBytes(bytes)
	}
	return &rsa.PublicKey{N: number("n"), E: int(number("e").Int64())}
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
