package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// An upstream and the gateway use cookies of the same names, and neither sees
// or changes the other's (design E.6).
func TestSeparateCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /kept/, upstream: app, auth: [session], forward_credentials: true}\n")
	alice := r.login(aliceIn)
	ours := strings.TrimPrefix(alice.cookie, "Cookie: ")
	for _, status := range []int{200, 302, 500, http.StatusSwitchingProtocols} {
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			return response(q, status, http.Header{"Set-Cookie": {"session_id=theirs; Path=/", "a=b"}, "Set-Cookie2": {"session_id=x"}}, ""), nil
		}
		for _, target := range []string{"/session/", "/public/", "/kept/"} {
			got := r.do("GET", target, "", alice.cookie, "Connection: upgrade", "Upgrade: websocket").Result().Header
			if status == http.StatusSwitchingProtocols {
				// No connection to take over here: it is an error, without a cookie.
				if got["Set-Cookie"] != nil && !slices.Contains(got["Set-Cookie"], "authgate_app_session_id=theirs; Path=/") {
					t.Errorf("101 of %s sets %q", target, got["Set-Cookie"])
				}
				continue
			}
			if want := []string{"authgate_app_session_id=theirs; Path=/", "a=b"}; !slices.Equal(got["Set-Cookie"], want) || got["Set-Cookie2"] != nil {
				t.Errorf("%d of %s sets %q and %q, want %q", status, target, got["Set-Cookie"], got["Set-Cookie2"], want)
			}
		}
	}
	r.upstream.answer = nil
	for target, want := range map[string]string{
		"/session/": "session_id=theirs; a=b", "/public/": "session_id=theirs; a=b",
		"/kept/": ours + "; authgate_app_session_id=theirs; a=b",
	} {
		w := r.do("GET", target, "", "Cookie: "+ours+"; authgate_app_session_id=theirs; a=b")
		if got := r.upstream.last().Header["Cookie"]; w.Code != 200 || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %d, the upstream gets %q, want %q", target, w.Code, got, want)
		}
	}
	// Without the gateway's cookie theirs does not take its place.
	r.do("GET", "/public/", "", "Cookie: authgate_app_session_id=theirs")
	if got := r.upstream.last().Header["Cookie"]; !slices.Equal(got, []string{"session_id=theirs"}) {
		t.Errorf("the upstream gets %q", got)
	}
	if w := r.do("GET", "/kept/", "", "Cookie: authgate_app_session_id="+strings.TrimPrefix(ours, "session_id=")); w.Code != 401 {
		t.Errorf("a session in the cookie of the application: %d", w.Code)
	}
	// The name of a mechanism that is not in use is the application's.
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Set-Cookie": {"access_token=theirs"}}, ""), nil
	}
	if got := r.do("GET", "/public/", "").Result().Header["Set-Cookie"]; !slices.Equal(got, []string{"access_token=theirs"}) {
		t.Errorf("a free name becomes %q", got)
	}
	if strings.Contains(r.log.String(), "theirs") {
		t.Error("the log holds a cookie")
	}
}

// Lines that clients read in two ways are left out, and the log says so.
func TestAmbiguousSetCookie(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Set-Cookie": {"a=b, session_id=theirs"}}, ""), nil
	}
	if got := r.do("GET", "/public/", "").Result().Header["Set-Cookie"]; got != nil {
		t.Errorf("the browser gets %q", got)
	}
	if got := r.log.last(t, "cookies of an upstream are left out: clients could read them as the gateway's"); got["upstream"] != "app" || got["cookies"] != 1.0 {
		t.Errorf("the log says %v", got)
	}
}
