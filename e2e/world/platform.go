package world

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Platform is an issuer that signs what a test says, as a CI service or the provider of a company does.
type Platform struct {
	*httptest.Server
	t   testing.TB
	key *ecdsa.PrivateKey
}

// StartPlatform starts a platform.
func StartPlatform(t testing.TB) *Platform {
	t.Helper()
	p := &Platform{t: t, key: Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	reply := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/jwks", "authorization_endpoint": p.URL + "/a", "token_endpoint": p.URL + "/t",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "key", Key: p.key.Public()}}})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// Sign signs claims for five minutes.
func (p *Platform) Sign(typ string, claims map[string]any) string {
	p.t.Helper()
	now := time.Now()
	all := map[string]any{"iss": p.URL, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	maps.Copy(all, claims)
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", "key")
	signer := Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, options))(p.t)
	return Must(jwt.Signed(signer).Claims(all).Serialize())(p.t)
}
