package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"authgate/internal/test/must"
)

// Provider is an OpenID provider without pages, with the clock of the gateway.
// The code for an authorization request is its nonce.
type Provider struct {
	T         testing.TB
	Issuer    string
	Now       func() time.Time
	Key       *ecdsa.PrivateKey
	Asked     atomic.Int64     // requests to the token endpoint
	Renewed   http.HandlerFunc // answers a refresh token; nil: it issues none
	Discovers func()           // is called by each discovery; nil: nothing is
	Claims    map[string]any   // over those of the ID token of a sign-in
	Revoked   chan string      // gets tokens that are revoked; nil: none can be
}

// NewProvider starts a provider.
func NewProvider(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{T: t, Key: NewECKey(t), Now: time.Now}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.Issuer = server.URL
	return p
}

// NewECKey returns a new key for signatures.
func NewECKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		if p.Discovers != nil {
			p.Discovers()
		}
		metadata := map[string]any{
			"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "/authorize", "token_endpoint": p.Issuer + "/token",
			"jwks_uri": p.Issuer + "/jwks", "id_token_signing_alg_values_supported": []string{"ES256"},
		}
		if p.Revoked != nil {
			metadata["revocation_endpoint"] = p.Issuer + "/revoke"
		}
		p.Reply(w, metadata)
	case "/revoke":
		p.Revoked <- r.PostFormValue("token")
	case "/jwks":
		p.Reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "key", Key: p.Key.Public()}}})
	case "/token":
		p.Asked.Add(1)
		if r.PostFormValue("grant_type") == "refresh_token" {
			p.Renewed(w, r)
			return
		}
		claims := map[string]any{"nonce": r.PostFormValue("code")}
		maps.Copy(claims, p.Claims)
		answer := p.Tokens(p.Key, claims)
		if p.Renewed != nil {
			answer["refresh_token"] = "refresh"
		}
		p.Reply(w, answer)
	default:
		p.T.Errorf("%s %s", r.Method, r.URL)
	}
}

// Reply answers with JSON.
func (p *Provider) Reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.T.Error(err)
	}
}

// Tokens returns an answer of the token endpoint. The ID token is about carol, apart
// from the changes.
func (p *Provider) Tokens(key *ecdsa.PrivateKey, changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": p.Issuer, "aud": "gateway", "sub": "1", "preferred_username": "carol", "roles": []string{"user"},
		"iat": p.Now().Unix(), "exp": p.Now().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, changes)
	token := ""
	by := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{KeyID: "key", Key: key}}
	signer, err := jose.NewSigner(by, nil)
	if err == nil {
		token, err = jwt.Signed(signer).Claims(claims).Serialize()
	}
	if err != nil {
		p.T.Error(err)
	}
	return map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": token}
}

// Bearer returns the header line of a token about carol, apart from the changes.
func (p *Provider) Bearer(changes map[string]any) string {
	claims := map[string]any{"jti": "1"}
	maps.Copy(claims, changes)
	token, _ := p.Tokens(p.Key, claims)["id_token"].(string)
	return "Authorization: Bearer " + token
}

// AnswerTo returns where the provider sends back a browser that came to a place of it: it
// asks nothing, as a provider does where the user is signed in already.
func (p *Provider) AnswerTo(t testing.TB, place string) string {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil || !strings.HasPrefix(place, p.Issuer+"/authorize?") {
		t.Fatalf("the browser is at %q, not at the provider", place)
	}
	asked := u.Query()
	answer := url.Values{"state": asked["state"], "code": asked["nonce"]}
	return "https://gw.example/callback?" + answer.Encode()
}

// Config returns a configuration with the provider, and a place for users who sign in
// there.
func (p *Provider) Config(base, more string) string {
	return base + "  - {match: /delegated/, upstream: app, auth: [oidc]}\n" +
		"providers:\n  - {name: small, issuer: \"" + p.Issuer + "\", client_id: gateway}\n" + more
}

// Rig returns a rig with that configuration.
func (p *Provider) Rig(base, more string) *Rig {
	p.T.Helper()
	r := New(p.T, p.Config(base, more))
	p.Now = r.Clock.Now
	return r
}

// Delegated returns a rig with a provider; see Provider.Config.
func Delegated(t testing.TB, more string) (*Rig, *Provider) {
	t.Helper()
	p := NewProvider(t)
	return p.Rig(Base, more), p
}

// wayBack is how a browser returns from the provider: the target, and the cookie that
// the attempt is bound to.
type wayBack struct{ Target, Cookie string }

// Leave sends GET /login. cookie is that of an earlier attempt, or empty.
func (c *Client) Leave(cookie string) wayBack { return c.LeaveFrom("/login", cookie) }

// LeaveFrom is Leave for a place that leads to the provider.
func (c *Client) LeaveFrom(place, cookie string) wayBack {
	c.T.Helper()
	w := c.Want(302, "GET", place, "", cookie)
	if len(w.Result().Cookies()) != 1 {
		c.T.Fatalf("GET %s: to %q with %q", place, w.Header().Get("Location"), w.Header()["Set-Cookie"])
	}
	return wayBack{"/callback?" + ResponseTo(QueryOf(c.T, w)), JarOf(w).Line()}
}

// ResponseTo returns the query with which the provider answers an authorization request.
func ResponseTo(request url.Values) string {
	return url.Values{"state": request["state"], "code": request["nonce"]}.Encode()
}

// Carol signs in at the provider. The result is the line of her session.
func (c *Client) Carol() string {
	c.T.Helper()
	back := c.Leave("")
	session := JarOf(c.Want(302, "GET", back.Target, "", back.Cookie)).Line("session")
	if session == "" {
		c.T.Fatal("the callback sets no session")
	}
	return session
}

// QueryOf returns the parameters of the place that an answer leads to.
func QueryOf(t testing.TB, w *httptest.ResponseRecorder) url.Values {
	t.Helper()
	return must.Get(url.Parse(w.Header().Get("Location")))(t).Query()
}
