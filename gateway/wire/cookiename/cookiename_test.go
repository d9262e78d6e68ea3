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
		"authgate_app___Host-x", "authgate_app___sEcure-x", "__Host-authgate_app_Http-x",
		"__Secure-authgate_app", "authgate_app_", "session", "",
	} {
		if got := ForApplication(name); got != name {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

// The cookie of an owner is that of no other owner, and its name is an application's.
func TestOwners(t *testing.T) {
	t.Parallel()
	alice, bob := OwnerOf("local:alice"), OwnerOf("local:bob")
	for name, want := range map[string]string{
		"sid":                  "authgate_user_b1lRpFqdmgTJYmho_sid",
		"__Host-sid":           "__Host-authgate_user_b1lRpFqdmgTJYmho_sid",
		"authgate_app_session": "authgate_user_b1lRpFqdmgTJYmho_authgate_app_session",
	} {
		got := alice.ForBrowser(name)
		if own, ok := alice.ForApplication(got); got != want || own != name || !ok || !Owned(got) || !Marked(got) {
			t.Errorf("%q is %q to the browser, want %q, and %q to the application", name, got, want, own)
		}
		for _, other := range []Owner{bob, OwnerOf(""), ""} {
			if own, ok := other.ForApplication(got); ok || own != got {
				t.Errorf("%q is %q for %q too", got, own, other)
			}
		}
	}
	for _, name := range []string{"sid", string(alice), string(alice) + "__Host-sid", "authgate_user_sid",
		"Authgate_user_"} {
		if own, ok := alice.ForApplication(name); ok || own != name {
			t.Errorf("%q is alice's %q", name, own)
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
		owner := OwnerOf(b)
		if got, ok := owner.ForApplication(owner.ForBrowser(a)); got != a || !ok {
			t.Errorf("%q comes back to its owner as %q", a, got)
		}
		own, _ := owner.ForApplication(a)
		for _, name := range []string{ForBrowser(a), ForApplication(a), owner.ForBrowser(a), own} {
			for _, prefix := range securityPrefixes {
				has := func(s string) bool { return strings.HasPrefix(strings.ToLower(s), strings.ToLower(prefix)) }
				if has(name) != has(a) {
					t.Errorf("%q becomes %q", a, name)
				}
			}
		}
	})
}
