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
)

// smallProvider is an OpenID provider by the gateway's clock, without pages:
// the code for an authorization request is its nonce.
type smallProvider struct {
	t       testing.TB
	issuer  string
	now     func() time.Time
	key     *ecdsa.PrivateKey
	asked   atomic.Int64     // how often the token endpoint was
	renewed http.HandlerFunc // answers to a refresh token; nil: there is none
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
		p.reply(w, map[string]any{
			"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize", "token_endpoint": p.issuer + "/token",
			"jwks_uri": p.issuer + "/jwks", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	case "/jwks":
		p.reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "key", Key: p.key.Public()}}})
	case "/token":
		p.asked.Add(1)
		if r.PostFormValue("grant_type") == "refresh_token" {
			p.renewed(w, r)
			return
		}
		answer := p.tokens(p.key, map[string]any{"nonce": r.PostFormValue("code")})
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

// tokens is an answer of the token endpoint. The ID token says that it is
// about carol, but for the changes.
func (p *smallProvider) tokens(key *ecdsa.PrivateKey, changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": p.issuer, "aud": "gateway", "sub": "1", "preferred_username": "carol", "roles": []string{"user"},
		"iat": p.now().Unix(), "exp": p.now().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, changes)
	payload, err := json.Marshal(claims)
	if err != nil {
		p.t.Error(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{KeyID: "key", Key: key}}, nil)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	return map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": token}
}

// delegatedRig is a rig with one provider and a route for those whom it
// vouches for.
func delegatedRig(t testing.TB, more string) (*rig, *smallProvider) {
	t.Helper()
	p := newSmallProvider(t)
	r := newRig(t, baseConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers:\n  - {name: small, issuer: \""+p.issuer+"\", client_id: gateway}\n"+more)
	t.Cleanup(r.Close)
	p.now = r.clock.now
	return r, p
}

// wayBack is what a browser comes back with: the target, and the cookie that
// the attempt is bound to.
type wayBack struct{ target, cookie string }

// leave is GET /login, in a browser that has the cookie of an attempt before or
// none.
func (r *rig) leave(cookie string) wayBack {
	r.t.Helper()
	w := r.do("GET", "/login", "", cookie)
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusFound || len(w.Result().Cookies()) != 1 {
		r.t.Fatalf("GET /login: %d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	query := url.Values{"state": to.Query()["state"], "code": to.Query()["nonce"]}
	c := w.Result().Cookies()[0]
	return wayBack{"/callback?" + query.Encode(), "Cookie: " + c.Name + "=" + c.Value}
}

// sessionIn is the delegated session that an answer sets, as a header line;
// empty for none.
func sessionIn(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if c.Name == "session" && c.Value != "" {
			return "Cookie: session=" + c.Value
		}
	}
	return ""
}

// A person may take ten minutes at the provider. An attempt that is older is
// none, and nobody is asked about it; a younger one of the same browser is not
// touched by that.
func TestAttemptEnds(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	early, late := r.leave(""), wayBack{}
	r.clock.advance(10*time.Minute - time.Second)
	late = r.leave(early.cookie)
	if late.cookie != early.cookie {
		t.Error("a second attempt is bound to another cookie")
	}
	if w := r.do("GET", early.target, "", early.cookie); w.Code != http.StatusFound || sessionIn(w) == "" {
		t.Errorf("after nearly ten minutes: %d %s", w.Code, w.Body)
	}
	asked := p.asked.Load()
	r.clock.advance(10 * time.Minute)
	w := r.do("GET", late.target, "", late.cookie)
	if w.Code != http.StatusBadRequest || w.Header()["Set-Cookie"] != nil || !strings.Contains(problemOf(t, w).Detail, "took too long") {
		t.Errorf("after ten minutes: %d %q %s", w.Code, w.Header()["Set-Cookie"], w.Body)
	}
	if p.asked.Load() != asked {
		t.Error("the token endpoint was asked about an attempt that is too old")
	}
}

// A delegated session ends when its time is over, however much it is used.
func TestDelegatedSessionEnds(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "delegated: {lifetime: 30m}\n")
	back := r.leave("")
	session := sessionIn(r.do("GET", back.target, "", back.cookie))
	for range 3 {
		if w := r.do("GET", "/delegated/", "", session); w.Code != http.StatusOK {
			t.Fatalf("a session that lives: %d %s", w.Code, w.Body)
		}
		r.clock.advance(10*time.Minute - time.Second/3)
	}
	if w := r.do("GET", "/delegated/", "", session); w.Code != http.StatusOK || r.upstream.last().Header.Get("X-Auth-User") != "carol" {
		t.Errorf("in its last second: %d %s", w.Code, w.Body)
	}
	r.clock.advance(time.Second)
	asked := r.upstream.count()
	if w := r.do("GET", "/delegated/", "", session); w.Code != http.StatusUnauthorized || r.upstream.count() != asked {
		t.Errorf("after it: %d", w.Code)
	}
}

// A provider that vouches for somebody else, or for nobody, when its tokens are
// refreshed changes nothing: who came in goes on as who they were.
func TestHostileRenewal(t *testing.T) {
	t.Parallel()
	mallory := map[string]any{"sub": "2", "preferred_username": "mallory", "roles": []string{"admin"}}
	elevated := map[string]any{"roles": []string{"admin"}}
	stranger := newECKey(t)
	with := func(changes map[string]any, more string, value any) map[string]any {
		changes = maps.Clone(changes)
		changes[more] = value
		return changes
	}
	for name, renewed := range map[string]func(p *smallProvider) map[string]any{
		"another person": func(p *smallProvider) map[string]any { return p.tokens(p.key, mallory) },
		"another key":    func(p *smallProvider) map[string]any { return p.tokens(stranger, elevated) },
		"another client": func(p *smallProvider) map[string]any { return p.tokens(p.key, with(elevated, "aud", "other")) },
		"another issuer": func(p *smallProvider) map[string]any {
			return p.tokens(p.key, with(elevated, "iss", "https://evil.example"))
		},
		"expired":                func(p *smallProvider) map[string]any { return p.tokens(p.key, with(elevated, "exp", 1)) },
		"roles that are no list": func(p *smallProvider) map[string]any { return p.tokens(p.key, with(elevated, "roles", "admin")) },
		"no access token": func(p *smallProvider) map[string]any {
			return with(p.tokens(p.key, elevated), "access_token", "")
		},
		"another kind of token": func(p *smallProvider) map[string]any {
			return with(p.tokens(p.key, elevated), "token_type", "mac")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p, session := renewedRig(t, renewed)
			for range 2 { // the second time nobody is asked
				w := r.do("GET", "/delegated/", "", session)
				if w.Code != http.StatusOK {
					t.Fatalf("the session: %d %s", w.Code, w.Body)
				}
				h := r.upstream.last().Header
				if h.Get("X-Auth-Subject") != "small:1" || h.Get("X-Auth-User") != "carol" || h.Get("X-Auth-Roles") != "user" {
					t.Errorf("the upstream learns %q, %q, %q", h.Get("X-Auth-Subject"), h.Get("X-Auth-User"), h.Get("X-Auth-Roles"))
				}
			}
			if got := p.asked.Load(); got != 2 {
				t.Errorf("the token endpoint was asked %d times", got)
			}
			if len(r.log.records(t, "refreshing a provider's tokens failed; the login goes on with what is known")) != 1 {
				t.Errorf("the log does not say so once:\n%s", r.log)
			}
		})
	}
	t.Run("honest", func(t *testing.T) {
		r, _, session := renewedRig(t, func(p *smallProvider) map[string]any { return p.tokens(p.key, elevated) })
		if w := r.do("GET", "/delegated/", "", session); w.Code != http.StatusOK || r.upstream.last().Header.Get("X-Auth-Roles") != "admin" {
			t.Errorf("what the provider says rightly does not count: %d, %v", w.Code, r.upstream.last().Header)
		}
	})
}

// renewedRig is a delegatedRig in which somebody has signed in whose tokens
// have expired since, and which renewed answers with when they are refreshed.
func renewedRig(t *testing.T, renewed func(*smallProvider) map[string]any) (r *rig, p *smallProvider, session string) {
	t.Helper()
	r, p = delegatedRig(t, "")
	p.renewed = func(w http.ResponseWriter, _ *http.Request) { p.reply(w, renewed(p)) }
	back := r.leave("")
	session = sessionIn(r.do("GET", back.target, "", back.cookie))
	r.clock.advance(5*time.Minute + time.Second)
	return r, p, session
}

// Whichever operation of the store fails, a login ends in 503 and without a
// session.
func TestDelegatedStoreFails(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	r.leave("") // knows the provider from here on
	failAt := func(at int64) {
		r.store.breakIf(func(_ string, call int64, _ string) bool { return call == at })
	}
	failAt(0)
	if w := r.do("GET", "/login", ""); w.Code != http.StatusServiceUnavailable || w.Header()["Set-Cookie"] != nil || w.Header().Get("Location") != "" {
		t.Errorf("at the beginning: %d %q to %q", w.Code, w.Header()["Set-Cookie"], w.Header().Get("Location"))
	}
	const most = 50
	for at := range int64(most) {
		r.store.heal()
		back := r.leave("")
		failAt(at)
		w := r.do("GET", back.target, "", back.cookie)
		failed := r.store.calls.Load() > at
		r.store.heal()
		if !failed {
			if w.Code != http.StatusFound || sessionIn(w) == "" || at < 3 {
				t.Errorf("with a store that works: %d after %d operations", w.Code, at)
			}
			return
		}
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || len(w.Header()["Set-Cookie"]) > 0 {
			t.Errorf("operation %d of the store fails: %d %q", at, w.Code, w.Header()["Set-Cookie"])
		}
		if strings.Contains(w.Body.String(), "disk") {
			t.Errorf("operation %d of the store fails: the answer tells internals: %s", at, w.Body)
		}
	}
	t.Errorf("a login takes more than %d operations", most)
}

// The default time limit of a call to a provider is ten seconds.
func TestProviderTimeout(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	st := r.state.Load()
	if got := providerOptions(st.config, &st.config.Providers[0], &r.service).Timeout; got != 10*time.Second {
		t.Errorf("the timeout is %s", got)
	}
}
