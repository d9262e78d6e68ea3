package web

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/identity/auth"
)

// All combinations of Domain and Path by which a browser sends a cookie to a place are
// cleared, but for the gateway's own, and a bounded number.
func TestClearTwins(t *testing.T) {
	t.Parallel()
	names := auth.CookieNames{Session: "session_id", Delegated: "session",
		Browser: "__Host-authgate_login", Refresh: "refresh_token"}
	for _, c := range []struct {
		domain, name, host, path string
		want                     []string // Domain and Path of those that are cleared
	}{
		{"", "session_id", "app.example.co.uk", "/a", []string{
			" /a", "app.example.co.uk /", "app.example.co.uk /a", "example.co.uk /", "example.co.uk /a",
		}},
		// Its own is that of the domain.
		{"example.org", "session_id", "wiki.example.org", "/", []string{" /", "wiki.example.org /"}},
		{"", "session_id", "localhost", "", []string{"localhost /"}},
		{"", "session_id", "192.0.2.7", "/", nil},
		{"", "session_id", "[2001:db8::1]", "/", nil},
		{"", "session_id", "x.github.io", "/", []string{"x.github.io /"}}, // a public suffix has no cookies
		{"", "refresh_token", "localhost", "/", []string{" /", "localhost /"}},
		{"", "__Host-authgate_login", "wiki.example.org", "/", []string{" /"}},
	} {
		w := httptest.NewRecorder()
		cookies := Cookies{Names: names, prefix: "/auth/", domain: c.domain}
		cookies.ClearTwins(w, c.name, c.host, c.path)
		var got []string
		for _, cookie := range w.Result().Cookies() {
			if cookie.Name != c.name || cookie.MaxAge >= 0 || !cookie.Secure {
				t.Errorf("%+v: %s", c, cookie)
			}
			got = append(got, cookie.Domain+" "+cookie.Path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s of %s%s: %q, want %q", c.name, c.host, c.path, got, c.want)
		}
	}
	w := httptest.NewRecorder()
	cookies := Cookies{Names: names, prefix: "/"}
	cookies.ClearTwins(w, "session_id", strings.Repeat("a.", 60)+"example.org", strings.Repeat("/a", 2000))
	if n := len(w.Result().Cookies()); n > 100 {
		t.Errorf("%d cookies are cleared", n)
	}
}
