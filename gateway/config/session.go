package config

import (
	"slices"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/cookiename"
)

func (s Session) check(r *report) {
	r.lifetime("session.lifetime", s.Lifetime)
	r.oneOf("session.same_site", s.SameSite, "lax", "strict", "none")
}

// checkCookies checks that all cookies have valid and different names.
func (c *Config) checkCookies(r *report) {
	taken := map[string]string{
		CookieAccess: "the tokens (token.delivery)", CookieRefresh: "the tokens (token.delivery)",
		CookieLogin: "logins in progress at a provider",
	}
	cookies := []struct{ key, name string }{
		{"delegated.cookie", c.Delegated.Cookie}, {"session.cookie", c.Session.Cookie},
	}
	if r.Given("delegated.cookie") { // report the fault at a key that is written
		slices.Reverse(cookies)
	}
	for _, cookie := range cookies {
		if !httpguts.ValidHeaderFieldName(cookie.name) {
			r.Fault(cookie.key, "%q is not the name of a cookie; use letters, digits, - and _", cookie.name)
			continue
		}
		if cookiename.Marked(cookie.name) {
			r.Fault(cookie.key, "%q contains %s, which marks the cookies of applications; choose another name", cookie.name, cookiename.Mark)
			continue
		}
		if user, twice := taken[cookie.name]; twice {
			r.Fault(cookie.key, "%q is already the cookie of %s", cookie.name, user)
			continue
		}
		taken[cookie.name] = cookie.key
	}
}
