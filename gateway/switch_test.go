package gateway

import (
	"slices"
	"testing"
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
