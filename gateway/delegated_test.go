package gateway

import (
	"cmp"
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

	"authgate/gateway/login"
	"authgate/gateway/must"
	"authgate/gateway/store"
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

// bearer returns the header line of a token in the name of an issuer.
func (p *smallProvider) bearer(issuer string) string {
	token, _ := p.tokens(p.key, map[string]any{"iss": issuer, "jti": "1"})["id_token"].(string)
	return "Authorization: Bearer " + token
}

// delegatedRig returns a rig with one provider, and a route for users who sign in
// there.
func delegatedRig(t testing.TB, more string) (*rig, *smallProvider) {
	t.Helper()
	p := newSmallProvider(t)
	r := newRig(t, baseConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers:\n  - {name: small, issuer: \""+p.issuer+"\", client_id: gateway}\n"+more)
	p.now = r.clock.Now
	return r, p
}

// wayBack is how a browser returns from the provider: the target, and the cookie that
// the attempt is bound to.
type wayBack struct{ target, cookie string }

// leave sends GET /login. cookie is that of an earlier attempt, or empty.
func (r *rig) leave(cookie string) wayBack { return r.leaveFrom("/login", cookie) }

func (r *rig) leaveFrom(place, cookie string) wayBack {
	r.t.Helper()
	w := r.want(302, "GET", place, "", cookie)
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || len(w.Result().Cookies()) != 1 {
		r.t.Fatalf("GET %s: to %q with %q", place, w.Header().Get("Location"), w.Header()["Set-Cookie"])
	}
	query := url.Values{"state": to.Query()["state"], "code": to.Query()["nonce"]}
	c := w.Result().Cookies()[0]
	return wayBack{"/callback?" + query.Encode(), "Cookie: " + c.Name + "=" + c.Value}
}

// A user has ten minutes at the provider. An older attempt is refused without a
// request to the provider. A younger attempt of the same browser is not affected.
func TestAttemptEnds(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	early := r.leave("")
	r.clock.Advance(10*time.Minute - time.Second)
	late := r.leave(early.cookie)
	if late.cookie != early.cookie {
		t.Error("a second attempt is bound to another cookie")
	}
	r.want(302, "GET", early.target, "", early.cookie)
	r.clock.Advance(10 * time.Minute)
	if w := r.want(400, "GET", late.target, "", late.cookie); w.Header()["Set-Cookie"] != nil || !strings.Contains(detailOf(t, w), "took too long") || p.asked.Load() != 1 {
		t.Errorf("after ten minutes: %q %s, %d requests to the token endpoint", w.Header()["Set-Cookie"], w.Body, p.asked.Load())
	}
}

// What the provider answers at a renewal replaces what it said before, and ends the session
// if it refuses. No answer changes nothing. The session ends after its lifetime, even if it
// is used.
func TestRenewal(t *testing.T) {
	t.Parallel()
	const (
		warned = "refreshing a provider's tokens failed; the login goes on with what is known"
		client = "the provider does not accept the gateway as its client; logins go on and roles get old until " +
			"client_id, client_secret and token_endpoint_auth_method are right"
		over = "login_ended_by_provider"
	)
	refuse := func(status int, code string) func(*smallProvider) http.HandlerFunc {
		return func(p *smallProvider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				p.reply(w, map[string]string{"error": code})
			}
		}
	}
	answer := func(key *ecdsa.PrivateKey, changes map[string]any) func(*smallProvider) http.HandlerFunc {
		return func(p *smallProvider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { p.reply(w, p.tokens(cmp.Or(key, p.key), changes)) }
		}
	}
	roles := func(value any) func(*smallProvider) http.HandlerFunc {
		return answer(nil, map[string]any{"roles": value})
	}
	for name, c := range map[string]struct {
		renewed func(*smallProvider) http.HandlerFunc
		roles   string // afterwards
		log     string // empty: nothing
	}{
		"other roles":             {roles([]string{"admin"}), "admin", ""},
		"one role":                {roles("admin"), "admin", ""},
		"roles in a number":       {roles(5), "", ""},
		"a role that is no text":  {roles([]any{"user", nil}), "", ""},
		"another unusable claim":  {answer(nil, map[string]any{"roles": []string{"admin"}, "email": "carol"}), "admin", ""},
		"no roles":                {roles(nil), "", ""},
		"another user":            {answer(nil, map[string]any{"sub": "2", "preferred_username": "mallory", "roles": []string{"admin"}}), "", over},
		"another key":             {answer(newECKey(t), map[string]any{"roles": []string{"admin"}}), "", over},
		"invalid_grant":           {refuse(400, "invalid_grant"), "", over},
		"invalid_request, of Dex": {refuse(400, "invalid_request"), "", over},
		"invalid_client":          {refuse(401, "invalid_client"), "user", client},
		"too many requests":       {refuse(429, ""), "user", warned},
		"out of order":            {refuse(503, "invalid_grant"), "user", warned},
	} {
		r, p := delegatedRig(t, "delegated: {lifetime: 30m}\n")
		p.renewed = c.renewed(p)
		back := r.leave("")
		session := jarOf(r.want(302, "GET", back.target, "", back.cookie)).line("session")
		r.log.Reset()
		r.clock.Advance(5*time.Minute + time.Second) // the tokens have expired
		for range 2 {                                // the second request does not ask the provider
			if c.log == over {
				before := r.upstream.count()
				r.want(401, "GET", "/delegated/", "", session)
				if r.upstream.count() != before {
					t.Errorf("%s: the request reached the upstream", name)
				}
				continue
			}
			r.want(200, "GET", "/delegated/", "", session)
			if h := r.upstream.last().Header; h.Get("X-Auth-Subject") != "small:1" || h.Get("X-Auth-User") != "carol" || h.Get("X-Auth-Roles") != c.roles {
				t.Errorf("%s: the upstream gets %v", name, h)
			}
		}
		for _, line := range []string{warned, client, over} {
			if got := strings.Count(r.log.String(), line); (got == 1) != (line == c.log) || got > 1 {
				t.Errorf("%s: the log has %d times %q:\n%s", name, got, line, r.log)
			}
		}
		if asked := p.asked.Load(); asked != 2 {
			t.Errorf("%s: %d requests to the token endpoint", name, asked)
		}
		r.clock.Advance(25 * time.Minute)
		r.want(401, "GET", "/delegated/", "", session)
	}
}

// What does not say who it is, and proves nothing, refuses no user and no token: a claim
// that cannot be used is absent.
func TestDecorationRefusesNoUser(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := newRig(t, edit(t, baseConfig, "basic:\n", "token:\n  trusted_issuers: [{name: small, issuer: \""+p.issuer+"\", audience: [gateway]}]\nbasic:\n")+
		"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers:\n  - {name: small, issuer: \""+p.issuer+"\", client_id: gateway}\n")
	p.now = r.clock.Now
	for i, changes := range []map[string]any{
		{"preferred_username": ""}, {"preferred_username": 5}, {"preferred_username": "carol "}, {"preferred_username": "ca\u200brol"},
		{"preferred_username": "boss@example.org"}, {"name": map[string]any{"first": "C"}}, {"name": strings.Repeat("x", 2_000)},
		{"email": "carol"}, {"email": []string{"c@example.org"}}, {"email": "c@example.org", "email_verified": "True"},
		{"iat": nil}, {"iat": "now"}, {"roles": "admin"}, {"roles": 5}, {"sid": ""}, {"azp": nil}, {"azp": ""}, {"at_hash": nil}, {"at_hash": ""}, {"scope": 5},
	} {
		p.claims = changes
		back := r.leave("")
		session := jarOf(r.want(302, "GET", back.target, "", back.cookie)).line("session")
		claims := map[string]any{"iss": p.issuer, "jti": i}
		maps.Copy(claims, changes)
		token, _ := p.tokens(p.key, claims)["id_token"].(string)
		for path, credential := range map[string]string{"/delegated/": session, "/bearer/": "Authorization: Bearer " + token} {
			r.want(200, "GET", path, "", credential)
			h := r.upstream.last().Header
			want := [...]string{"carol", "", "user"}
			if changes["preferred_username"] != nil {
				want[0] = "1"
			}
			switch changes["roles"] {
			case "admin":
				want[2] = "admin"
			case 5:
				want[2] = ""
			}
			if got := [...]string{h.Get("X-Auth-User"), h.Get("X-Auth-Email"), h.Get("X-Auth-Roles")}; got != want || h.Get("X-Auth-Name") != "" {
				t.Errorf("%.100v at %s: the upstream gets %v and the name %.20q, want %v", changes, path, got, h.Get("X-Auth-Name"), want)
			}
		}
	}
	for _, changes := range []map[string]any{{"sub": ""}, {"sub": 5}, {"exp": 1}, {"aud": "another"}} {
		claims := map[string]any{"iss": p.issuer, "jti": "refused"}
		maps.Copy(claims, changes)
		token, _ := p.tokens(p.key, claims)["id_token"].(string)
		before := r.upstream.count()
		if w := r.want(401, "GET", "/bearer/", "", "Authorization: Bearer "+token); r.upstream.count() != before || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%v: %v, %d requests reached the upstream", changes, w.Header(), r.upstream.count()-before)
		}
	}
}

// Whichever operation of the store fails, a sign-in at a provider ends in 503 and
// without a session.
func TestDelegatedStoreFails(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	r.leave("") // from here on, the provider is known
	for step, least := range map[string]int{"the beginning": 1, "the callback": 3} {
		failed := 0
		eachFailure(t, r, outages["once"], func(broken func(*http.Request) *httptest.ResponseRecorder) {
			q := request("GET", "/login", "")
			if step == "the callback" {
				back := r.leave("")
				q = request("GET", back.target, "", back.cookie)
			}
			switch w := broken(q); w.Code {
			case http.StatusServiceUnavailable:
				failed++
				checkUnavailable(t, r, w, 0)
			case http.StatusFound:
				if step == "the callback" && jarOf(w).line("session") == "" {
					t.Error("302 without a session")
				}
			default:
				t.Errorf("%s: %d %s", step, w.Code, w.Body)
			}
		})
		if failed < least {
			t.Errorf("%d operations of %s noticed that the store failed", failed, step)
		}
	}
}

// Anyone can begin to sign in at a provider. What that leaves in the store is bounded
// for each client.
func TestAttemptsOfOneClientAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	for range 1000 {
		r.leave("")
	}
	r.want(429, "GET", "/login", "")
	if kept, err := r.store.Store.(store.Counter).Count(t.Context(), "attempt:"); err != nil || kept != 1000 {
		t.Errorf("%d attempts are kept, %v", kept, err)
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
	one.now, two.now = r.clock.Now, r.clock.Now
	ofOne, ofTwo := one.bearer(one.issuer), two.bearer(two.issuer)
	for range 2 { // cold, then warm
		for header, opens := range map[string]string{ // the only route, if any
			ofOne: "/one/", ofTwo: "/two/", r.login(aliceIn).bearer: "/own/",
			one.bearer(two.issuer): "", two.bearer(one.issuer): "", one.bearer("https://gw.example"): "",
			ofOne[:strings.LastIndexByte(ofOne, '.')] + ofTwo[strings.LastIndexByte(ofTwo, '.'):]: "",
		} {
			for _, route := range []string{"/one/", "/two/", "/own/"} {
				before := r.upstream.count()
				if w := r.do("GET", route, "", header); (r.upstream.count() > before) != (route == opens) {
					t.Errorf("a token for %q at %s: %d", opens, route, w.Code)
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
	p.now = r.clock.Now
	good := p.bearer(p.issuer)
	scheme := len("Authorization: Bearer ")
	for _, at := range []int{0, 5, 20, 40, 60, 90, 200, len(good) - scheme - 86, len(good) - scheme - 40, len(good) - scheme - 1} {
		for _, with := range []byte("AQ.=- ") {
			f.Add(uint16(at), with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(good)
		changed[scheme+int(at)%(len(good)-scheme)] = with
		before, want := r.upstream.count(), http.StatusUnauthorized
		if string(changed) == good {
			want = http.StatusOK
		}
		if w := r.do("GET", "/bearer/", "", string(changed)); w.Code != want || (r.upstream.count() > before) != (want == http.StatusOK) {
			t.Errorf("byte %d as %q: %d, want %d", at, with, w.Code, want)
		}
	})
}

// Each of several providers has a redirect URI of its own. A response counts only there:
// a provider must not pass off the answer of another as its own.
func TestCallbackOfEachProvider(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	providers := "providers:\n  - {name: one, issuer: \"" + one.issuer + "\", client_id: gateway}\n" +
		"  - {name: two, issuer: \"" + two.issuer + "\", client_id: gateway}\n"
	for config, paths := range map[string]map[string]string{
		providers: {"one": "/callback/one", "two": "/callback/two"},
		strings.Replace(providers, "client_id: gateway}", "client_id: gateway, callback: /callback}", 1):      {"one": "/callback", "two": "/callback/two"},
		strings.Replace(providers, "client_id: gateway}", "client_id: gateway, callback: /auth/callback}", 1): {"one": "/auth/callback", "two": "/callback/two"},
		providers + "endpoints: {prefix: /auth/}\n":                                                           {"one": "/auth/callback/one", "two": "/auth/callback/two"},
	} {
		r := newRig(t, baseConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+config)
		one.now, two.now = r.clock.Now, r.clock.Now
		login := r.state.Load().site.Own("login")
		for name, path := range paths {
			for _, at := range []string{"callback", "auth/callback", "callback/one", "callback/two"} {
				place := r.state.Load().site.Own(at)
				w := r.want(302, "GET", login+"?provider="+name, "")
				query := queryOf(t, w)
				if got := query.Get("redirect_uri"); got != "https://gw.example"+path {
					t.Errorf("%s: the redirect URI is %s, want that of %s", name, got, path)
				}
				asked, back := one.asked.Load()+two.asked.Load(), url.Values{"state": query["state"], "code": query["nonce"]}
				want := 400
				if place == path {
					want = 302
				}
				w = r.want(want, "GET", place+"?"+back.Encode(), "", jarOf(w).line())
				if calls := one.asked.Load() + two.asked.Load() - asked; want == 400 && (calls > 0 || w.Header()["Set-Cookie"] != nil) {
					t.Errorf("%s at %s: %d requests to token endpoints, %q", name, place, calls, w.Header()["Set-Cookie"])
				}
			}
		}
	}
}

// A single provider may use each of the redirect URIs that it can be registered with.
func TestCallbacksOfOneProvider(t *testing.T) {
	t.Parallel()
	for callback, sent := range map[string]string{"": "/callback", "/callback": "/callback", "/auth/callback": "/auth/callback", "/callback/small": "/callback/small"} {
		p := newSmallProvider(t)
		r := newRig(t, baseConfig+"providers: [{name: small, issuer: \""+p.issuer+"\", client_id: gateway, callback: \""+callback+"\"}]\n")
		p.now = r.clock.Now
		for _, place := range []string{"/callback", "/auth/callback", "/callback/small"} {
			w := r.want(302, "GET", "/login", "")
			query := queryOf(t, w)
			if got := query.Get("redirect_uri"); got != "https://gw.example"+sent {
				t.Errorf("callback: %q: the redirect URI is %s", callback, got)
			}
			back := url.Values{"state": query["state"], "code": query["nonce"]}
			r.want(302, "GET", place+"?"+back.Encode(), "", jarOf(w).line())
		}
	}
}

// The way back survives a sign-in that fails: the page leads to another try with the
// same place, at a host of the gateway too.
func TestFailedCallbackKeepsThePlace(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := newRig(t, fiveHostsConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers: [{name: small, issuer: \""+p.issuer+"\", client_id: gateway}]\n")
	p.now = r.clock.Now
	binding := login.Binding(login.NewBrowserSecret())
	for place, link := range map[string]string{
		"/login?return_to=%2Fdelegated%2Fx%3Fy%3D%2526":                              "/signin?return_to=%2Fdelegated%2Fx%3Fy%3D%2526",
		"/login?return_to=https%3A%2F%2Fwiki.example.org%2Fx%3Fy&binding=" + binding: "/signin?return_to=https%3A%2F%2Fwiki.example.org%2Fx%3Fy&amp;binding=" + binding,
		"/login": "/signin",
	} {
		for response, status := range map[string]int{"error=access_denied": 401, "error=server_error": 502, "code=another+nonce": 502, "": 400} {
			w := r.want(302, "GET", place, "")
			state, cookie := queryOf(t, w).Get("state"), jarOf(w).line()
			for range 2 { // the second time, the state is used
				w := r.want(status, "GET", "/callback?"+response+"&state="+state, "", cookie, browser)
				if !strings.Contains(w.Body.String(), `href="`+link+`"`) {
					t.Errorf("%s, then %q: the page has no link to %s:\n%s", place, response, link, w.Body)
				}
				status = 400
			}
			// Another browser learns nothing of the place.
			w = r.want(400, "GET", "/callback?"+response+"&state="+state, "", "Cookie: __Host-authgate_login="+login.NewBrowserSecret(), browser)
			if body := w.Body.String(); strings.Contains(body, "delegated") || strings.Contains(body, "wiki") {
				t.Errorf("another browser sees the place:\n%s", body)
			}
		}
	}
}

// A response that a browser sends twice, because its user pressed a button twice or went
// back, leads to the place again if they are signed in. It is still used once.
func TestCallbackAgain(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := newRig(t, fiveHostsConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers: [{name: small, issuer: \""+p.issuer+"\", client_id: gateway}]\n")
	p.now = r.clock.Now
	for place, want := range map[string]string{
		"/login":                            "/",
		"/login?return_to=/delegated/x%3Fy": "/delegated/x?y",
		"/login?return_to=https://wiki.example.org/x": "https://wiki.example.org/x",
	} {
		back := r.leaveFrom(place, "")
		asked := p.asked.Load()
		w := r.want(302, "GET", back.target, "", back.cookie)
		jar := jarOf(w)
		local := r.login(aliceIn).cookie
		for _, session := range []string{jar.line("session"), local} {
			w := r.want(302, "GET", back.target, "", back.cookie+"; "+strings.TrimPrefix(session, "Cookie: "), browser)
			if got := w.Header().Get("Location"); got != want || len(jarOf(w)) > 0 {
				t.Errorf("%s again: to %q with %q, want %q", place, got, w.Header()["Set-Cookie"], want)
			}
		}
		for who, cookie := range map[string]string{
			"nobody": back.cookie, "another browser": jar.line("session"), "a dead session": back.cookie + "; session=x",
		} {
			if w := r.want(400, "GET", back.target, "", cookie, browser); w.Header()["Location"] != nil {
				t.Errorf("%s: to %q", who, w.Header()["Location"])
			}
		}
		if got := p.asked.Load(); got != asked+1 {
			t.Errorf("the provider was asked %d times for tokens", got-asked)
		}
		r.clock.Advance(login.AttemptLifetime)
		r.want(400, "GET", back.target, "", back.cookie+"; "+strings.TrimPrefix(jar.line("session"), "Cookie: "), browser)
	}
}

// A place of up to 8 KiB survives the way through a provider, and through other hosts.
// A longer one becomes the start page of its host.
func TestLongPlaces(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := newRig(t, fiveHostsConfig+"  - {match: docs.example.net/, upstream: app, auth: [oidc]}\n  - {match: /delegated/, upstream: app, auth: [oidc]}\n"+
		"providers: [{name: small, issuer: \""+p.issuer+"\", client_id: gateway}]\n")
	p.now = r.clock.Now
	for length, kept := range map[int]bool{5000: true, 8 << 10: true, 8<<10 + 1: false} {
		for host, path := range map[string]string{"gw.example": "/delegated/", "docs.example.net": "/", "wiki.example.org": "/"} {
			for _, filling := range []string{"?x", "?%20&/=", "%20x"} {
				long := path + strings.Repeat(filling, length/len(filling)+1)
				long = long[:length]
				for strings.LastIndexByte(long, '%') > length-3 { // no half of an escape
					long = long[:strings.LastIndexByte(long, '%')] + strings.Repeat("x", length-strings.LastIndexByte(long, '%'))
				}
				want := "https://" + host + long
				if !kept {
					want = "https://" + host + "/"
				}
				person := r.person()
				person.stop = func(place string) bool { return strings.HasPrefix(place, p.issuer) }
				at, w := person.visit("GET", "https://"+host+long, "")
				person.stop = func(place string) bool { return place == want }
				if host == "wiki.example.org" {
					at, _ = person.post(w, "alice")
				} else {
					query := must.Get(url.Parse(at))(t).Query()
					back := url.Values{"state": query["state"], "code": query["nonce"]}
					at, _ = person.visit("GET", "https://gw.example/callback?"+back.Encode(), "")
				}
				if at != want {
					t.Errorf("%s, %d bytes like %q: to %.60q of %d bytes, want %.60q of %d", host, length, filling, at, len(at), want, len(want))
				}
			}
		}
	}
}

// A third party, such as the portal of a provider, begins a sign-in with the issuer, and
// says where it leads and who is expected.
func TestThirdPartyInitiatedLogin(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	r := newRig(t, fiveHostsConfig+"  - {match: /delegated/, upstream: app, auth: [oidc]}\nproviders:\n"+
		"  - {name: one, issuer: \""+one.issuer+"\", client_id: gateway}\n  - {name: two, issuer: \""+two.issuer+"\", client_id: gateway}\n"+
		"  - {name: two-again, issuer: \""+two.issuer+"\", client_id: other}\n")
	one.now, two.now = r.clock.Now, r.clock.Now
	iss := "iss=" + url.QueryEscape(one.issuer)
	for query, want := range map[string]struct{ place, hint string }{
		iss: {"/", ""},
		iss + "&target_link_uri=" + url.QueryEscape("https://gw.example/delegated/x?y=%2F") + "&login_hint=carol%40one.example": {"/delegated/x?y=%2F", "carol@one.example"},
		iss + "&target_link_uri=/delegated/":                         {"/delegated/", ""},
		iss + "&target_link_uri=https://wiki.example.org/x":          {"https://wiki.example.org/x", ""},
		iss + "&target_link_uri=https://evil.example/x":              {"/", ""},
		iss + "&target_link_uri=//evil.example/x":                    {"/", ""},
		iss + "&target_link_uri=https://gw.example/logout":           {"/", ""},
		iss + "&target_link_uri=/delegated/a&return_to=/delegated/b": {"/delegated/a", ""},
		iss + "&return_to=/delegated/b":                              {"/delegated/b", ""},
		iss + "&provider=one":                                        {"/", ""},
		"provider=one&login_hint=carol":                              {"/", "carol"},
		"provider=one&target_link_uri=/delegated/a":                  {"/", ""}, // no third party: there is no issuer
		iss + "&login_hint=a%0Ab":                                    {"/", ""},
		iss + "&login_hint=%FF":                                      {"/", ""},
		iss + "&login_hint=" + strings.Repeat("x", 2<<10):            {"/", strings.Repeat("x", 2<<10)},
		iss + "&login_hint=" + strings.Repeat("x", 2<<10+1):          {"/", ""},
	} {
		w := r.want(302, "GET", "/login?"+query, "", "Sec-Fetch-Site: cross-site", browser)
		if to := w.Header().Get("Location"); !strings.HasPrefix(to, one.issuer+"/authorize?") || queryOf(t, w).Get("login_hint") != want.hint {
			t.Errorf("%.200s: to %.300s", query, to)
			continue
		}
		sent := queryOf(t, w)
		back := url.Values{"state": sent["state"], "code": sent["nonce"]}
		w = r.want(302, "GET", "/callback/one?"+back.Encode(), "", jarOf(w).line(), browser)
		if got := w.Header().Get("Location"); got != want.place {
			t.Errorf("%.200s: in the end to %q, want %q", query, got, want.place)
		}
	}
	for _, query := range []string{
		"iss=https://evil.example", "iss=", "iss=" + url.QueryEscape(one.issuer+"/"), "iss=https%3A%2F%2Fgw.example", iss + "&" + iss,
		iss + "&iss=https://evil.example", iss + "&provider=two", iss + "&provider=three", iss + "&login_hint=a&login_hint=b",
		iss + "&target_link_uri=/a&target_link_uri=/b", "iss=" + url.QueryEscape(two.issuer), // which of the two
	} {
		w := r.want(400, "GET", "/login?"+query+"&return_to=/delegated/b", "", browser)
		if w.Header()["Set-Cookie"] != nil || !strings.Contains(w.Body.String(), `href="/signin?return_to=`) {
			t.Errorf("%s: %v %s", query, w.Header(), w.Body)
		}
	}
	for name := range map[string]bool{"two": true, "two-again": true} {
		w := r.want(302, "GET", "/login?iss="+url.QueryEscape(two.issuer)+"&provider="+name, "")
		if got, want := queryOf(t, w).Get("redirect_uri"), "https://gw.example/callback/"+name; got != want {
			t.Errorf("%s: back to %s", name, got)
		}
	}
	// At another host the sign-in is begun at the host of public_url.
	w := r.wantAt("wiki.example.org", 302, "GET", "/login?"+iss+"&target_link_uri=https://wiki.example.org/x&login_hint=carol", "", browser)
	at := queryOf(t, w)
	if to := w.Header().Get("Location"); !strings.HasPrefix(to, "https://gw.example/login?") || at.Get("iss") != one.issuer || at.Get("login_hint") != "carol" ||
		at.Get("return_to") != "https://wiki.example.org/x" || at.Get("binding") == "" {
		t.Errorf("at another host: to %s", to)
	}
}

// A link of another site does not replace a session: a user who is signed in is asked
// before the provider can answer from a session of its own. In a browser without a
// session, and on a link of the gateway's own pages, the sign-in begins at once.
func TestLoginByLinkAsks(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	back := r.leave("")
	carol := jarOf(r.want(302, "GET", back.target, "", back.cookie)).line("session")
	alice := r.login(aliceIn)
	links := map[string]string{
		"/login?provider=small&return_to=/session/x": "/login?provider=small&amp;return_to=%2Fsession%2Fx",
		"/login?return_to=/session/x":                "/login?provider=small&amp;return_to=%2Fsession%2Fx",
		"/login?provider=small&switch=1":             "/login?provider=small&amp;switch=1",
		"/login?iss=" + url.QueryEscape(p.issuer) + "&target_link_uri=/session/x&login_hint=bob": "/login?provider=small&amp;login_hint=bob&amp;return_to=%2Fsession%2Fx",
	}
	for link, goesOn := range links {
		for _, session := range []string{alice.cookie, carol} {
			for _, site := range []string{"cross-site", "same-site"} {
				w := r.want(200, "GET", link, "", session, "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: navigate", browser)
				body := w.Body.String()
				if w.Header()["Set-Cookie"] != nil || !strings.Contains(body, `href="`+goesOn+`"`) || !strings.Contains(body, "Another site asks") {
					t.Errorf("%s from %s: %v %s", link, site, w.Header(), body)
				}
			}
			for _, site := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", ""} {
				r.want(302, "GET", link, "", session, site, browser)
			}
		}
		r.want(302, "GET", link, "", "Sec-Fetch-Site: cross-site", browser)
		r.want(302, "GET", link, "", "Cookie: session_id=dead", "Sec-Fetch-Site: cross-site", browser)
	}
	r.good(alice, true)
	r.want(200, "GET", "/delegated/", "", carol)
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
