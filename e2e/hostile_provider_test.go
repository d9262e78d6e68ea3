package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// hostileSecret is the client secret. It is long enough for a key of HS256, and
// has characters that a header or a form must encode (RFC 6749, section 2.3.1).
const hostileSecret = "s3cret of the client: 100% +/&=?"

// hostile is an OpenID provider that is honest unless a test makes it lie. It has
// no pages: a test takes the authorization request from the browser, and agrees
// to it with grant.
type hostile struct {
	t       testing.TB
	name    string // in the configuration
	more    string // in the configuration: ", key: value"
	timeout string
	address string
	issuer  string
	keys    *hostileKeys

	mu       sync.Mutex
	server   *httptest.Server // nil while it is down
	metadata map[string]any
	instead  map[string]http.HandlerFunc // of an honest answer, by path
	grants   map[string]*grant           // by code and by access token
	got      []call
	secrets  []string
}

// call is a request from the gateway.
type call struct {
	method, path string
	header       http.Header
	form         url.Values
}

// newHostile starts a provider that ends with the test.
func newHostile(t testing.TB, name string) *hostile {
	t.Helper()
	h := &hostile{
		t: t, name: name, timeout: "5s", keys: newHostileKeys(t),
		instead: map[string]http.HandlerFunc{}, grants: map[string]*grant{},
	}
	l := h.listen()
	h.address = l.Addr().String()
	h.issuer = "http://" + h.address
	h.metadata = map[string]any{
		"issuer":                                h.issuer,
		"authorization_endpoint":                h.issuer + "/authorize",
		"token_endpoint":                        h.issuer + "/token",
		"userinfo_endpoint":                     h.issuer + "/userinfo",
		"jwks_uri":                              h.issuer + "/jwks",
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256", "HS256", "none"},
	}
	h.start(l)
	t.Cleanup(h.down)
	return h
}

// listen finds a port that no other program takes while the provider is down.
func (h *hostile) listen() net.Listener {
	h.t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", "127.0.0.1:"+freePort(h.t)); err == nil { // else another program took it
			return l
		}
	}
	h.t.Fatal("there is no free port")
	return nil
}

// up starts the provider again after down.
func (h *hostile) up() {
	h.t.Helper()
	l, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.start(l)
}

func (h *hostile) start(l net.Listener) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	h.mu.Lock()
	h.server = server
	h.mu.Unlock()
}

// down stops the provider and closes its connections.
func (h *hostile) down() {
	h.mu.Lock()
	server := h.server
	h.server = nil
	h.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

// entry is the provider in the gateway's configuration.
func (h *hostile) entry() string {
	secret, _ := json.Marshal(hostileSecret) // YAML reads what JSON writes
	return "  - {name: " + h.name + ", issuer: " + h.issuer + ", client_id: gateway, client_secret: " + string(secret) + ", timeout: " + h.timeout + h.more + "}\n"
}

// announce changes the discovery document; nil removes a member.
func (h *hostile) announce(member string, value any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metadata[member] = value
	if value == nil {
		delete(h.metadata, member)
	}
}

// answers replaces all answers on a path.
func (h *hostile) answers(path string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instead[path] = answer
}

// calls are the requests for a path.
func (h *hostile) calls(path string) []call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.got), func(c call) bool { return c.path != path })
}

// secret makes a new secret, and notes it.
func (h *hostile) secret(kind string) string { return h.note(kind + "." + rand.Text()) }

// note keeps a secret that neither the log nor a page may show.
func (h *hostile) note(secret string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(secret) >= 16 { // a shorter text may be part of any other
		h.secrets = append(h.secrets, secret)
	}
	return secret
}

func (h *hostile) noted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.secrets)
}

func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // a malformed field is missing
	h.mu.Lock()
	h.got = append(h.got, call{r.Method, r.URL.Path, r.Header.Clone(), maps.Clone(r.Form)})
	instead := h.instead[r.URL.Path]
	metadata := maps.Clone(h.metadata)
	h.mu.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		replyJSON(w, metadata)
	case "/jwks":
		replyJSON(w, h.keys.set())
	case "/token":
		h.token(w, r)
	case "/userinfo":
		h.userinfo(w, r)
	case "/end", "/revoke":
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}

func replyJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the gateway may have closed the connection
}

// refuseOAuth answers with an error of OAuth (RFC 6749, section 5.2).
func refuseOAuth(w http.ResponseWriter, status int, code, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
}

// grant is a login to which the person agreed.
type grant struct {
	h       *hostile
	lie     lie
	request url.Values // the authorization request
	sub     string
	code    string
	access  string
	refresh string
	sid     string

	exchanged int    // how often the code came to the token endpoint; under h.mu
	idToken   string // issued; under h.mu
}

// lie is what the provider does wrong in one login. A nil field is honest.
type lie struct {
	access   func(*grant) string                  // the access token
	claims   func(*grant, map[string]any)         // changes the claims of the ID token
	idToken  func(g *grant, claims []byte) string // makes the ID token
	answer   func(*grant, map[string]any)         // changes the answer of the token endpoint
	token    http.HandlerFunc                     // is the token endpoint
	person   func(*grant, map[string]any)         // changes the answer of userinfo
	userinfo http.HandlerFunc                     // is the userinfo endpoint
}

// grant agrees to an authorization request, for a person whose subject is sub.
func (h *hostile) grant(request url.Values, sub string, l lie) *grant {
	g := &grant{
		h: h, lie: l, request: request, sub: sub,
		code: h.secret("code"), access: h.secret("access"), refresh: h.secret("refresh"), sid: rand.Text(),
	}
	if l.access != nil {
		g.access = h.note(l.access(g))
	}
	h.note(request.Get("state"))
	h.note(request.Get("nonce"))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants[g.code], h.grants[g.access] = g, g
	return g
}

// exchanges is how often the code came to the token endpoint.
func (g *grant) exchanges() int {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	return g.exchanged
}

// issued is the ID token that was issued.
func (g *grant) issued() string {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	return g.idToken
}

func (h *hostile) token(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	g := h.grants[r.PostForm.Get("code")]
	if g != nil {
		g.exchanged++
	}
	h.mu.Unlock()
	if problem := g.check(r); problem != "" {
		refuseOAuth(w, http.StatusBadRequest, "invalid_grant", problem)
		return
	}
	h.note(r.PostForm.Get("code_verifier"))
	if g.lie.token != nil {
		g.lie.token(w, r)
		return
	}
	id := h.note(g.makeIDToken())
	h.mu.Lock()
	g.idToken = id
	h.mu.Unlock()
	answer := map[string]any{
		"access_token": g.access, "refresh_token": g.refresh, "token_type": "Bearer", "expires_in": 3600, "id_token": id,
	}
	if g.lie.answer != nil {
		g.lie.answer(g, answer)
	}
	replyJSON(w, answer)
}

// check returns what is wrong with a request to exchange the code, or "".
func (g *grant) check(r *http.Request) string {
	if g == nil {
		return "no such code"
	}
	challenge := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	user, password, _ := r.BasicAuth()
	user, _ = url.QueryUnescape(user)
	password, _ = url.QueryUnescape(password)
	switch {
	case r.Method != http.MethodPost || r.PostForm.Get("grant_type") != "authorization_code":
		return "no exchange of a code"
	case r.PostForm.Get("redirect_uri") != g.request.Get("redirect_uri"):
		return "another redirect_uri"
	case base64.RawURLEncoding.EncodeToString(challenge[:]) != g.request.Get("code_challenge"):
		return "another code_verifier"
	case user != "gateway" || password != hostileSecret:
		return "another client"
	}
	return ""
}

// makeIDToken makes the ID token, with the lie.
func (g *grant) makeIDToken() string {
	now, half := time.Now(), sha256.Sum256([]byte(g.access))
	claims := map[string]any{
		"iss": g.h.issuer, "sub": g.sub, "aud": "gateway", "nonce": g.request.Get("nonce"), "sid": g.sid,
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		"at_hash": base64.RawURLEncoding.EncodeToString(half[:16]),
	}
	if g.lie.claims != nil {
		g.lie.claims(g, claims)
	}
	payload := payloadOf(claims)
	if g.lie.idToken != nil {
		return g.lie.idToken(g, payload)
	}
	return g.h.keys.sign(payload)
}

func (h *hostile) userinfo(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	var g *grant
	if token := r.Header.Get("Authorization"); len(token) > 7 && token[:7] == "Bearer " {
		g = h.grants[token[7:]]
	}
	h.mu.Unlock()
	if g == nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if g.lie.userinfo != nil {
		g.lie.userinfo(w, r)
		return
	}
	person := map[string]any{
		"sub": g.sub, "name": "Alice Example", "preferred_username": "alice",
		"email": "alice@company.com", "email_verified": true, "roles": []string{"user", "admin"},
	}
	if g.lie.person != nil {
		g.lie.person(g, person)
	}
	replyJSON(w, person)
}

// hostileKeys are the keys of a provider: the good key, and keys that must not
// verify a token.
type hostileKeys struct {
	good, unpublished *ecdsa.PrivateKey
	twin, other       *ecdsa.PrivateKey // published with the same kid
}

func newHostileKeys(t testing.TB) *hostileKeys {
	t.Helper()
	k := &hostileKeys{}
	for _, key := range []**ecdsa.PrivateKey{&k.good, &k.twin, &k.other, &k.unpublished} {
		var err error
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// set is the key set that the provider publishes.
func (k *hostileKeys) set() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		k.public(),
		{KeyID: "twin", Key: k.twin.Public(), Use: "sig"},
		{KeyID: "twin", Key: k.other.Public(), Use: "sig"},
	}}
}

func (k *hostileKeys) public() jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: "good", Key: k.good.Public(), Use: "sig", Algorithm: "ES256"}
}

// joseHeader is a JOSE header without alg.
type joseHeader = map[jose.HeaderKey]any

// sign signs a valid ID token.
func (k *hostileKeys) sign(payload []byte) string {
	return jws(jose.ES256, k.good, joseHeader{"kid": "good", "typ": "JWT"}, payload)
}

// jws signs in the compact form.
func jws(algorithm jose.SignatureAlgorithm, key any, h joseHeader, payload []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, &jose.SignerOptions{ExtraHeaders: h})
	if err != nil {
		panic(err) // the test made the key and the header
	}
	signature, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	token, err := signature.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}
