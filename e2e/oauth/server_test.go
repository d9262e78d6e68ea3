package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/go-jose/go-jose/v4"
)

// shopSecret is the secret of the client shop. It has characters that a form and a Basic
// header must encode (RFC 6749, section 2.3.1).
const shopSecret = world.CertifiedSecret

// server is a gateway as an authorization server and OpenID provider, and an API behind it
// that opens to bearer tokens.
type server struct {
	*world.Instance
	up   *world.Recorder
	port string // on the user's machine, where shop may ask the user to go after signing out
}

// prepare returns a server that does not run yet. more is added to the section oauth.
func prepare(t *testing.T, more string) *server {
	t.Helper()
	s := &server{world.Prepare(t), world.Record(t), world.FreePort(t)}
	s.Configure(world.People + world.App(s.up.URL) + fmt.Sprintf(`
routes:
  - {match: /api/, upstream: app, auth: [bearer]}
oauth:
  enabled: true
  registration: open
  clients:
    - id: shop
      name: Shop
      secret: '%s'
      redirect_uris: ["http://127.0.0.1/callback"]
      post_logout_redirect_uris: ["http://127.0.0.1:%s/callback"]
      grants: [authorization_code, refresh_token, client_credentials]
      roles: [machine]
      default_resource: all
    - id: phone
      redirect_uris: ["http://127.0.0.1/callback"]
      grants: [authorization_code, refresh_token, device_code]
      default_resource: all
`, shopSecret, s.port) + more)
	return s
}

// start is prepare, and runs.
func start(t *testing.T, more string) *server {
	t.Helper()
	s := prepare(t, more)
	s.Run()
	return s
}

// user is a person at a browser who allows what is asked.
type user struct{ *world.Browser }

// allow opens an address, and sends the forms of the gateway's pages as alice, who allows
// everything.
func (u user) allow(address string) {
	u.T.Helper()
	u.Open(address)
	for range 5 {
		f, ok := u.Form()
		switch {
		case u.Next != "":
			return
		case u.Page.Status != http.StatusOK:
			u.T.Fatalf("the user cannot go on: %s", u.Describe())
		case !ok:
			return
		case f.Fields.Has("username"):
			u.Send(map[string]string{"username": "alice", "password": world.Passwords["alice"]})
		case f.Fields.Has("seal"):
			u.Send(map[string]string{"decision": "allow"})
		case f.Fields.Has("user_code"):
			u.Send(nil)
		}
	}
	u.T.Fatalf("too many forms: %s", u.Describe())
}

// wantUpstream fails the test unless requests reached the API at a path, all of them
// those of a user, and without a token.
func (s *server) wantUpstream(t *testing.T, path, user, roles string) {
	t.Helper()
	got := s.up.AskedFor(path)
	if len(got) == 0 {
		t.Errorf("nothing reached the API at %s", path)
	}
	for _, m := range got {
		if name := m.Value(t, "X-Auth-User"); name != user || m.Value(t, "X-Auth-Roles") != roles {
			t.Errorf("at %s, the API got the user %s with the roles %s", path, name, m.Value(t, "X-Auth-Roles"))
		}
		if authorization := m.Value(t, "Authorization"); authorization != "" {
			t.Errorf("at %s, the API got %s", path, authorization)
		}
	}
}

// documented is a client whose name is the address of a document about it.
type documented struct {
	address string // of the document
	key     string // file with its private key
}

// serveDocument serves the document of a client with a key of its own, which authenticates by
// a method, and writes the
// authority of the site to roots.pem beside the gateway's configuration.
func serveDocument(t *testing.T, g *world.Instance, method string) *documented {
	t.Helper()
	key := world.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	d := &documented{key: filepath.Join(g.Dir, "client-key.pem")}
	private := world.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	g.Write("client-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", world.TypeJSON)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"client_id": d.address, "client_name": "Documented", "redirect_uris": []string{"http://127.0.0.1/callback"},
			"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
			"token_endpoint_auth_method": method,
			"jwks": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
				{Key: key.Public(), KeyID: "its-key", Algorithm: "ES256", Use: "sig"},
			}},
		})
	}))
	certificate, of := world.SelfSigned(t, &x509.Certificate{DNSNames: []string{"localhost"}}, key)
	pair := world.Must(tls.X509KeyPair([]byte(certificate), []byte(of)))(t)
	site.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	site.StartTLS()
	t.Cleanup(site.Close)
	g.Write("roots.pem", certificate)
	d.address = strings.Replace(site.URL, "127.0.0.1", "localhost", 1) + "/client.json"
	return d
}
