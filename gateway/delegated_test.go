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

// smallProvider is an OpenID provider without pages, with the clock of the gateway.
// The code for an authorization request is its nonce.
type smallProvider struct {
	t       testing.TB
	issuer  string
	now     func() time.Time
	key     *ecdsa.PrivateKey
	asked   atomic.Int64     // requests to the token endpoint
	renewed http.HandlerFunc // answers a refresh token; nil: it issues none
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

// tokens returns an answer of the token endpoint. The ID token is about carol, apart
// from the changes.
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

// delegatedRig returns a rig with one provider, and a route for users who sign in
// there.
func delegatedRig(t testing.TB, more string) (*rig, *smallProvider) {
	t.Helper()
	p := newSmallProvider(t)
	r := newRig(t, baseConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers:\n  - {name: small, issuer: \""+p.issuer+"\", client_id: gateway}\n"+more)
	t.Cleanup(r.Close)
	p.now = r.clock.Now
	return r, p
}

// wayBack is how a browser returns from the provider: the target, and the cookie that
// the attempt is bound to.
type wayBack struct{ target, cookie string }

// leave sends GET /login. cookie is that of an earlier attempt, or empty.
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

// sessionIn returns the delegated session that an answer sets, as a header line, or
// an empty string.
func sessionIn(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if c.Name == "session" && c.Value != "" {
			return "Cookie: session=" + c.Value
		}
	}
	return ""
}

// A user has ten minutes at the provider. An older attempt is refused without a
// request to the provider. A younger attempt of the same browser is not affected.
func TestAttemptEnds(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	early, late := r.leave(""), wayBack{}
	r.clock.Advance(10*time.Minute - time.Second)
	late = r.leave(early.cookie)
	if late.cookie != early.cookie {
		t.Error("a second attempt is bound to another cookie")
	}
	if w := r.do("GET", early.target, "", early.cookie); w.Code != http.StatusFound || sessionIn(w) == "" {
		t.Errorf("after nearly ten minutes: %d %s", w.Code, w.Body)
	}
	asked := p.asked.Load()
	r.clock.Advance(10 * time.Minute)
	w := r.do("GET", late.target, "", late.cookie)
	if w.Code != http.StatusBadRequest || w.Header()["Set-Cookie"] != nil || !strings.Contains(problemOf(t, w).Detail, "took too long") {
		t.Errorf("after ten minutes: %d %q %s", w.Code, w.Header()["Set-Cookie"], w.Body)
	}
	if p.asked.Load() != asked {
		t.Error("the gateway sends an attempt that is too old to the token endpoint")
	}
}

// A delegated session ends after its lifetime, even if it is used.
func TestDelegatedSessionEnds(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "delegated: {lifetime: 30m}\n")
	back := r.leave("")
	session := sessionIn(r.do("GET", back.target, "", back.cookie))
	for range 3 {
		r.want(http.StatusOK, "GET", "/delegated/", "", session)
		r.clock.Advance(10*time.Minute - time.Second/3)
	}
	if w := r.do("GET", "/delegated/", "", session); w.Code != http.StatusOK || r.upstream.last().Header.Get("X-Auth-User") != "carol" {
		t.Errorf("in its last second: %d %s", w.Code, w.Body)
	}
	r.clock.Advance(time.Second)
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
			r.clock.Advance(5*time.Minute + time.Second) // the tokens have expired
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
			failures := len(r.log.Records(t, "refreshing a provider's tokens failed; the login goes on with what is known"))
			if want := strings.Count(c.roles, "user"); failures != want {
				t.Errorf("the log has %d failures, want %d:\n%s", failures, want, r.log)
			}
		})
	}
}

// Whichever operation of the store fails, a sign-in at a provider ends in 503 and
// without a session.
func TestDelegatedStoreFails(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	r.leave("") // from here on, the provider is known
	failed := 0
	check := func(w *httptest.ResponseRecorder) {
		switch {
		case w.Code == http.StatusFound:
		case w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Header()["Set-Cookie"] != nil || w.Header().Get("Location") != "":
			t.Errorf("%d %q to %q", w.Code, w.Header()["Set-Cookie"], w.Header().Get("Location"))
		case strings.Contains(w.Body.String(), "disk"):
			t.Errorf("the answer shows internals: %s", w.Body)
		default:
			failed++
		}
	}
	eachFailure(t, r, outages["once"], func(broken func(*http.Request) *httptest.ResponseRecorder) {
		check(broken(request("GET", "/login", "")))
	})
	if failed == 0 {
		t.Error("the beginning needs no store")
	}
	failed = 0
	eachFailure(t, r, outages["once"], func(broken func(*http.Request) *httptest.ResponseRecorder) {
		back := r.leave("")
		w := broken(request("GET", back.target, "", back.cookie))
		check(w)
		if (w.Code == http.StatusFound) != (sessionIn(w) != "") {
			t.Errorf("%d with the session %q", w.Code, sessionIn(w))
		}
	})
	if failed < 3 {
		t.Errorf("%d operations of the callback noticed that the store failed", failed)
	}
}

// sizingStore remembers the size of the largest value.
type sizingStore struct {
	store.Store
	largest int
}

func (s *sizingStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	s.largest = max(s.largest, len(value))
	return s.Store.Put(ctx, key, value, expires)
}

// Anyone can begin to sign in at a provider. What that leaves in the store is bounded
// for each client.
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

// An attempt holds the path to return to, so its length is bounded. A longer path is
// dropped.
func TestAttemptsKeepNoLongPath(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	sized := &sizingStore{Store: r.store.Store}
	r.store.Store = sized
	for _, length := range []int{10, 1000, 10_000, 60_000} {
		r.want(http.StatusFound, "GET", "/login?return_to=/"+strings.Repeat("x", length), "")
	}
	if sized.largest > 8<<10 {
		t.Errorf("an attempt takes %d bytes in the store, want 8 KiB at most", sized.largest)
	}
}

// A token of one issuer opens no route for tokens of another issuer, even if it is in
// the cache. Neither does a token that only claims to be of that issuer.
func TestTokenOfAnotherRoutesIssuer(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	r := newRig(t, edit(t, baseConfig, "basic:\n", "token:\n  trusted_issuers:\n"+
		"    - {name: one, issuer: \""+one.issuer+"\", audience: [gateway]}\n    - {name: two, issuer: \""+two.issuer+"\", audience: [gateway]}\nbasic:\n")+
		"  - {match: /one/, upstream: app, auth: [bearer], policy: {providers: [one]}}\n"+
		"  - {match: /two/, upstream: app, auth: [bearer], policy: {providers: [two]}}\n"+
		"  - {match: /own/, upstream: app, auth: [bearer], policy: {providers: [local]}}\n")
	t.Cleanup(r.Close)
	one.now, two.now = r.clock.Now, r.clock.Now
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

// A token of another issuer with one changed byte never verifies, whether or not the
// cache has the token itself.
func FuzzTrustedTokenChangedByte(f *testing.F) {
	p := newSmallProvider(f)
	r := newRig(f, edit(f, baseConfig, "basic:\n", "token: {trusted_issuers: [{name: small, issuer: \""+p.issuer+"\", audience: [gateway]}]}\nbasic:\n"))
	f.Cleanup(r.Close)
	p.now = r.clock.Now
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
