package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/go-jose/go-jose/v4"
)

// hostileSecret is the client secret. It has characters that a header or a form
// must encode (RFC 6749, section 2.3.1).
const hostileSecret = "s3cret of the client: 100% +/&=?"

// hostile is an OpenID provider that is honest unless a test makes it lie. It has
// no pages: a test takes the authorization request from the browser, and agrees
// to it with grant.
type hostile struct {
	t      testing.TB
	name   string // in the configuration
	issuer string
	key    *ecdsa.PrivateKey

	mu       sync.Mutex
	metadata map[string]any
	grants   map[string]*grant // by code and by access token
	secrets  []string
}

// newHostile starts a provider that ends with the test.
func newHostile(t testing.TB, name string) *hostile {
	t.Helper()
	h := &hostile{t: t, name: name, key: world.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t),
		grants: map[string]*grant{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.issuer = server.URL
	h.metadata = map[string]any{
		"issuer": h.issuer, "authorization_endpoint": h.issuer + "/authorize", "token_endpoint": h.issuer + "/token",
		"userinfo_endpoint": h.issuer + "/userinfo", "jwks_uri": h.issuer + "/jwks",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256", "HS256", "none"},
	}
	return h
}

// entry is the provider in the gateway's configuration.
func (h *hostile) entry() string {
	return fmt.Sprintf("  - {name: %s, issuer: %s, client_id: gateway, client_secret: %q}\n", h.name, h.issuer,
		hostileSecret)
}

// announce changes the discovery document.
func (h *hostile) announce(member string, value any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metadata[member] = value
}

// note keeps a secret that neither the log nor a page may show.
func (h *hostile) note(secret string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(secret) >= 16 { // a shorter text may be part of any other
		h.secrets = append(h.secrets, secret)
	}
	return secret
}

// noted returns all secrets of the provider.
func (h *hostile) noted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(slices.Clone(h.secrets), hostileSecret)
}

// granted returns the grant of a code or an access token, or nil.
func (h *hostile) granted(secret string) *grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants[secret]
}

// ServeHTTP implements http.Handler.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		h.mu.Lock()
		metadata := maps.Clone(h.metadata)
		h.mu.Unlock()
		replyJSON(w, metadata)
	case "/jwks":
		replyJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "good", Key: h.key.Public(), Use: "sig",
			Algorithm: "ES256"}}})
	case "/token":
		h.token(w, r)
	case "/userinfo":
		h.userinfo(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (h *hostile) token(w http.ResponseWriter, r *http.Request) {
	g := h.granted(r.PostFormValue("code"))
	if g == nil {
		refuseCode(w, "unknown code")
		return
	}
	g.exchanged.Add(1)
	h.note(r.PostFormValue("code_verifier"))
	if g.lie.token != nil {
		g.lie.token(w, r)
		return
	}
	replyJSON(w, map[string]any{
		"access_token": g.access, "refresh_token": h.note("refresh." + rand.Text()), "token_type": "Bearer",
		"expires_in": 3600, "id_token": h.note(g.makeIDToken()),
	})
}

func (h *hostile) userinfo(w http.ResponseWriter, r *http.Request) {
	g := h.granted(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if g == nil {
		w.WriteHeader(http.StatusUnauthorized)
	} else {
		person := map[string]any{"sub": g.sub, "preferred_username": "alice", "roles": []string{"user"}}
		maps.Copy(person, g.lie.person)
		replyJSON(w, person)
	}
}

// refuseCode is the answer of a token endpoint to a code that it does not accept.
func refuseCode(w http.ResponseWriter, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	replyJSON(w, map[string]string{"error": "invalid_grant", "error_description": description})
}

func replyJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the gateway may have closed the connection
}

// grant is a login to which the person agreed.
type grant struct {
	h         *hostile
	lie       lie
	request   url.Values // the authorization request
	sub, sid  string
	code      string
	access    string
	exchanged atomic.Int64
}

// lie is what the provider does wrong in one login. A nil field is honest.
type lie struct {
	claims map[string]any   // of the ID token, in place of the right ones
	token  http.HandlerFunc // is the token endpoint
	person map[string]any   // in the answer of userinfo, in place of what is right
}

// grant agrees to an authorization request, for a person whose subject is sub.
func (h *hostile) grant(request url.Values, sub string, l lie) *grant {
	g := &grant{h: h, lie: l, request: request, sub: sub, code: "code." + rand.Text(), access: "access." + rand.Text(),
		sid: rand.Text()}
	for _, secret := range []string{g.code, g.access, request.Get("state"), request.Get("nonce")} {
		h.note(secret)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants[g.code], h.grants[g.access] = g, g
	return g
}

// exchanges is how often the code came to the token endpoint.
func (g *grant) exchanges() int { return int(g.exchanged.Load()) }

// response is the query with which the provider redirects the browser.
func (g *grant) response() url.Values {
	return url.Values{"code": {g.code}, "state": {g.request.Get("state")}}
}

// makeIDToken makes the ID token, with the lie.
func (g *grant) makeIDToken() string {
	now, half := time.Now(), sha256.Sum256([]byte(g.access))
	claims := map[string]any{
		"iss": g.h.issuer, "sub": g.sub, "aud": "gateway", "nonce": g.request.Get("nonce"), "sid": g.sid,
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		"at_hash": base64.RawURLEncoding.EncodeToString(half[:16]),
	}
	maps.Copy(claims, g.lie.claims)
	return g.h.sign("JWT", claims)
}

// logoutToken is a new logout token for the session of the grant (OpenID Connect
// Back-Channel Logout 1.0, section 2.4).
func (g *grant) logoutToken() string {
	now := time.Now()
	return g.h.note(g.h.sign("logout+jwt", map[string]any{
		"iss": g.h.issuer, "aud": "gateway", "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": rand.Text(),
		"sub": g.sub, "sid": g.sid,
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}))
}

// sign returns a token of the provider, in the compact form.
func (h *hostile) sign(typ jose.ContentType, claims map[string]any) string {
	signer := world.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: h.key},
		(&jose.SignerOptions{}).WithType(typ).WithHeader("kid", "good")))(h.t)
	return world.Must(world.Must(signer.Sign(payloadOf(claims)))(h.t).CompactSerialize())(h.t)
}

// payloadOf encodes claims as the payload of a token.
func payloadOf(claims map[string]any) []byte {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // the test made them
	}
	return payload
}
