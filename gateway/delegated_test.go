package gateway

import (
	"cmp"
	"context"
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

	"authgate/gateway/store"
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

// Refreshed tokens that are not acceptable change nothing: the user goes on with
// what is known. Those of the provider count.
func TestRenewal(t *testing.T) {
	t.Parallel()
	stranger := newECKey(t)
	for name, c := range map[string]struct {
		changes map[string]any // to the ID token
		key     *ecdsa.PrivateKey
		roles   string
	}{
		"acceptable":                {map[string]any{"roles": []string{"admin"}}, nil, "admin"},
		"another user":              {map[string]any{"sub": "2", "preferred_username": "mallory", "roles": []string{"admin"}}, nil, "user"},
		"another key":               {map[string]any{"roles": []string{"admin"}}, stranger, "user"},
		"roles that are not a list": {map[string]any{"roles": "admin"}, nil, "user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := delegatedRig(t, "")
			p.renewed = func(w http.ResponseWriter, _ *http.Request) { p.reply(w, p.tokens(cmp.Or(c.key, p.key), c.changes)) }
			back := r.leave("")
			session := sessionIn(r.do("GET", back.target, "", back.cookie))
			r.clock.advance(5*time.Minute + time.Second) // the tokens have expired
			for range 2 {                                // the second request does not ask the provider
				w := r.do("GET", "/delegated/", "", session)
				if w.Code != http.StatusOK {
					t.Fatalf("the session: %d %s", w.Code, w.Body)
				}
				h := r.upstream.last().Header
				if h.Get("X-Auth-Subject") != "small:1" || h.Get("X-Auth-User") != "carol" || h.Get("X-Auth-Roles") != c.roles {
					t.Errorf("the upstream gets %q, %q, %q", h.Get("X-Auth-Subject"), h.Get("X-Auth-User"), h.Get("X-Auth-Roles"))
				}
			}
			if got := p.asked.Load(); got != 2 {
				t.Errorf("%d requests to the token endpoint", got)
			}
			failures := len(r.log.records(t, "refreshing a provider's tokens failed; the login goes on with what is known"))
			if want := strings.Count(c.roles, "user"); failures != want {
				t.Errorf("the log has %d failures, want %d:\n%s", failures, want, r.log)
			}
		})
	}
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

// sizingStore notes the largest value that is put into it.
type sizingStore struct {
	store.Store
	largest int
}

func (s *sizingStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	s.largest = max(s.largest, len(value))
	return s.Store.Put(ctx, key, value, expires)
}

// Anybody can begin to log in at a provider. What that leaves in the store is
// bounded for each client: one that begins more than a person can has to wait.
func TestAttemptsOfOneClientAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	const begun, enough = 3000, 1000
	last := 0
	for range begun {
		last = r.do("GET", "/login", "").Code
	}
	kept, err := r.store.Store.(store.Counter).Count(t.Context(), "attempt:")
	if err != nil {
		t.Fatal(err)
	}
	if kept > enough || last == http.StatusFound {
		t.Errorf("of %d attempts from one address %d are kept, and the last is answered %d; want no more than %d, and the last refused", begun, kept, last, enough)
	}
}

// The place to return to is kept with the attempt, so it cannot be of any
// length: one that is too long is dropped, as one on another origin is.
func TestAttemptsKeepNoLongPath(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	sized := &sizingStore{Store: r.store.Store}
	r.store.Store = sized
	for _, length := range []int{10, 1000, 10_000, 60_000} {
		if w := r.do("GET", "/login?return_to=/"+strings.Repeat("x", length), ""); w.Code != http.StatusFound {
			t.Fatalf("a path of %d bytes: %d", length, w.Code)
		}
	}
	if sized.largest > 8<<10 {
		t.Errorf("an attempt of anybody takes %d bytes in the store, want 8 KiB at most", sized.largest)
	}
}

// A token of one issuer opens nothing that is for those of another, however
// well it is known already, and neither does one that only claims to be.
func TestTokenOfAnotherRoutesIssuer(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	r := newRig(t, edit(t, baseConfig, "basic:\n", "token:\n  trusted_issuers:\n"+
		"    - {name: one, issuer: \""+one.issuer+"\", audience: [gateway]}\n    - {name: two, issuer: \""+two.issuer+"\", audience: [gateway]}\nbasic:\n")+
		"  - {match: /one/, upstream: app, auth: [bearer], policy: {providers: [one]}}\n"+
		"  - {match: /two/, upstream: app, auth: [bearer], policy: {providers: [two]}}\n"+
		"  - {match: /own/, upstream: app, auth: [bearer], policy: {providers: [local]}}\n")
	t.Cleanup(r.Close)
	one.now, two.now = r.clock.now, r.clock.now
	bearer := func(p *smallProvider, issuer string) string {
		token, _ := p.tokens(p.key, map[string]any{"iss": issuer, "jti": "1"})["id_token"].(string)
		return "Authorization: Bearer " + token
	}
	ofOne, ofTwo, own := bearer(one, one.issuer), bearer(two, two.issuer), r.login(aliceIn).bearer
	for range 3 { // cold, then warm
		for _, c := range []struct {
			name, header, opens string // the only route, none where empty
		}{
			{"of the one", ofOne, "/one/"}, {"of the other", ofTwo, "/two/"}, {"the gateway's own", own, "/own/"},
			{"of the one, in the name of the other", bearer(one, two.issuer), ""}, {"of the other, in the name of the one", bearer(two, one.issuer), ""},
			{"of the one, in the gateway's name", bearer(one, "https://gw.example"), ""},
			{"of the one, with another's signature", ofOne[:strings.LastIndexByte(ofOne, '.')] + ofTwo[strings.LastIndexByte(ofTwo, '.'):], ""},
		} {
			for _, route := range []string{"/one/", "/two/", "/own/"} {
				before := r.upstream.count()
				w := r.do("GET", route, "", c.header)
				if reached := r.upstream.count() > before; reached != (route == c.opens) {
					t.Errorf("a token %s at %s: %d, reached the upstream: %t", c.name, route, w.Code, reached)
				}
			}
		}
	}
}

// One changed byte of a token of another issuer never verifies, be the token
// itself known as good by then or not.
func FuzzTrustedTokenChangedByte(f *testing.F) {
	p := newSmallProvider(f)
	r := newRig(f, edit(f, baseConfig, "basic:\n", "token: {trusted_issuers: [{name: small, issuer: \""+p.issuer+"\", audience: [gateway]}]}\nbasic:\n"))
	f.Cleanup(r.Close)
	p.now = r.clock.now
	good, _ := p.tokens(p.key, map[string]any{"jti": "1"})["id_token"].(string)
	for _, at := range []uint16{0, 5, 20, 40, 60, 90, 200, uint16(len(good) - 86), uint16(len(good) - 40), uint16(len(good) - 1)} {
		for _, with := range []byte{'A', 'Q', '.', '=', '-', ' '} {
			f.Add(at, with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(good)
		changed[int(at)%len(changed)] = with
		before := r.upstream.count()
		w := r.do("GET", "/bearer/", "", "Authorization: Bearer "+string(changed))
		reached := r.upstream.count() > before
		if same := string(changed) == good; same != (w.Code == 200) || same != reached || !same && w.Code != 401 {
			t.Errorf("byte %d as %q: %d, reached the upstream: %t", int(at)%len(good), with, w.Code, reached)
		}
	})
}
