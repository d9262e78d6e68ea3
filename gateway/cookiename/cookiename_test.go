package cookiename

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"session":                    "authgate_app_session",
		"authgate_app_session":       "authgate_app_authgate_app_session",
		"__Host-authgate_login":      "__Host-authgate_app_authgate_login",
		"__secure-session":           "__secure-authgate_app_session",
		"__Host-Http-session":        "__Host-Http-authgate_app_session",
		"__Host":                     "authgate_app___Host",
		"__Host-":                    "__Host-authgate_app_",
		"__Host-authgate_app_x":      "__Host-authgate_app_authgate_app_x",
		"authgate_app___Host-cookie": "authgate_app_authgate_app___Host-cookie",
	} {
		if got := ForBrowser(name); got != want || !Marked(got) || ForApplication(got) != name {
			t.Errorf("%q is %q to the browser, want %q, and %q to the application", name, got, want, ForApplication(got))
		}
	}
	// What a browser was not asked to protect gains no name that says so.
	for _, name := range []string{
		"authgate_app___Host-x", "authgate_app___sEcure-x", "__Host-authgate_app_Http-x", "__Secure-authgate_app", "authgate_app_", "session", "",
	} {
		if got := ForApplication(name); got != name {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

// Each name comes back, no two become one, and the security prefix stays.
func FuzzNames(f *testing.F) {
	f.Add("session", "authgate_app_session")
	f.Add("__Host-session", "authgate_app___Host-session")
	f.Add("__HOST-http-x", "__Host-__Http-x")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		if got := ForApplication(ForBrowser(a)); got != a {
			t.Errorf("%q comes back as %q", a, got)
		}
		if a != b && ForBrowser(a) == ForBrowser(b) {
			t.Errorf("%q and %q are both %q", a, b, ForBrowser(a))
		}
		for _, name := range []string{ForBrowser(a), ForApplication(a)} {
			for _, prefix := range securityPrefixes {
				has := func(s string) bool { return strings.HasPrefix(strings.ToLower(s), strings.ToLower(prefix)) }
				if has(name) != has(a) {
					t.Errorf("%q becomes %q", a, name)
				}
			}
		}
	})
}
