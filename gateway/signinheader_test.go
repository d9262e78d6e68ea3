package gateway

import (
	"net/http"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// A 401 of the gateway says where users sign in, at the host that was asked. Applications cannot
// send that header, and routes of Basic alone do not have it.
func TestSignInHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.FiveHostsConfig+`
  - {match: /shared/, name: shared, upstream: app, auth: [session],
     cors: {origins: ["https://app.example"], credentials: true}}
endpoints: {prefix: /.authgate/}
`)
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
		h := http.Header{"Authgate-Sign-In": {"https://evil.example/"}, "Content-Type": {"text/plain"}}
		return response(q, http.StatusUnauthorized, h, "mine"), nil
	}
	for _, c := range []struct{ host, path, want string }{
		{"gw.example", "/session/", "https://gw.example/.authgate/signin"},
		{"wiki.example.org", "/", "https://wiki.example.org/.authgate/signin"},
		{"gw.example", "/.authgate/me", "https://gw.example/.authgate/signin"},
		{"gw.example", "/basic/", ""},
		{"gw.example", "/bearer/", "https://gw.example/.authgate/signin"},
		{"gw.example", "/public/", ""}, // the application's own 401
	} {
		q := request("GET", c.path, "")
		q.Host = c.host
		w := r.serve(q)
		if got := w.Header().Get("Authgate-Sign-In"); w.Code != 401 || got != c.want {
			t.Errorf("%s%s: %d with %q, want %q", c.host, c.path, w.Code, got, c.want)
		}
	}
	for _, accept := range []string{"application/json", "text/html"} {
		w := r.do("POST", "/.authgate/login", "username=alice&password=wrong", ownrig.Form, "Accept: "+accept)
		if got := w.Header().Get("Authgate-Sign-In"); w.Code != 401 || got != "https://gw.example/.authgate/signin" {
			t.Errorf("a wrong password, answered as %s: %d with %q", accept, w.Code, got)
		}
	}
	w := r.do("GET", "/shared/", "", "Origin: https://app.example")
	if exposed := w.Header().Get("Access-Control-Expose-Headers"); exposed != "WWW-Authenticate, Authgate-Sign-In" {
		t.Errorf("scripts can read %q", exposed)
	}
	if w := r.do("PUT", "/.authgate/me", ""); w.Header().Get("Authgate-Sign-In") != "" {
		t.Errorf("a %d has the header", w.Code)
	}
}
