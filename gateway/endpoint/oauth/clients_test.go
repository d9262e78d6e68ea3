package oauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// A program registers itself, and signs a user in to what it was registered for.
func TestRegisteredClient(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  registration: open\n  registration_rate: {requests: 5, per: 1h}\n")
	const body = `{"client_name": "Tool", "redirect_uris": ["http://127.0.0.1/cb", "cursor://x/cb"],
		"grant_types": ["authorization_code", "client_credentials"]}`
	w := s.Want(201, "POST", "/oauth/register", body, rig.JSON, "Origin: https://tool.example.net")
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("%v", w.Header())
	}
	var made struct {
		ID        string   `json:"client_id"`
		Secret    string   `json:"client_secret"`
		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
	}
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &made))
	if len(made.Redirects) != 1 || len(made.Grants) != 1 {
		t.Errorf("%+v", made)
	}
	const redirect = "http://127.0.0.1:49152/cb"
	request := ask("client_id", made.ID, "redirect_uri", redirect, "resource", "https://gw.example/bearer/")
	redeem := redemption(s.code(t, request), "redirect_uri", redirect)
	if a := s.post(t, 401, "/oauth/token", redeem, rig.Basic(made.ID, "wrong")); a.Error != "invalid_client" {
		t.Errorf("a wrong secret: %+v", a)
	}
	if a := s.post(t, 200, "/oauth/token", redeem, rig.Basic(made.ID, made.Secret)); a.Access == "" || a.Refresh != "" {
		t.Errorf("%+v", a)
	}
	request.Set("redirect_uri", "cursor://x/cb")
	if w := s.authorize(request); w.Code != 400 {
		t.Errorf("a redirect URI that was left out: %d", w.Code)
	}
	for want, body := range map[string]string{
		"invalid_redirect_uri": `{"redirect_uris": ["javascript:alert(1)"]}`,
		"invalid_client_metadata": `{"redirect_uris": ["https://a.example.net/"],
			"token_endpoint_auth_method": "tls_client_auth"}`,
	} {
		w := s.Want(400, "POST", "/oauth/register", body, rig.JSON)
		if !strings.Contains(w.Body.String(), `"error":"`+want+`"`) {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	s.Want(413, "POST", "/oauth/register", `{"x": "`+strings.Repeat("x", 16<<10)+`"}`, rig.JSON)
	s.Want(415, "POST", "/oauth/register", body, rig.Form)
	s.Want(429, "POST", "/oauth/register", body, rig.JSON)
}

// A client that is named by a document signs users in without being configured, and proves
// who it is by its key, once. A document inside is an unknown client.
func TestClientOfADocument(t *testing.T) {
	t.Parallel()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	set := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one"}}}))(t)
	var id string
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"client_id": %q, "client_name": "Far away", "redirect_uris": ["https://far.example.net/cb"],
			"grant_types": ["authorization_code", "refresh_token"],
			"token_endpoint_auth_method": "private_key_jwt", "jwks": %s}`, id, set)
	}))
	t.Cleanup(site.Close)
	id = site.URL + "/client.json"
	roots := filepath.Join(t.TempDir(), "roots.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	must.Do(t, os.WriteFile(roots, certificate, 0o600))
	s := newServer(t, configuration+"  metadata_clients: {hosts: [127.0.0.1], trusted_roots: "+roots+"}\n")
	const redirect = "https://far.example.net/cb"
	request := ask("client_id", id, "redirect_uri", redirect, "resource", "https://gw.example/bearer/")
	if w := s.authorize(request); w.Code != 200 || !strings.Contains(w.Body.String(), "Far away") ||
		!strings.Contains(w.Body.String(), "far.example.net") {
		t.Errorf("the page does not say who asks: %d %s", w.Code, w.Body)
	}
	redeem := redemption(s.code(t, request), "redirect_uri", redirect, "client_id", id)
	if a := s.post(t, 401, "/oauth/token", redeem); a.Error != "invalid_client" {
		t.Errorf("without an assertion: %+v", a)
	}
	now := time.Now()
	unsigned := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": id, "sub": id, "aud": issuer + "/oauth/token", "jti": "one", "exp": now.Add(time.Minute).Unix(),
	})
	unsigned.Header["kid"] = "one"
	proof := url.Values{
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {must.Get(unsigned.SignedString(key))(t)},
	}
	for name, values := range redeem {
		proof[name] = values
	}
	a := s.post(t, 200, "/oauth/token", proof)
	proof = url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {a.Refresh},
		"client_assertion": proof["client_assertion"], "client_assertion_type": proof["client_assertion_type"],
	}
	if a := s.post(t, 401, "/oauth/token", proof); a.Error != "invalid_client" {
		t.Errorf("an assertion that is replayed: %+v", a)
	}
	inside := newServer(t, configuration)
	if w := inside.authorize(request); w.Code != 400 || w.Header().Get("Location") != "" {
		t.Errorf("a document inside: %d %v", w.Code, w.Header())
	}
}

// What a client has got from users opens nothing once the operator has removed the client. Clients
// that need no configuration stay.
func TestRemovedClient(t *testing.T) {
	t.Parallel()
	with := configuration + "  registration: open\n"
	s := newServer(t, with)
	a := s.tokens(t)
	var made struct {
		ID string `json:"client_id"`
	}
	body := `{"redirect_uris": ["https://tool.example.net/"], "token_endpoint_auth_method": "none"}`
	must.Do(t, json.Unmarshal(s.Want(201, "POST", "/oauth/register", body, rig.JSON).Body.Bytes(), &made))
	code := s.code(t, ask("client_id", made.ID, "redirect_uri", "https://tool.example.net/"))
	other := s.post(t, 200, "/oauth/token", redemption(code, "redirect_uri", "", "client_id", made.ID))
	userinfo := func(status int, token string) {
		t.Helper()
		s.Want(status, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+token)
	}
	userinfo(200, a.Access)
	s.Reload(strings.Replace(configuration, "{id: wiki,", "{id: wiki2,", 1)) // and registration is off
	userinfo(401, a.Access)
	userinfo(200, other.Access)
	s.Reload(with)
	userinfo(200, a.Access)
}

// The addresses of a /64 prefix share a registration_rate.
func TestRegistrationsOfAPrefix(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  registration: open\n  registration_rate: {requests: 2, per: 1h}\n")
	for i, c := range []struct {
		from string
		want int
	}{
		{"2001:db8::1", 201}, {"2001:db8::2", 201}, {"2001:db8:0:0:ffff::3", 429}, {"2001:db8:0:1::1", 201},
	} {
		q := rig.Request("POST", "/oauth/register", `{"redirect_uris": ["https://tool.example.net/"]}`, rig.JSON)
		q.RemoteAddr = "[" + c.from + "]:4711"
		if w := s.Serve(q); w.Code != c.want {
			t.Errorf("%d. registration, from %s: %d", i+1, c.from, w.Code)
		}
	}
}

// A registration_rate of 0 requests limits nothing.
func TestRegistrationWithoutALimit(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  registration: open\n  registration_rate: {requests: 0, per: 24h}\n")
	for range 25 {
		s.Want(201, "POST", "/oauth/register", `{"redirect_uris": ["https://tool.example.net/"]}`, rig.JSON)
	}
}
