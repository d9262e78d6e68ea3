package config

import (
	"slices"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/cookiename"
)

// checkSession checks the mechanism of sessions.
func (l *loader) checkSession() {
	l.lifetime("session.lifetime", l.cfg.Session.Lifetime)
	l.oneOf("session.same_site", l.cfg.Session.SameSite, "lax", "strict", "none")
}

// checkCookies checks that all cookies have valid and different names.
func (l *loader) checkCookies() {
	taken := map[string]string{
		CookieAccess: "the tokens (token.delivery)", CookieRefresh: "the tokens (token.delivery)",
		CookieLogin: "logins in progress at a provider",
	}
	cookies := []struct{ key, name string }{
		{"delegated.cookie", l.cfg.Delegated.Cookie}, {"session.cookie", l.cfg.Session.Cookie},
	}
	if l.main.Given("delegated.cookie") { // report the fault at a key that is written
		slices.Reverse(cookies)
	}
	for _, c := range cookies {
		if !httpguts.ValidHeaderFieldName(c.name) {
			l.fault(c.key, "%q is not the name of a cookie; use letters, digits, - and _", c.name)
			continue
		}
		if cookiename.Marked(c.name) {
			l.fault(c.key, "%q contains %s, which marks the cookies of applications; choose another name", c.name, cookiename.Mark)
			continue
		}
		if user, twice := taken[c.name]; twice {
			l.fault(c.key, "%q is already the cookie of %s", c.name, user)
			continue
		}
		taken[c.name] = c.key
	}
}
