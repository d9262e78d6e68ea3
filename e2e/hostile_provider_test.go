package e2e

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

	"github.com/go-jose/go-jose/v4"
)

// hostileSecret is the client secret. It has characters that a header or a form
// must encode (RFC 6749, section 2.3.1).
const hostileSecret = "s3cret of the client: 100% +/&=?"

// hostile is an OpenID provider that is honest unless a test makes it lie. It has
// no pages: a test takes the authorization request from the browser, and agrees
// to it with grant.
type hostile struct {
	name   string // in the configuration
	more   string // in the configuration: ", key: value"
	issuer string
	keys   *hostileKeys

	mu       sync.Mutex
	metadata map[string]any
	grants   map[string]*grant // by code and by access token
	secrets  []string
}

// newHostile starts a provider that ends with the test.
func newHostile(t testing.TB, name string) *hostile {
	t.Helper()
	h := &hostile{name: name, keys: newHostileKeys(t), grants: map[string]*grant{}}
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
	return fmt.Sprintf("  - {name: %s, issuer: %s, client_id: gateway, client_secret: %q%s}\n", h.name, h.issuer, hostileSecret, h.more)
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
		replyJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "good", Key: h.keys.good.Public(), Use: "sig", Algorithm: "ES256"}}})
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
		plainAnswer(http.StatusBadRequest, `{"error":"invalid_grant"}`)(w, r)
		return
	}
	g.exchanged.Add(1)
	h.note(r.PostFormValue("code_verifier"))
	if g.lie.token != nil {
		g.lie.token(w, r)
		return
	}
	replyJSON(w, map[string]any{
		"access_token": g.access, "refresh_token": h.note("refresh." + rand.Text()), "token_type": "Bearer", "expires_in": 3600, "id_token": h.note(g.makeIDToken()),
	})
}

func (h *hostile) userinfo(w http.ResponseWriter, r *http.Request) {
	g := h.granted(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	switch {
	case g == nil:
		w.WriteHeader(http.StatusUnauthorized)
	case g.lie.userinfo != nil:
		g.lie.userinfo(w, r)
	default:
		person := map[string]any{
			"sub": g.sub, "name": "Alice Example", "preferred_username": "alice",
			"email": "alice@company.com", "email_verified": true, "roles": []string{"user", "admin"},
		}
		if g.lie.person != nil {
			g.lie.person(person)
		}
		replyJSON(w, person)
	}
}

func replyJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the gateway may have closed the connection
}

// plainAnswer answers with a status and a body in JSON.
func plainAnswer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
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
	claims   func(map[string]any)                 // changes the claims of the ID token
	idToken  func(g *grant, claims []byte) string // makes the ID token
	token    http.HandlerFunc                     // is the token endpoint
	person   func(map[string]any)                 // changes the answer of userinfo
	userinfo http.HandlerFunc                     // is the userinfo endpoint
}

// claim is a lie in the ID token: the claim has another value, or is missing
// if value is nil.
func claim(name string, value any) lie {
	return lie{claims: func(claims map[string]any) { putMember(claims, name, value) }}
}

// userinfoWith is a lie in userinfo: the member has another value, or is
// missing if value is nil.
func userinfoWith(name string, value any) lie {
	return lie{person: func(person map[string]any) { putMember(person, name, value) }}
}

// userinfoAnswer is a lie that replaces the answer of the userinfo endpoint.
func userinfoAnswer(answer http.HandlerFunc) lie { return lie{userinfo: answer} }

// idToken is a lie in how the ID token is made.
func idToken(make func(k *hostileKeys, payload []byte) string) lie {
	return lie{idToken: func(g *grant, payload []byte) string { return make(g.h.keys, payload) }}
}

func putMember(object map[string]any, name string, value any) {
	object[name] = value
	if value == nil {
		delete(object, name)
	}
}

// grant agrees to an authorization request, for a person whose subject is sub.
func (h *hostile) grant(request url.Values, sub string, l lie) *grant {
	g := &grant{h: h, lie: l, request: request, sub: sub, code: "code." + rand.Text(), access: "access." + rand.Text(), sid: rand.Text()}
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
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "at_hash": base64.RawURLEncoding.EncodeToString(half[:16]),
	}
	if g.lie.claims != nil {
		g.lie.claims(claims)
	}
	if g.lie.idToken != nil {
		return g.lie.idToken(g, payloadOf(claims))
	}
	return g.h.keys.sign(payloadOf(claims))
}

// logoutToken is a new logout token for the session of the grant (OpenID Connect
// Back-Channel Logout 1.0, section 2.4).
func (g *grant) logoutToken() string {
	now := time.Now()
	return g.h.note(jws(g.h.keys.good, "logout+jwt", payloadOf(map[string]any{
		"iss": g.h.issuer, "aud": "gateway", "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": rand.Text(),
		"sub": g.sub, "sid": g.sid, "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	})))
}

// hostileKeys are the keys of a provider: the one that it publishes, and another
// one.
type hostileKeys struct{ good, unpublished *ecdsa.PrivateKey }

func newHostileKeys(t testing.TB) *hostileKeys {
	t.Helper()
	k := &hostileKeys{}
	for _, key := range []**ecdsa.PrivateKey{&k.good, &k.unpublished} {
		var err error
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// sign signs a valid token.
func (k *hostileKeys) sign(payload []byte) string { return jws(k.good, "JWT", payload) }

// jws signs in the compact form.
func jws(key *ecdsa.PrivateKey, typ jose.ContentType, payload []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType(typ).WithHeader("kid", "good"))
	if err != nil {
		panic(err) // the test made the key
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// swappedPayload puts a payload under the signature of a token.
func swappedPayload(token string, payload []byte) string {
	parts := strings.Split(token, ".")
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + parts[2]
}

// payloadOf encodes claims as the payload of a token.
func payloadOf(claims map[string]any) []byte {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // the test made them
	}
	return payload
}
