package gateway

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
)

// smallProvider is an OpenID provider without pages, with the clock of the gateway.
// The code for an authorization request is its nonce.
type smallProvider struct {
	t         testing.TB
	issuer    string
	now       func() time.Time
	key       *ecdsa.PrivateKey
	asked     atomic.Int64     // requests to the token endpoint
	renewed   http.HandlerFunc // answers a refresh token; nil: it issues none
	discovers func()           // is called by each discovery; nil: nothing is
	claims    map[string]any   // over those of the ID token of a sign-in
	revoked   chan string      // gets tokens that are revoked; nil: none can be
}

func newSmallProvider(t testing.TB) *smallProvider {
	t.Helper()
	p := &smallProvider{t: t, key: newECKey(t), now: time.Now}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.issuer = server.URL
	return p
}

func newECKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (p *smallProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		if p.discovers != nil {
			p.discovers()
		}
		metadata := map[string]any{
			"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize", "token_endpoint": p.issuer + "/token",
			"jwks_uri": p.issuer + "/jwks", "id_token_signing_alg_values_supported": []string{"ES256"},
		}
		if p.revoked != nil {
			metadata["revocation_endpoint"] = p.issuer + "/revoke"
		}
		p.reply(w, metadata)
	case "/revoke":
		p.revoked <- r.PostFormValue("token")
	case "/jwks":
		p.reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "key", Key: p.key.Public()}}})
	case "/token":
		p.asked.Add(1)
		if r.PostFormValue("grant_type") == "refresh_token" {
			p.renewed(w, r)
			return
		}
		claims := map[string]any{"nonce": r.PostFormValue("code")}
		maps.Copy(claims, p.claims)
		answer := p.tokens(p.key, claims)
		if p.renewed != nil {
			answer["refresh_token"] = "refresh"
		}
		p.reply(w, answer)
	default:
		p.t.Errorf("%s %s", r.Method, r.URL)
	}
}

func (p *smallProvider) reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.t.Error(err)
	}
}

// tokens returns an answer of the token endpoint. The ID token is about carol, apart
// from the changes.
func (p *smallProvider) tokens(key *ecdsa.PrivateKey, changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": p.issuer, "aud": "gateway", "sub": "1", "preferred_username": "carol", "roles": []string{"user"},
		"iat": p.now().Unix(), "exp": p.now().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, changes)
	token := ""
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{KeyID: "key", Key: key}}, nil)
	if err == nil {
		token, err = jwt.Signed(signer).Claims(claims).Serialize()
	}
	if err != nil {
		p.t.Error(err)
	}
	return map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": token}
}

// bearer returns the header line of a token about carol, apart from the changes.
func (p *smallProvider) bearer(changes map[string]any) string {
	claims := map[string]any{"jti": "1"}
	maps.Copy(claims, changes)
	token, _ := p.tokens(p.key, claims)["id_token"].(string)
	return "Authorization: Bearer " + token
}

// answerTo returns where the provider sends back a browser that came to a place of it: it
// asks nothing, as a provider does where the user is signed in already.
func (p *smallProvider) answerTo(t testing.TB, place string) string {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil || !strings.HasPrefix(place, p.issuer+"/authorize?") {
		t.Fatalf("the browser is at %q, not at the provider", place)
	}
	asked := u.Query()
	answer := url.Values{"state": asked["state"], "code": asked["nonce"]}
	return "https://gw.example/callback?" + answer.Encode()
}

// config returns a configuration with the provider, and a route for users who sign in
// there.
func (p *smallProvider) config(base, more string) string {
	return base + "  - {match: /delegated/, upstream: app, auth: [oidc]}\n" +
		"providers:\n  - {name: small, issuer: \"" + p.issuer + "\", client_id: gateway}\n" + more
}

// rig returns a rig with that configuration.
func (p *smallProvider) rig(base, more string) *rig {
	p.t.Helper()
	r := newRig(p.t, p.config(base, more))
	p.now = r.clock.Now
	return r
}

// delegatedRig returns a rig with a provider; see smallProvider.config.
func delegatedRig(t testing.TB, more string) (*rig, *smallProvider) {
	t.Helper()
	p := newSmallProvider(t)
	return p.rig(baseConfig, more), p
}

// wayBack is how a browser returns from the provider: the target, and the cookie that
// the attempt is bound to.
type wayBack struct{ target, cookie string }

// leave sends GET /login. cookie is that of an earlier attempt, or empty.
func (r *rig) leave(cookie string) wayBack { return r.leaveFrom("/login", cookie) }

func (r *rig) leaveFrom(place, cookie string) wayBack {
	r.t.Helper()
	w := r.want(302, "GET", place, "", cookie)
	if len(w.Result().Cookies()) != 1 {
		r.t.Fatalf("GET %s: to %q with %q", place, w.Header().Get("Location"), w.Header()["Set-Cookie"])
	}
	return wayBack{"/callback?" + responseTo(queryOf(r.t, w)), jarOf(w).line()}
}

// responseTo returns the query with which the small provider answers an authorization
// request.
func responseTo(request url.Values) string {
	return url.Values{"state": request["state"], "code": request["nonce"]}.Encode()
}

// carol signs in at the provider. The result is the line of her session.
func (r *rig) carol() string {
	r.t.Helper()
	back := r.leave("")
	session := jarOf(r.want(302, "GET", back.target, "", back.cookie)).line("session")
	if session == "" {
		r.t.Fatal("the callback sets no session")
	}
	return session
}

// queryOf returns the parameters of the place that an answer leads to.
func queryOf(t testing.TB, w *httptest.ResponseRecorder) url.Values {
	t.Helper()
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return to.Query()
}
