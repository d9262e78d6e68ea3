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
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
)

// Tests run against a fake provider that does everything right, unless told
// otherwise: by other claims, another answer of an endpoint, another key.

const (
	discoveryPath = "/.well-known/openid-configuration"

	testClient = "authgate"
	testSecret = "the client's secret"
)

var (
	endpoints   = []string{discoveryPath, "/keys", "/token", "/userinfo"} // of a login
	testAttempt = Attempt{State: "the-state", Nonce: "the-nonce", Verifier: "the-code-verifier-of-at-least-43-characters"}
	basicHeader = "Basic " + base64.StdEncoding.EncodeToString([]byte(testClient+":"+url.QueryEscape(testSecret)))
)

type (
	object     = map[string]any
	joseHeader = map[jose.HeaderKey]any
)

// must returns value, where err would be a fault of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// testKey is a key pair of the fake.
type testKey struct {
	kid       string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func newECKey(kid string) testKey {
	return testKey{kid, jose.ES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
}

func newRSAKey(bits int) testKey {
	return testKey{"first", jose.RS256, must(rsa.GenerateKey(rand.Reader, bits))}
}

func (k testKey) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.kid, Algorithm: string(k.algorithm), Use: "sig"}
}

// sign signs claims, or raw JSON, with further members of the header over the
// usual ones.
func (k testKey) sign(payload any, header joseHeader) string {
	raw, ok := payload.(string)
	if !ok {
		raw = marshal(payload)
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", k.kid)
	maps.Copy(options.ExtraHeaders, header)
	maps.DeleteFunc(options.ExtraHeaders, func(_ jose.HeaderKey, value any) bool { return value == nil })
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options))
	return must(must(signer.Sign([]byte(raw))).CompactSerialize())
}

// unsigned is a token without a signature.
func unsigned(claims object, header string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode([]byte(marshal(claims))) + "."
}

const algNone = `{"alg":"none","kid":"first"}`

// atHash is the at_hash of an access token under a 256 bit algorithm.
func atHash(access string) string {
	sum := sha256.Sum256([]byte(access))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// fake is the provider. Its fields may be changed between calls; where calls
// may come from the background, with change.
type fake struct {
	t         testing.TB
	clock     *clocktest.Clock
	now       func() time.Time
	transport http.RoundTripper // of relying parties; nil: their own
	log       logtest.Buffer    // of the relying parties
	key       testKey
	keys      []jose.JSONWebKey // published
	idp       string            // issuer

	discovery object                      // over what is announced; nil leaves a member out
	id        object                      // over the claims of ID tokens; nil leaves a claim out
	header    joseHeader                  // over the header of ID tokens
	idToken   func(claims object) any     // instead of signing: what the answer contains; nil leaves it out
	userinfo  object                      // the answer
	access    string                      // the access token
	answer    object                      // over the token endpoint's answer; nil leaves a member out
	instead   map[string]http.HandlerFunc // by path

	mu      sync.Mutex
	started time.Time
	calls   map[string][]int         // when, in seconds from the start, by path
	last    map[string]*http.Request // by path
}

// newFake returns a fake without a network that goes by a clock of its own.
func newFake(t testing.TB) *fake {
	key, clock := newECKey("first"), clocktest.New()
	f := &fake{
		t: t, clock: clock, now: clock.Now, key: key, keys: []jose.JSONWebKey{key.public()}, idp: "http://127.0.0.1",
		discovery: object{}, id: object{}, access: "opaque-access-token", answer: object{},
		userinfo: object{"sub": "alice-sub", "name": "Alice", "email": "alice@example.org",
			"preferred_username": "alice", "roles": []string{"user", "admin"}},
		instead: map[string]http.HandlerFunc{}, started: clock.Now(),
		calls: map[string][]int{}, last: map[string]*http.Request{},
	}
	f.transport = f
	return f
}

// listen serves the fake on loopback, for the transport of the package.
func (f *fake) listen() *fake {
	server := httptest.NewServer(f)
	f.t.Cleanup(server.Close)
	f.idp, f.transport = server.URL, nil
	return f
}

// inBubble runs a test on a fake in a bubble, and a relying party of it.
func inBubble(t *testing.T, test func(t *testing.T, f *fake, p *Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.now, f.started = time.Now, time.Now()
		test(t, f, f.provider(nil))
	})
}

// provider is a relying party of the fake, with options changed.
func (f *fake) provider(change func(*Options)) *Provider {
	o := Options{
		Name: "test", Issuer: f.idp, Client: Client{ID: testClient, Secret: testSecret},
		Scopes: []string{"openid", "profile"}, Mapping: Mapping{Roles: "roles", Username: "preferred_username"},
		RedirectURL: "https://gateway.example/callback", PostLogoutURL: "https://gateway.example/",
		Connection: f.connection(),
	}
	if change != nil {
		change(&o)
	}
	p := New(o)
	f.t.Cleanup(p.Close)
	return p
}

func (f *fake) connection() Connection {
	logger := slog.New(slog.NewJSONHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return Connection{Timeout: time.Hour, Now: f.now, Transport: f.transport, Logger: logger}
}

// github is a relying party of the fake without discovery and OpenID Connect.
func (f *fake) github() *Provider {
	return f.provider(func(o *Options) {
		o.Issuer, o.Scopes, o.SubjectClaim, o.Mapping.Username = "", []string{"read:user"}, "id", "login"
		o.Endpoints = f.endpoints("")
	})
}

func (f *fake) endpoints(keys string) Endpoints {
	return Endpoints{
		Authorization: f.idp + "/authorize", Token: f.idp + "/token", Userinfo: f.idp + "/userinfo", Keys: keys,
	}
}

// RoundTrip serves the fake without a network.
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

// fail makes a path answer 503, and mend makes it work again.
func (f *fake) fail(path string) { f.change(func() { f.instead[path] = say(503, "text/plain", "") }) }
func (f *fake) mend(path string) { f.change(func() { delete(f.instead, path) }) }

// called returns how often a path was called.
func (f *fake) called(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls[path])
}

// wantCalled fails the test unless a path was called so often.
func (f *fake) wantCalled(t testing.TB, path string, want int) {
	t.Helper()
	if got := f.called(path); got != want {
		t.Errorf("%s was called %d times, want %d", path, got, want)
	}
}

// lastCall returns the last form and the last Authorization at a path.
func (f *fake) lastCall(path string) (form url.Values, authorization string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[path].PostForm, f.last[path].Header.Get("Authorization")
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.ParseForm() // what is no form is an empty one
	f.mu.Lock()
	f.calls[r.URL.Path] = append(f.calls[r.URL.Path], int(f.now().Sub(f.started).Seconds()))
	f.last[r.URL.Path] = r
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
	return sayJSON(marshal(value))
}

func (f *fake) document() object {
	return over(object{
		"issuer": f.idp, "authorization_endpoint": f.idp + "/authorize", "token_endpoint": f.idp + "/token",
		"userinfo_endpoint": f.idp + "/userinfo", "jwks_uri": f.idp + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256", "HS256", "none"},
	}, f.discovery)
}

func (f *fake) token() object {
	var id any
	if claims := f.claims(f.id); f.idToken != nil {
		id = f.idToken(claims)
	} else {
		id = f.key.sign(claims, f.header)
	}
	return over(object{
		"access_token": f.access, "token_type": "bearer", "expires_in": 300,
		"refresh_token": "the-refresh-token", "id_token": id,
	}, f.answer)
}

// claims are those of a good token.
func (f *fake) claims(change object) object {
	return over(object{
		"iss": f.idp, "sub": "alice-sub", "aud": testClient, "nonce": testAttempt.Nonce,
		"iat": f.now().Unix(), "exp": f.now().Add(5 * time.Minute).Unix(),
	}, change)
}

// over lays members over others; nil removes one.
func over(members, change object) object {
	maps.Copy(members, change)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	return members
}

func marshal(value any) string { return string(must(json.Marshal(value))) }

// twice repeats the member sub, first with another value.
func twice(claims object) string {
	return strings.Replace(marshal(claims), `"sub":"alice-sub"`, `"sub":"bob-sub","sub":"alice-sub"`, 1)
}

// say answers with a status, a media type and a body.
func say(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// challenge answers as RFC 6750 describes it.
func challenge(says string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", says)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func sayJSON(body string) http.HandlerFunc { return say(http.StatusOK, "application/json", body) }

// stall answers when the caller has given up.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// exchange logs in.
func exchange(t testing.TB, p *Provider) (*Grant, error) {
	return p.Exchange(t.Context(), "the-code", testAttempt)
}

// refresh refreshes alice's tokens.
func refresh(t testing.TB, p *Provider, tokens Tokens) (*Grant, error) {
	return p.Refresh(t.Context(), tokens, "alice-sub")
}

// wantError checks that err is of the kind, says text, and holds no secret. Without a
// text there must be no error.
func wantError(t testing.TB, err, kind error, text string) {
	t.Helper()
	if text == "" && err == nil {
		return
	}
	if text == "" || !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Fatalf("got error %v, want %v with %q", err, kind, text)
	}
	for _, other := range []error{ErrRefused, ErrEnded, ErrClient, ErrFault, ErrTimeout, ErrMixUp, ErrInvalid} {
		if other != kind && errors.Is(err, other) {
			t.Errorf("error %v is %q too", err, other)
		}
	}
	for _, secret := range []string{
		"the-code", "the-refresh-token", "the-access-token", "opaque-access-token", testSecret, "eyJ",
	} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q holds the secret %q", err, secret)
		}
	}
}

// loginTest is a login at a fake that was changed.
type loginTest struct {
	name   string
	change func(*fake)
	text   string // of the fault; empty: the login succeeds
}

// testLogins logs in at the fake as each test changes it. After a fault the path
// next must not be called.
func testLogins(t *testing.T, next string, tests []loginTest) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			test.change(f)
			_, err := exchange(t, f.provider(nil))
			if wantError(t, err, ErrFault, test.text); err != nil {
				f.wantCalled(t, next, 0)
			}
		})
	}
}

// The changes of many tests.
func unchanged(*fake) {}
func announced(name string, value any) func(*fake) {
	return func(f *fake) { f.discovery[name] = value }
}
func answers(path string, answer http.HandlerFunc) func(*fake) {
	return func(f *fake) { f.instead[path] = answer }
}
