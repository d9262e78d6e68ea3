package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"authgate/gateway/clocktest"
)

// Tests run against a fake provider that does everything right, unless told
// otherwise: by other claims, another answer of an endpoint, another key.

const (
	discoveryPath = "/.well-known/openid-configuration"

	testClient = "authgate"
	testSecret = "the client's secret"
)

var testAttempt = Attempt{State: "the-state", Nonce: "the-nonce", Verifier: "the-code-verifier-of-at-least-43-characters"}

// testKey is a key pair of the fake.
type testKey struct {
	kid       string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func (k testKey) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.kid, Algorithm: string(k.algorithm), Use: "sig"}
}

func newECKey(t testing.TB, kid string) testKey {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testKey{kid: kid, algorithm: jose.ES256, private: private}
}

func newRSAKey(t testing.TB, kid string, bits int) testKey {
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return testKey{kid: kid, algorithm: jose.RS256, private: private}
}

// sign signs claims, or raw JSON, with further members of the header over the
// usual ones.
func (k testKey) sign(t testing.TB, payload any, header map[jose.HeaderKey]any) string {
	raw, ok := payload.(string)
	if !ok {
		raw = marshal(t, payload)
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", k.kid)
	for name, value := range header {
		if value == nil {
			delete(options.ExtraHeaders, name)
		} else {
			options.WithHeader(name, value)
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// fake is the provider. Its fields may be changed between calls; where calls
// may come from the background, with change.
type fake struct {
	t    testing.TB
	now  func() time.Time
	key  testKey
	keys []jose.JSONWebKey // published
	idp  string            // issuer

	discovery map[string]any                  // over what is announced; nil leaves a member out
	id        map[string]any                  // over the claims of ID tokens; nil leaves a claim out
	header    map[jose.HeaderKey]any          // over the header of ID tokens
	idToken   func(claims map[string]any) any // instead of signing: what the answer contains; nil leaves it out
	userinfo  map[string]any                  // the answer
	access    string                          // the access token
	answer    map[string]any                  // over the token endpoint's answer; nil leaves a member out
	instead   map[string]http.HandlerFunc     // by path

	mu    sync.Mutex
	calls map[string]int
	forms map[string]url.Values // the last at each path
	auth  map[string]string     // the last Authorization at each path
}

func newFake(t testing.TB, now func() time.Time) *fake {
	key := newECKey(t, "first")
	return &fake{
		t: t, now: now, key: key, keys: []jose.JSONWebKey{key.public()}, idp: "http://127.0.0.1",
		discovery: map[string]any{}, id: map[string]any{}, access: "opaque-access-token", answer: map[string]any{},
		userinfo: map[string]any{"sub": "alice-sub", "name": "Alice", "email": "alice@example.org", "preferred_username": "alice", "roles": []string{"user", "admin"}},
		instead:  map[string]http.HandlerFunc{},
		calls:    map[string]int{}, forms: map[string]url.Values{}, auth: map[string]string{},
	}
}

// listen serves the fake on loopback.
func (f *fake) listen() *fake {
	server := httptest.NewServer(f)
	f.t.Cleanup(server.Close)
	f.idp = server.URL
	return f
}

// options of a relying party of the fake.
func (f *fake) options() Options {
	return Options{
		Name: "test", Issuer: f.idp, Client: Client{ID: testClient, Secret: testSecret},
		Scopes: []string{"openid", "profile"}, Mapping: Mapping{Roles: "roles", Username: "preferred_username"},
		RedirectURL: "https://gateway.example/callback", PostLogoutURL: "https://gateway.example/",
		Connection: Connection{Timeout: time.Hour, Now: f.now},
	}
}

// provider is a relying party of the fake, with options changed.
func (f *fake) provider(change func(*Options)) *Provider {
	o := f.options()
	if change != nil {
		change(&o)
	}
	p := New(o)
	f.t.Cleanup(p.Close)
	return p
}

// RoundTrip serves the fake without a network, for tests with synthetic time.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	f.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return recorder.Result(), nil
}

// change changes the fake while background work may call it.
func (f *fake) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) called(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[path]
}

func (f *fake) form(path string) url.Values {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forms[path]
}

func (f *fake) authorization(path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.auth[path]
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.ParseForm() // what is no form is an empty one
	f.mu.Lock()
	f.calls[r.URL.Path]++
	f.forms[r.URL.Path], f.auth[r.URL.Path] = r.PostForm, r.Header.Get("Authorization")
	answer, ok := f.instead[r.URL.Path]
	if !ok {
		answer = f.usual(r)
	}
	f.mu.Unlock()
	answer(w, r)
}

// usual is the good answer to a request.
func (f *fake) usual(r *http.Request) http.HandlerFunc {
	var value any
	switch {
	case r.URL.Path == discoveryPath:
		value = f.document()
	case r.URL.Path == "/keys":
		value = jose.JSONWebKeySet{Keys: f.keys}
	case r.URL.Path == "/token":
		value = f.token()
	case r.URL.Path == "/userinfo" && r.Header.Get("Authorization") == "Bearer "+f.access:
		value = f.userinfo
	case r.URL.Path == "/userinfo":
		return say(http.StatusUnauthorized, "", "")
	default:
		return say(http.StatusNotFound, "", "")
	}
	return say(http.StatusOK, "application/json", marshal(f.t, value))
}

func (f *fake) document() map[string]any {
	return over(map[string]any{
		"issuer": f.idp, "authorization_endpoint": f.idp + "/authorize", "token_endpoint": f.idp + "/token",
		"userinfo_endpoint": f.idp + "/userinfo", "jwks_uri": f.idp + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256", "HS256", "none"},
	}, f.discovery)
}

func (f *fake) token() map[string]any {
	var id any
	if claims := f.claims(f.id); f.idToken != nil {
		id = f.idToken(claims)
	} else {
		id = f.key.sign(f.t, claims, f.header)
	}
	return over(map[string]any{
		"access_token": f.access, "token_type": "bearer", "expires_in": 300, "refresh_token": "the-refresh-token", "id_token": id,
	}, f.answer)
}

// claims are those of a good token.
func (f *fake) claims(change map[string]any) map[string]any {
	return over(map[string]any{
		"iss": f.idp, "sub": "alice-sub", "aud": testClient, "nonce": testAttempt.Nonce,
		"iat": f.now().Unix(), "exp": f.now().Add(5 * time.Minute).Unix(),
	}, change)
}

// over lays members over others; nil removes one.
func over(members, change map[string]any) map[string]any {
	maps.Copy(members, change)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	return members
}

func marshal(t testing.TB, value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// say answers with a status, a media type and a body.
func say(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// exchange logs in.
func exchange(t testing.TB, p *Provider) (*Grant, error) {
	t.Helper()
	return p.Exchange(t.Context(), "the-code", testAttempt)
}

// mustExchange logs in and succeeds.
func mustExchange(t testing.TB, p *Provider) *Grant {
	t.Helper()
	grant, err := exchange(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// wantError checks that err is of the kind, says text, and holds no secret.
func wantError(t testing.TB, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want one that is %q", err, kind)
	}
	for _, other := range []error{ErrRefused, ErrFault, ErrTimeout, ErrMixUp, ErrInvalid} {
		if other != kind && errors.Is(err, other) {
			t.Errorf("error %v is %q too", err, other)
		}
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got error %q, want one with %q", err, text)
	}
	for _, secret := range []string{"the-code", "the-refresh-token", "the-access-token", "opaque-access-token", testSecret, "eyJ"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q holds the secret %q", err, secret)
		}
	}
}

// wantResult checks that err is of the kind and says text, or is nil if text is empty.
func wantResult(t testing.TB, err, kind error, text string) {
	t.Helper()
	if text != "" {
		wantError(t, err, kind, text)
	} else if err != nil {
		t.Error(err)
	}
}

// loginTest is a login at a fake that was changed.
type loginTest struct {
	name   string
	change func(*fake)
	text   string // of the fault; empty: the login succeeds
}

// testLogins logs in at the fake as each test changes it.
func testLogins(t *testing.T, tests []loginTest) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			test.change(f)
			_, err := exchange(t, f.provider(nil))
			wantResult(t, err, ErrFault, test.text)
		})
	}
}

// unsigned is a token with alg none.
func unsigned(claims map[string]any, header string) string {
	payload, _ := json.Marshal(claims)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode(payload) + "."
}

// atHash is the at_hash of an access token under a 256 bit algorithm.
func atHash(access string) string {
	sum := sha256.Sum256([]byte(access))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// stall answers when the caller has given up.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
