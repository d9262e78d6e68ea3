package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/config"
)

// Who signs in as somebody else is that person from then on, whatever cookies
// the browser has of before.
func TestNobodyIsTwoPeople(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"/login?mechanism=bearer", "/login?mechanism=session", "/login"} {
		for _, after := range []string{"/login?mechanism=bearer", "/login?mechanism=session", "/login"} {
			r := newRig(t, cookieDelivery)
			jar := map[string]string{}
			send := func(method, target, body string) int {
				header := []string{jsonType}
				for name, value := range jar {
					header = append(header, "Cookie: "+name+"="+value)
				}
				slices.Sort(header)
				w := r.do(method, target, body, header...)
				for _, c := range w.Result().Cookies() {
					if c.MaxAge < 0 {
						delete(jar, c.Name)
					} else {
						jar[c.Name] = c.Value
					}
				}
				return w.Code
			}
			send("POST", before, aliceIn)
			stale := jar["refresh_token"]
			send("POST", after, bobIn)
			if code := send("GET", "/any/", ""); code != 200 || r.upstream.last().Header.Get("X-Auth-User") != "bob" {
				t.Errorf("%s, then %s: %d as %q", before, after, code, r.upstream.last().Header.Get("X-Auth-User"))
			}
			if stale == "" {
				continue
			}
			if w := r.do("POST", "/refresh", "", "Cookie: refresh_token="+stale); w.Code != 401 {
				t.Errorf("%s, then %s: the tokens of before are refreshed: %d", before, after, w.Code)
			}
		}
	}
}

// A logout that the store cut off in its middle can be sent again.
func TestLogoutCanBeRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	takes := 0
	failing := func(operation string, _ int64, _ string) bool {
		if operation == "take" {
			takes++
		}
		return takes > 1
	}
	r.store.fails.Store(&failing)
	if w := r.do("POST", "/logout", "", bob.cookie, alice.bearer); w.Code != 503 {
		t.Fatalf("a broken store: %d", w.Code)
	}
	r.store.fails.Store(nil)
	if w := r.do("POST", "/logout", "", bob.cookie, alice.bearer); w.Code != 200 {
		t.Errorf("again: %d %s", w.Code, w.Body)
	}
	for name, header := range map[string]string{"bob": bob.cookie, "alice": alice.bearer} {
		if w := r.do("GET", "/any/", "", header); w.Code != 401 {
			t.Errorf("%s is still signed in: %d", name, w.Code)
		}
	}
}

// One login by cookie and by bearer at once is ended once, and that is no error.
func TestLogoutOfOneLoginByTwoCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	if w := r.do("POST", "/logout", "", alice.cookie, alice.bearer); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, header := range []string{alice.cookie, alice.bearer} {
		if w := r.do("GET", "/any/", "", header); w.Code != 401 {
			t.Errorf("still signed in: %d", w.Code)
		}
	}
}

// Coming back from a provider, a browser does not send strict cookies. Who
// signs in there is that person from then on all the same.
func TestStrictCookiesEndAtTheCallback(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "session: {same_site: strict}\ntoken: {delivery: cookie}\n")
	alice := r.do("POST", "/login", aliceIn, jsonType).Result().Cookies()
	jar := map[string]string{}
	for _, c := range alice {
		jar[c.Name] = c.Value
	}
	begun := "Cookie: session_id=" + jar["session_id"] + "; access_token=" + jar["access_token"] + "; refresh_token=" + jar["refresh_token"]
	back := r.leave(begun)
	if w := r.do("GET", "/session/", "", "Cookie: session_id="+jar["session_id"]); w.Code != http.StatusOK {
		t.Fatalf("on the way: %d", w.Code)
	}
	w := r.do("GET", back.target, "", back.cookie)
	if w.Code != http.StatusFound || sessionIn(w) == "" {
		t.Fatalf("back again: %d %s", w.Code, w.Body)
	}
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(jar, c.Name)
		}
	}
	if len(jar) != 0 {
		t.Errorf("the browser keeps of before: %v", jar)
	}
	for _, c := range alice {
		target := map[string]string{"session_id": "/session/", "access_token": "/bearer/"}[c.Name]
		if target == "" {
			continue
		}
		if w := r.do("GET", target, "", "Cookie: "+c.Name+"="+c.Value); w.Code != http.StatusUnauthorized {
			t.Errorf("%s of before still opens: %d", c.Name, w.Code)
		}
	}
}

// A reload that replaces a provider leaves those alone who wait for it.
func TestReloadInTheMiddleOfADiscovery(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	var issuer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/jwks",
		})
	}))
	defer server.Close()
	issuer = server.URL
	yaml := baseConfig + "  - {match: /delegated/, upstream: app, auth: [oidc]}\n" +
		"providers:\n  - {name: slow, issuer: \"" + issuer + "\", client_id: gateway, timeout: 8s}\n"
	r := newRig(t, yaml)
	t.Cleanup(r.Close)
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- r.do("GET", "/login", "") }()
	<-asked
	err := r.Reload(func() (*config.Config, error) {
		return parseConfig(t, r.dir, strings.Replace(yaml, "8s", "9s", 1)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	close(answer)
	if w := <-done; w.Code != http.StatusFound || !strings.HasPrefix(w.Header().Get("Location"), issuer) {
		t.Errorf("who was waiting gets %d %s", w.Code, w.Body)
	}
}
