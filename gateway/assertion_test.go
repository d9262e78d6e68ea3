package gateway

import (
	"net/http"
	"strings"
	"testing"

	"authgate/gateway/wire/jose"
	"authgate/internal/test/must"
)

// An application with an assertion gets it with every identity and never from a client, a proxy
// that asks gets it too, and it opens nothing here.
func TestAssertionReachesTheApplication(t *testing.T) {
	t.Parallel()
	yaml := edit(t, verifyConfig, `  app: {url: "http://app.invalid"}`,
		`  app: {url: "http://app.invalid", assertion: {audience: authgate}, roles: {admin: Root}}
  named: {url: "http://named.invalid"}`)
	r := newRig(t, yaml)
	keys := must.Get(jose.Load("RS256", "", "", r.dir))(t)
	reader := jose.NewReader(keys, jose.ReaderOptions{
		Issuer: "https://gw.example", Audience: []string{"authgate"}, Now: r.clock.Now,
	})
	alice := r.client.Login(`{"username":"alice","password":"wonderland"}`)
	read := func(assertion string) (claims map[string]any) {
		t.Helper()
		claims, _, err := reader.Read(assertion)
		if err != nil || claims["sub"] != "local:alice" || claims["sid"] == nil {
			t.Fatalf("%q: %v, %v", assertion, claims, err)
		}
		return claims
	}
	forged := "X-Auth-Assertion: forged"
	r.client.Want(200, "GET", "/session/", "", alice.Cookie, forged, "X_Auth.Assertion: forged")
	sent := r.upstream.Last().Header
	claims := read(sent.Get("X-Auth-Assertion"))
	if roles := strings.Split(sent.Get("X-Auth-Roles"), ","); len(sent["X-Auth-Assertion"]) != 1 || roles[1] != "Root" {
		t.Errorf("the application got %v", sent)
	}
	for name := range sent {
		if strings.Contains(sent.Get(name), "forged") {
			t.Errorf("the client's %s reaches the application", name)
		}
	}
	r.client.Want(200, "GET", "/public/", "", alice.Cookie, forged)
	if got := r.upstream.Last().Header["X-Auth-Assertion"]; got != nil {
		t.Errorf("a public request has %q", got)
	}
	// Its audience is that of access tokens, and still it is none.
	for _, path := range []string{"/bearer/", "/me"} {
		r.client.Want(401, "GET", path, "", "Authorization: Bearer "+sent.Get("X-Auth-Assertion"))
	}
	if again := claims["jti"]; again != nil {
		t.Errorf("it has a jti, as access tokens have: %v", again)
	}
	asked := func(host, target string, header ...string) http.Header {
		return r.serve(question("192.0.2.7", append(asTraefik("GET", host, target), header...)...)).Header()
	}
	read(asked("wiki.example.org", "/", alice.Bearer).Get("X-Auth-Assertion"))
	if h := asked("gw.example", "/public/"); len(h["X-Auth-Assertion"]) != 1 || h.Get("X-Auth-Assertion") != "" {
		t.Errorf("without a user the proxy gets %q", h["X-Auth-Assertion"])
	}
}
