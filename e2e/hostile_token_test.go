package e2e

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// wrong is a lie, how it is answered, and what the log must say about it.
type wrong struct {
	lie
	status int
	why    string // a regular expression, without case
}

// claim is a lie in the ID token: a claim with another value, or without one
// if that is nil.
func claim(name string, value any) lie {
	return lie{claims: func(_ *grant, claims map[string]any) { putMember(claims, name, value) }}
}

func putMember(object map[string]any, name string, value any) {
	object[name] = value
	if value == nil {
		delete(object, name)
	}
}

// idToken is a lie in how the ID token is made.
func idToken(make func(k *hostileKeys, payload []byte) string) lie {
	return lie{idToken: func(g *grant, payload []byte) string { return make(g.h.keys, payload) }}
}

// wrongClaims are ID tokens that are signed as they should be.
func wrongClaims() map[string]wrong {
	now := time.Now()
	seconds := func(d time.Duration) int64 { return now.Add(d).Unix() }
	several := []string{"gateway", "another"}
	return map[string]wrong{
		"wrong nonce":             {claim("nonce", rand.Text()), 502, "nonce"},
		"empty nonce":             {claim("nonce", ""), 502, "nonce"},
		"missing nonce":           {claim("nonce", nil), 502, "nonce"},
		"nonce that is no string": {claim("nonce", 1), 502, "nonce|number"},
		"wrong iss":               {claim("iss", "https://evil.example"), 502, `different provider|\biss|issue`},
		"iss with a slash more": {lie{claims: func(g *grant, claims map[string]any) { claims["iss"] = g.h.issuer + "/" }},
			502, `different provider|\biss|issue`},
		"missing iss":             {claim("iss", nil), 502, `different provider|\biss|issue`},
		"wrong aud":               {claim("aud", "another"), 502, "aud"},
		"wrong aud, several":      {claim("aud", []string{"one", "another"}), 502, "aud"},
		"missing aud":             {claim("aud", nil), 502, "aud"},
		"aud is a part of ours":   {claim("aud", "gate"), 502, "aud"},
		"several aud without azp": {claim("aud", several), 502, "azp"},
		"several aud, wrong azp": {lie{claims: func(_ *grant, claims map[string]any) { claims["aud"], claims["azp"] = several, "another" }},
			502, "azp"},
		"wrong azp":            {claim("azp", "another"), 502, "azp"},
		"expired":              {claim("exp", seconds(-time.Minute*6)), 502, "expired"},
		"expired just now":     {claim("exp", seconds(-time.Second)), 502, "expired"},
		"no exp":               {claim("exp", nil), 502, "exp"},
		"exp that is a string": {claim("exp", "never"), 502, "exp|claims"},
		"exp beyond all time":  {claim("exp", json.Number("1e400")), 502, "exp|claims|number"},
		"iat in the future":    {claim("iat", seconds(time.Hour)), 502, "iat|issued"},
		"no iat":               {claim("iat", nil), 502, "iat|issued"},
		"nbf in the future":    {claim("nbf", seconds(time.Hour)), 502, "nbf|before"},
		"no sub":               {claim("sub", nil), 502, `\bsub`},
		"empty sub":            {claim("sub", ""), 502, `\bsub`},
		"long sub":             {claim("sub", strings.Repeat("a", 256)), 502, `\bsub`},
		"sub with a NUL":       {claim("sub", "a\x00b"), 502, `\bsub`},
		"wrong at_hash":        {claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), 502, "at_hash|access token"},
	}
}

// wrongTokens are ID tokens with honest claims that are not signed as they
// should be. elsewhere is a place that no gateway must ever go to.
func wrongTokens(elsewhere string) map[string]wrong {
	rogue := func(h joseHeader) func(*hostileKeys, []byte) string {
		return func(k *hostileKeys, payload []byte) string { return jws(jose.ES256, k.unpublished, h, payload) }
	}
	good := func(more joseHeader) func(*hostileKeys, []byte) string {
		return func(k *hostileKeys, payload []byte) string {
			h := joseHeader{"kid": "good"}
			for name, value := range more {
				h[name] = value
			}
			return jws(jose.ES256, k.good, h, payload)
		}
	}
	hmac := func(key func(*hostileKeys) []byte, kid string) lie {
		return idToken(func(k *hostileKeys, payload []byte) string {
			return jws(jose.HS256, key(k), joseHeader{"kid": kid}, payload)
		})
	}
	return map[string]wrong{
		"alg none":            {idToken(func(_ *hostileKeys, payload []byte) string { return unsecured("none", payload) }), 502, "none|alg"},
		"alg None":            {idToken(func(_ *hostileKeys, payload []byte) string { return unsecured("None", payload) }), 502, "none|alg"},
		"no alg":              {idToken(func(_ *hostileKeys, payload []byte) string { return unsecured("", payload) }), 502, `signed with ""|alg`},
		"HS256, PEM":          {hmac(publicPEM, "good"), 502, "HS256"},
		"HS256, DER":          {hmac(publicDER, "good"), 502, "HS256"},
		"HS256, JWK":          {hmac(publicJWK, "good"), 502, "HS256"},
		"HS256, secret":       {hmac(func(*hostileKeys) []byte { return []byte(hostileSecret) }, "good"), 502, "HS256"},
		"HS256, secret alone": {hmac(func(*hostileKeys) []byte { return []byte(hostileSecret) }, ""), 502, "HS256|kid"},
		"HS256, shared key":   {hmac(func(k *hostileKeys) []byte { return k.shared }, "shared"), 502, "HS256"},
		"another key":         {idToken(rogue(joseHeader{"kid": "good"})), 502, "sign|verif"},
		"no kid":              {idToken(func(k *hostileKeys, payload []byte) string { return jws(jose.ES256, k.good, nil, payload) }), 502, "kid"},
		"no kid, nor has the key": {idToken(func(k *hostileKeys, payload []byte) string {
			return jws(jose.ES256, k.other, nil, payload)
		}), 502, "kid"},
		"two keys with one kid, the first":  {idToken(func(k *hostileKeys, p []byte) string { return jws(jose.ES256, k.twin, joseHeader{"kid": "twin"}, p) }), 502, "twin"},
		"two keys with one kid, the second": {idToken(func(k *hostileKeys, p []byte) string { return jws(jose.ES256, k.other, joseHeader{"kid": "twin"}, p) }), 502, "twin"},
		"unknown kid":                       {idToken(func(k *hostileKeys, p []byte) string { return jws(jose.ES256, k.good, joseHeader{"kid": "unknown"}, p) }), 502, "unknown"},
		"key for encryption": {idToken(func(k *hostileKeys, p []byte) string {
			return jws(jose.ES256, k.forEncryption, joseHeader{"kid": "encryption"}, p)
		}), 502, "encryption"},
		"embedded jwk": {idToken(func(k *hostileKeys, p []byte) string {
			return jws(jose.ES256, k.unpublished, joseHeader{"kid": "good", "jwk": jose.JSONWebKey{Key: k.unpublished.Public()}}, p)
		}), 502, "jwk|sign"},
		"embedded jwk alone": {idToken(func(k *hostileKeys, p []byte) string {
			return jws(jose.ES256, k.unpublished, joseHeader{"jwk": jose.JSONWebKey{Key: k.unpublished.Public()}}, p)
		}), 502, "jwk|kid"},
		"jku":                 {idToken(rogue(joseHeader{"kid": "good", "jku": elsewhere})), 502, "jku|sign"},
		"jku, signed well":    {idToken(good(joseHeader{"jku": elsewhere})), 502, "jku"},
		"x5u, signed well":    {idToken(good(joseHeader{"x5u": elsewhere})), 502, "x5u"},
		"crit":                {idToken(good(joseHeader{"crit": []string{"exp"}, "exp": 1})), 502, "crit"},
		"typ of another kind": {idToken(good(joseHeader{"typ": "logout+jwt"})), 502, "typ"},
		"not compact": {idToken(func(k *hostileKeys, p []byte) string {
			return signed(jose.ES256, k.good, joseHeader{"kid": "good"}, p).FullSerialize()
		}), 502, ""},
		"nonsense":             {idToken(func(*hostileKeys, []byte) string { return "id." + rand.Text() + ".token" }), 502, ""},
		"two members sub":      {idToken(doubledMember("sub", "admin")), 502, "sub|twice|double|duplicate"},
		"two members nonce":    {idToken(doubledMember("nonce", "x")), 502, "nonce|twice|double|duplicate"},
		"no JSON":              {idToken(func(k *hostileKeys, _ []byte) string { return k.sign([]byte("sub=admin")) }), 502, ""},
		"no object":            {idToken(func(k *hostileKeys, p []byte) string { return k.sign([]byte("[" + string(p) + "]")) }), 502, ""},
		"signature of another": {idToken(func(k *hostileKeys, p []byte) string { return swappedPayload(k.sign([]byte(`{"sub":"x"}`)), p) }), 502, "sign|verif"},
	}
}

// unsecured is a token without a signature.
func unsecured(algorithm string, payload []byte) string {
	head := `{"kid":"good"}`
	if algorithm != "" {
		head = fmt.Sprintf(`{"alg":%q,"kid":"good"}`, algorithm)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(head)) + "." + encode(payload) + "."
}

// swappedPayload puts a payload under the signature of a token.
func swappedPayload(token string, payload []byte) string {
	parts := strings.Split(token, ".")
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + parts[2]
}

// doubledMember puts a second member of a name first, so that most readers
// believe the other.
func doubledMember(name, value string) func(*hostileKeys, []byte) string {
	return func(k *hostileKeys, payload []byte) string {
		return k.sign(fmt.Appendf(nil, "{%q:%q,%s", name, value, payload[1:]))
	}
}

func publicDER(k *hostileKeys) []byte {
	der, err := x509.MarshalPKIXPublicKey(k.good.Public())
	if err != nil {
		panic(err)
	}
	return der
}

func publicPEM(k *hostileKeys) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER(k)})
}

func publicJWK(k *hostileKeys) []byte {
	raw, err := json.Marshal(k.public())
	if err != nil {
		panic(err)
	}
	return raw
}

// wrongAnswers are what the token endpoint says otherwise.
func wrongAnswers(elsewhere string) map[string]wrong {
	member := func(name string, value any) lie {
		return lie{answer: func(_ *grant, answer map[string]any) { putMember(answer, name, value) }}
	}
	plain := func(status int, mediaType, body string) lie {
		return lie{token: func(w http.ResponseWriter, _ *http.Request) { sayPlain(w, status, mediaType, body) }}
	}
	return map[string]wrong{
		"token_type mac":            {member("token_type", "mac"), 502, "token_type|mac"},
		"no id_token":               {member("id_token", nil), 502, "id_token|ID token"},
		"empty id_token":            {member("id_token", ""), 502, "id_token|ID token"},
		"id_token that is a number": {member("id_token", 1), 502, "id_token|ID token"},
		"no access_token":           {member("access_token", nil), 502, "access_token|access token"},
		// What was sent must not come into the log this way.
		"refused, with the code":       {repeatedRefusal(func(r *http.Request) string { return r.PostForm.Get("code") }), 401, "invalid_grant"},
		"refused, with the verifier":   {repeatedRefusal(func(r *http.Request) string { return r.PostForm.Get("code_verifier") }), 401, "invalid_grant"},
		"refused, with the header":     {repeatedRefusal(func(r *http.Request) string { return r.Header.Get("Authorization") }), 401, "invalid_grant"},
		"refused, with the secret":     {repeatedRefusal(func(*http.Request) string { return hostileSecret }), 401, "invalid_grant"},
		"refused, with a secret in it": {repeatedRefusal(func(r *http.Request) string { return strings.Repeat("x", 150) + r.PostForm.Get("code") }), 401, "invalid_grant"},
		"refused with 200":             {plain(200, "application/json", `{"error":"invalid_grant"}`), 401, "invalid_grant"},
		"failed":                       {plain(500, "text/html", "<h1>Server Error</h1>"), 502, "500"},
		"overloaded":                   {plain(503, "application/json", "{}"), 502, "503"},
		"a page":                       {plain(200, "text/html", "<h1>Welcome</h1>"), 502, ""},
		"nothing":                      {plain(200, "application/json", ""), 502, ""},
		"endless":                      {lie{token: func(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, nil) }}, 502, "1048576|long|large|size"},
		"redirect":                     {lie{token: redirectAway(elsewhere)}, 502, "redirect"},
		"cut off": {lie{token: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
		}}, 502, "EOF"},
		"broken off": {lie{token: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, 502, "EOF|reset"},
		"long header": {lie{token: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Padding", strings.Repeat("a", 200_000))
			w.WriteHeader(http.StatusOK)
		}}, 502, "header"},
	}
}

// repeatedRefusal is an answer of the token endpoint that repeats what was sent.
func repeatedRefusal(repeated func(*http.Request) string) lie {
	return lie{token: func(w http.ResponseWriter, r *http.Request) {
		refuseOAuth(w, http.StatusBadRequest, "invalid_grant", "not good: "+repeated(r))
	}}
}

// sayPlain answers with a body as it stands.
func sayPlain(w http.ResponseWriter, status int, mediaType, body string) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// redirectAway keeps method and body.
func redirectAway(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
}

// sendEndless sends up to 1 GB, and counts what it could send.
func sendEndless(w http.ResponseWriter, r *http.Request, sent *atomic.Int64) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"sub":"`))
	block := []byte(strings.Repeat("a", 64<<10))
	for range 1 << 30 / len(block) {
		n, err := w.Write(block)
		if sent != nil {
			sent.Add(int64(n))
		}
		if err != nil || r.Context().Err() != nil {
			return
		}
	}
}

// forbiddenPlace is a place that no gateway must ever go to.
func forbiddenPlace(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the gateway has gone to where a lie led it: %s %s", r.Method, r.URL)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/elsewhere"
}

// TestHostileTokens: whatever is wrong with the ID token or the answer that
// brings it, nobody gets in, and the operator knows why.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	h, elsewhere := newHostile(t, "hostile"), forbiddenPlace(t)
	s := startStage(t, "", h)
	for group, wrongs := range map[string]map[string]wrong{
		"claims": wrongClaims(), "signature": wrongTokens(elsewhere), "answer": wrongAnswers(elsewhere),
	} {
		t.Run(group, func(t *testing.T) {
			for name, w := range wrongs {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					g := s.refuses(t, h, w)
					if g.exchanges() != 1 {
						t.Errorf("the code came to the token endpoint %d times", g.exchanges())
					}
					for _, c := range h.calls("/userinfo") {
						if c.header.Get("Authorization") == "Bearer "+g.access {
							t.Error("the access token was used before the ID token was found good")
						}
					}
				})
			}
		})
	}
	t.Run("honest", func(t *testing.T) {
		for name, l := range map[string]lie{
			"without a lie":        {},
			"several aud with azp": {claims: func(_ *grant, c map[string]any) { c["aud"], c["azp"] = []string{"another", "gateway"}, "gateway" }},
			"one aud in an array":  claim("aud", []string{"gateway"}),
			"no at_hash":           claim("at_hash", nil),
			"no typ":               idToken(func(k *hostileKeys, p []byte) string { return jws(jose.ES256, k.good, joseHeader{"kid": "good"}, p) }),
			"token_type in capitals": {answer: func(_ *grant, answer map[string]any) {
				answer["token_type"] = "BEARER"
			}},
		} {
			t.Run(name, func(t *testing.T) {
				c := s.visitor()
				s.enters(t, c, h, l)
				if m := s.isIn(t, c, "/admin-resource"); m == nil || m.value(t, "X-Auth-Subject") != "hostile:"+subjectOf(t) {
					t.Errorf("who got in is not known as such: %+v", m)
				}
			})
		}
	})
	s.check(t)
}

// refuses has somebody log in with a lie, which must not get them in.
func (s *stage) refuses(t *testing.T, h *hostile, w wrong) *grant {
	t.Helper()
	c, id := s.visitor(), newRequestID()
	a := s.begin(t, c, h)
	g := a.agree(w.lie)
	s.refused(t, c, h, a.back(c, g.response(), "Accept", "text/html", "X-Request-Id", id), w.status)
	s.explain(t, id, w.why)
	return g
}
