package e2e

import (
	"crypto/x509"
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

// wrong is a lie that fails a login, the status of the answer, and what the
// log says about it.
type wrong struct {
	lie
	status int
	why    string // a regular expression, without case
}

// claim is a lie in the ID token: the claim has another value, or is missing
// if value is nil.
func claim(name string, value any) lie {
	return lie{claims: func(_ *grant, claims map[string]any) { putMember(claims, name, value) }}
}

// userinfoWith is a lie in userinfo: the member has another value, or is
// missing if value is nil.
func userinfoWith(name string, value any) lie {
	return lie{person: func(_ *grant, person map[string]any) { putMember(person, name, value) }}
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

// tokenAnswer is a lie that replaces the answer of the token endpoint.
func tokenAnswer(status int, mediaType, body string) lie {
	return lie{token: plainAnswer(status, mediaType, body)}
}

// userinfoAnswer is a lie that replaces the answer of the userinfo endpoint.
func userinfoAnswer(answer http.HandlerFunc) lie {
	return lie{userinfo: answer}
}

// wrongLogins has at least one lie for each part of what a provider says. The
// tests of gateway/provider have all others. No gateway may go to elsewhere.
func wrongLogins(elsewhere string) map[string]wrong {
	header := func(key func(*hostileKeys) any, h joseHeader) lie {
		return idToken(func(k *hostileKeys, payload []byte) string { return jws(jose.ES256, key(k), h, payload) })
	}
	good := func(k *hostileKeys) any { return k.good }
	unpublished := func(k *hostileKeys) any { return k.unpublished }
	wrongs := map[string]wrong{
		"claims: nonce":   {claim("nonce", "another"), 502, "nonce"},
		"claims: iss":     {claim("iss", "https://evil.example"), 502, `different provider|\biss|issue`},
		"claims: aud":     {claim("aud", "another"), 502, "aud"},
		"claims: azp":     {claim("azp", "another"), 502, "azp"},
		"claims: expired": {claim("exp", time.Now().Add(-time.Second).Unix()), 502, "expired"},
		"claims: at_hash": {claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), 502, "at_hash|access token"},

		"signature: none": {idToken(func(_ *hostileKeys, payload []byte) string { return unsecured("none", payload) }), 502, "none|alg"},
		"signature: HS256 with the public key": {idToken(func(k *hostileKeys, payload []byte) string {
			return jws(jose.HS256, publicPEM(k), joseHeader{"kid": "good"}, payload)
		}), 502, "HS256"},
		"signature: HS256 with the client secret": {idToken(func(_ *hostileKeys, payload []byte) string {
			return jws(jose.HS256, []byte(hostileSecret), joseHeader{"kid": "good"}, payload)
		}), 502, "HS256"},
		"signature: another key": {header(unpublished, joseHeader{"kid": "good"}), 502, "sign|verif"},
		"signature: two kid":     {header(func(k *hostileKeys) any { return k.twin }, joseHeader{"kid": "twin"}), 502, "twin"},
		"signature: embedded key": {idToken(func(k *hostileKeys, payload []byte) string {
			return jws(jose.ES256, k.unpublished, joseHeader{"kid": "good", "jwk": jose.JSONWebKey{Key: k.unpublished.Public()}}, payload)
		}), 502, "jwk|sign"},
		"signature: jku": {header(good, joseHeader{"kid": "good", "jku": elsewhere}), 502, "jku"},
		"signature: x5u": {header(good, joseHeader{"kid": "good", "x5u": elsewhere}), 502, "x5u"},
		"signature: typ": {header(good, joseHeader{"kid": "good", "typ": "logout+jwt"}), 502, "typ"},

		"token: no id_token":      {lie{answer: func(_ *grant, answer map[string]any) { delete(answer, "id_token") }}, 502, "id_token|ID token"},
		"token: refused with 200": {tokenAnswer(200, "application/json", `{"error":"invalid_grant"}`), 401, "invalid_grant"},
		"token: failed":           {tokenAnswer(500, "text/html", "<h1>Server Error</h1>"), 502, "500"},
		"token: redirect":         {lie{token: redirectAway(elsewhere)}, 502, "redirect"},
		"token: cut off": {lie{token: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
		}}, 502, "EOF"},
		"token: connection closed": {lie{token: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, 502, "EOF|reset"},
		"token: long header": {lie{token: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Padding", strings.Repeat("a", 200_000))
			w.WriteHeader(http.StatusOK)
		}}, 502, "header"},

		"userinfo: another sub":    {userinfoWith("sub", "admin"), 502, "another person|sub"},
		"userinfo: failed":         {userinfoAnswer(plainAnswer(500, "text/plain", "oops")), 502, "500"},
		"userinfo: redirect":       {userinfoAnswer(redirectAway(elsewhere)), 502, "redirect"},
		"userinfo: roles":          {userinfoWith("roles", "user,admin"), 502, "roles.*array"},
		"userinfo: two addresses":  {userinfoWith("email", "a@evil.example@company.com"), 502, "email"},
		"userinfo: user name":      {userinfoWith("preferred_username", "alice\r\nX-Auth-Roles: admin"), 502, "preferred_username|user name"},
		"userinfo: name":           {userinfoWith("name", []string{"Alice"}), 502, "name"},
		"userinfo: email_verified": {userinfoWith("email_verified", 0), 502, "email_verified"},
		"userinfo: large claims":   {userinfoWith("address", strings.Repeat("a", 70_000)), 502, "claims"},
	}
	// The description of an error repeats what the gateway sent. No secret of it
	// may get into the log this way.
	for name, sent := range map[string]func(*http.Request) string{
		"the code":               func(r *http.Request) string { return r.PostForm.Get("code") },
		"the code, cut":          func(r *http.Request) string { return strings.Repeat("x", 150) + r.PostForm.Get("code") },
		"the verifier":           func(r *http.Request) string { return r.PostForm.Get("code_verifier") },
		"the Authorization":      func(r *http.Request) string { return r.Header.Get("Authorization") },
		"the secret of a client": func(*http.Request) string { return hostileSecret },
	} {
		wrongs["token: refused with "+name] = wrong{lie{token: func(w http.ResponseWriter, r *http.Request) {
			refuseOAuth(w, http.StatusBadRequest, "invalid_grant", "not good: "+sent(r))
		}}, 401, "invalid_grant"}
	}
	return wrongs
}

// unsecured is a token without a signature.
func unsecured(algorithm string, payload []byte) string {
	head := fmt.Sprintf(`{"alg":%q,"kid":"good"}`, algorithm)
	return unsigned(sign(head, string(payload), nil))
}

func publicPEM(k *hostileKeys) []byte {
	der, err := x509.MarshalPKIXPublicKey(k.good.Public())
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// payloadOf encodes claims as the payload of a token.
func payloadOf(claims map[string]any) []byte {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // the test made them
	}
	return payload
}

// plainAnswer answers with a status and a body.
func plainAnswer(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// redirectAway redirects with a status that keeps method and body.
func redirectAway(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
}

// sendEndless sends up to 1 GB, and adds to sent what it could send.
func sendEndless(w http.ResponseWriter, r *http.Request, sent *atomic.Int64) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"sub":"`))
	block := []byte(strings.Repeat("a", 64<<10))
	for range 1 << 30 / len(block) {
		n, err := w.Write(block)
		sent.Add(int64(n))
		if err != nil || r.Context().Err() != nil {
			return
		}
	}
}

// forbiddenPlace is an address that fails the test when a gateway asks for it.
func forbiddenPlace(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the gateway went where the provider led it: %s %s", r.Method, r.URL)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/elsewhere"
}

// TestHostileProvider: a lie of a provider fails the login or has no effect,
// and the log tells the operator why.
func TestHostileProvider(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "hostile")
	s := startStage(t, "", h)
	t.Run("fails", func(t *testing.T) {
		for name, w := range wrongLogins(forbiddenPlace(t)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, id := s.visitor(), newRequestID()
				a := s.begin(t, c, h)
				g := a.agree(w.lie)
				s.refused(t, c, h, a.back(c, g.response(), "Accept", "text/html", "X-Request-Id", id), w.status)
				s.explain(t, id, w.why)
				if g.exchanges() != 1 {
					t.Errorf("the code came to the token endpoint %d times", g.exchanges())
				}
				for _, c := range h.calls("/userinfo") {
					if !strings.HasPrefix(name, "userinfo") && c.header.Get("Authorization") == "Bearer "+g.access {
						t.Error("the gateway used the access token before it verified the ID token")
					}
				}
			})
		}
	})
	t.Run("odd", func(t *testing.T) {
		for name, o := range oddLogins() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := s.visitor()
				s.enters(t, c, h, o.lie)
				s.getsAsFar(t, c, o)
			})
		}
	})
	s.check(t)
}

// odd is a login that succeeds, the headers that the upstream gets, and what
// the person may see.
type odd struct {
	lie
	headers map[string]string // empty: the header is missing
	admin   int               // status of the resource for administrators
	company int               // status of the resource for addresses at company.com
}

func oddLogins() map[string]odd {
	// A JWT access token may have roles when userinfo has none.
	access := func(sign func(k *hostileKeys, payload []byte) string) lie {
		return lie{
			person: func(_ *grant, p map[string]any) { delete(p, "roles") },
			claims: func(_ *grant, c map[string]any) { delete(c, "at_hash") },
			access: func(g *grant) string {
				return sign(g.h.keys, payloadOf(map[string]any{
					"iss": g.h.issuer, "sub": g.sub, "aud": "api", "exp": time.Now().Add(time.Hour).Unix(), "roles": []string{"admin"},
				}))
			},
		}
	}
	header := func(name, value string) map[string]string { return map[string]string{name: value} }
	return map[string]odd{
		"no lie":     {lie{}, map[string]string{"X-Auth-User": "alice", "X-Auth-Email": "alice@company.com", "X-Auth-Roles": "user,admin"}, 200, 200},
		"unverified": {userinfoWith("email_verified", false), map[string]string{"X-Auth-Email": "", "X-Auth-User": "alice"}, 200, 403},
		"address of another domain": {userinfoWith("email", "alice@company.com.evil.example"),
			header("X-Auth-Email", "alice@company.com.evil.example"), 200, 403},
		"no roles":             {userinfoWith("roles", nil), header("X-Auth-Roles", ""), 403, 200},
		"two roles in one":     {userinfoWith("roles", []string{"user,admin"}), header("X-Auth-Roles", ""), 403, 200},
		"a role in capitals":   {userinfoWith("roles", []string{"Admin", "ADMIN"}), header("X-Auth-Roles", "Admin,ADMIN"), 403, 200},
		"name of a local user": {userinfoWith("preferred_username", "local:alice"), header("X-Auth-User", "local:alice"), 200, 200},
		"a name in lines": {userinfoWith("name", "Alice\r\nX-Auth-Roles: owner\r\n\r\nGET /x HTTP/1.1"),
			map[string]string{"X-Auth-Name": "", "X-Auth-Roles": "user,admin"}, 200, 200},
		"a name beyond ASCII":       {userinfoWith("name", "Zoë Ångström 名"), header("X-Auth-Name", "Zoë Ångström 名"), 200, 200},
		"another iss in userinfo":   {userinfoWith("iss", "https://evil.example"), header("X-Auth-Provider", "hostile"), 200, 200},
		"roles of the access token": {access((*hostileKeys).sign), header("X-Auth-Roles", "admin"), 200, 200},
		"roles of a forged access token": {access(func(k *hostileKeys, payload []byte) string {
			return jws(jose.ES256, k.unpublished, joseHeader{"kid": "good"}, payload)
		}), header("X-Auth-Roles", ""), 403, 200},
	}
}

// getsAsFar checks the headers that the upstream gets, and which resources are
// open.
func (s *stage) getsAsFar(t *testing.T, c *http.Client, o odd) {
	t.Helper()
	m := s.isIn(t, c, "/secure-resource")
	if m == nil {
		t.Fatal("the browser is not signed in")
	}
	wantHeaders(t, *m, o.headers)
	wantHeaders(t, *m, map[string]string{"X-Auth-Subject": "hostile:" + subjectOf(t), "X-Auth-Mechanism": "oidc", "Cookie": ""})
	for path, want := range map[string]int{"/admin-resource": o.admin, "/company-resource": o.company, "/alice-resource": 403, "/local-resource": 401} {
		if got := s.ask(t, c, "GET", path).status; got != want {
			t.Errorf("%s is %d, expected %d", path, got, want)
		}
	}
	var me map[string]any
	if err := json.Unmarshal([]byte(s.ask(t, c, "GET", "/me").body), &me); err != nil || me["provider"] != "hostile" {
		t.Errorf("/me: %v, %v", me, err)
	}
	if page := s.ask(t, c, "GET", "/me", "Accept", "text/html"); page.status != 200 {
		t.Errorf("/me as a page: %d", page.status)
	}
}
