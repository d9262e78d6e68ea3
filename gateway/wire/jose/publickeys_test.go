package jose

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"authgate/internal/test/must"
)

// A token that names no key has been signed by the only one that can have done it.
func TestOnlyKey(t *testing.T) {
	t.Parallel()
	one, two := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t), must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	ec := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	small := must.Get(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	key := func(key any, id, algorithm, use string) jose.JSONWebKey {
		return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: algorithm, Use: use}
	}
	first, second, curve := &one.PublicKey, &two.PublicKey, &ec.PublicKey
	type jwks = []jose.JSONWebKey
	for name, c := range map[string]struct {
		keys    jwks
		rs, es  bool   // there is the only key for RS256, for ES256
		because string // why there is none for RS256
	}{
		"none":               {nil, false, false, "no key"},
		"without kid":        {jwks{key(first, "", "", "")}, true, false, ""},
		"with kid":           {jwks{key(first, "a", "RS256", "sig"), key(curve, "b", "", "")}, true, true, ""},
		"two":                {jwks{key(first, "a", "", ""), key(second, "", "", "")}, false, false, "several"},
		"one for another":    {jwks{key(first, "a", "", ""), key(second, "b", "PS256", "")}, true, false, ""},
		"one for encryption": {jwks{key(first, "a", "", "enc"), key(curve, "", "", "sig")}, false, true, "no key"},
		"another curve":      {jwks{key(&small.PublicKey, "a", "", "")}, false, false, "no key"},
		"one kid twice":      {jwks{key(first, "a", "", ""), key(second, "a", "", "")}, false, false, "no key"},
		"a private key":      {jwks{key(one, "a", "", ""), key(ec, "", "", "")}, false, false, "no key"},
		"a secret":           {jwks{key([]byte(strings.Repeat("x", 32)), "a", "RS256", "")}, false, false, "no key"},
	} {
		set := map[string]any{"keys": append([]jose.JSONWebKey{}, c.keys...)}
		keys := must.Get(ParsePublicKeys(must.Get(json.Marshal(set))(t)))(t)
		rs, err := keys.Only("RS256")
		if (err == nil) != c.rs || (rs != nil) != c.rs || err != nil && !strings.Contains(err.Error(), c.because) {
			t.Errorf("%s: for RS256 %v, %v", name, rs, err)
		}
		if es, err := keys.Only("ES256"); (err == nil) != c.es || (es != nil) != c.es {
			t.Errorf("%s: for ES256 %v, %v", name, es, err)
		}
		if _, err := keys.Only("none"); err == nil {
			t.Errorf("%s: there is a key for none", name)
		}
	}
}
