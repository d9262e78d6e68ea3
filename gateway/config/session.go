package config

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/publicsuffix"

	"authgate/gateway/cookiename"
)

func (s Session) check(r *report) {
	r.lifetime("session.lifetime", s.Lifetime)
	r.oneOf("session.same_site", s.SameSite, "lax", "strict", "none")
}

// checkDomain checks session.domain: it must be a domain for which browsers keep
// cookies, and all hosts of the gateway must be in it.
func (c *Config) checkDomain(r *report) {
	const key = "session.domain"
	domain := c.Session.Domain
	if domain == "" {
		return
	}
	if name, dot := strings.CutPrefix(domain, "."); dot {
		r.Fault(key, "%q begins with a dot; write %q, which includes all names below it", domain, name)
		return
	}
	if _, err := netip.ParseAddr(domain); err == nil {
		r.Fault(key, "%q is an address; browsers share cookies only below a domain like example.org", domain)
		return
	}
	if strings.ContainsAny(domain, ":/") || checkHost(domain) != nil {
		r.Fault(key, "%q is not a domain; expected only a name, like example.org", domain)
		return
	}
	if suffix, _ := publicsuffix.PublicSuffix(domain); suffix == domain {
		r.Fault(key, "%q is a public suffix, for which browsers keep no cookies; use a domain of your own like example.org", domain)
		return
	}
	c.checkHostsInDomain(r, key)
	for _, cookie := range []struct{ key, name string }{{"session.cookie", c.Session.Cookie}, {"delegated.cookie", c.Delegated.Cookie}} {
		if strings.HasPrefix(strings.ToLower(cookie.name), "__host-") {
			r.Fault(cookie.key, "%q belongs to one host, by its prefix, and cannot be shared in session.domain; choose another name, or remove session.domain", cookie.name)
		}
	}
}

// checkHostsInDomain checks that session.domain includes the hosts of the
// gateway. The local names that tls.mode internal adds are for tests.
func (c *Config) checkHostsInDomain(r *report, key string) {
	hosts := c.namedHosts()
	if r.Given("tls.domains") {
		hosts = c.allHosts()
	}
	for _, host := range hosts {
		name := strings.TrimPrefix(host, "*.")
		if name != c.Session.Domain && !strings.HasSuffix(name, "."+c.Session.Domain) {
			r.Fault(key, "the gateway's host %s is not in %q, so that users could not stay signed in there; remove session.domain, or the host from public_url, routes or tls.domains", host, c.Session.Domain)
		}
	}
}

// checkCookies checks that all cookies have valid and different names.
func (c *Config) checkCookies(r *report) {
	taken := map[string]string{
		CookieAccess: "the tokens (token.delivery)", CookieRefresh: "the tokens (token.delivery)",
		CookieLogin: "logins in progress",
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
