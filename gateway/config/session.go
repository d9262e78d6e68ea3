package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/publicsuffix"

	"authgate/gateway/config/section"
	"authgate/gateway/wire/cookiename"
	"authgate/policy"
)

// Values of same_site. Browsers know them by these names, too.
const (
	SameSiteStrict = "strict"
	SameSiteNone   = "none"
)

// session configures the mechanism session.
type session struct {
	// Cookie has its prefix, if HostPrefix.
	Cookie      string        `yaml:"cookie" default:"session_id"` // with the prefix, if HostPrefix
	Lifetime    time.Duration `yaml:"lifetime" default:"1h" min:"1s"`
	Remember    time.Duration `yaml:"remember" max:"400d" why:": browsers keep no cookie for longer"`
	IdleTimeout time.Duration `yaml:"idle_timeout"` // 0: off
	SameSite    string        `yaml:"same_site" default:"lax" words:"lax strict none"`
	HostPrefix  bool          `yaml:"host_prefix"`
	CSRFToken   bool          `yaml:"csrf_token"`
	Domain      string        `yaml:"domain"`
}

func (s session) checkRemember(r *section.Report) {
	if s.Remember != 0 && s.Remember < s.Lifetime {
		r.Fault("session.remember", "is shorter than session.lifetime (%v): a user who stays signed in would be "+
			"signed out earlier; make it longer, like 30d, or 0s for none", s.Lifetime)
	}
}

// domain checks session.domain: it must be a domain for which browsers keep cookies,
// and all hosts of the gateway must be in it.
func (k *checker) domain() {
	const key = "session.domain"
	c, r := k.cfg, k.report
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
	if err := policy.CheckASCII(domain); err != nil {
		r.Fault(key, "%q %v", domain, err)
		return
	}
	if strings.ContainsAny(domain, ":/") || section.CheckHost(domain) != nil {
		r.Fault(key, "%q is not a domain; expected only a name, like example.org", domain)
		return
	}
	if suffix, _ := publicsuffix.PublicSuffix(domain); suffix == domain {
		r.Fault(key,
			"%q is a public suffix, for which browsers keep no cookies; use a domain of your own like "+
				"example.org", domain)
		return
	}
	hosts := c.namedHosts()
	if r.Given("tls.domains") { // the local names that tls.mode internal adds are for tests
		hosts = c.hosts
	}
	c.Session.checkHosts(r, hosts)
	if c.Session.HostPrefix {
		r.Fault("session.host_prefix",
			"cannot be true with session.domain, because browsers accept no Domain for names that begin with __Host-; "+
				"remove one of the two")
		return
	}
	for _, cookie := range []struct{ key, name string }{
		{"session.cookie", c.Session.Cookie}, {"delegated.cookie", c.Delegated.Cookie},
	} {
		if strings.HasPrefix(strings.ToLower(cookie.name), "__host-") {
			r.Fault(cookie.key,
				"%q belongs to one host, by its prefix, and cannot be shared in session.domain; "+
					"choose another name, or remove session.domain", cookie.name)
		}
	}
}

// checkHosts checks that session.domain includes the hosts of the gateway.
func (s session) checkHosts(r *section.Report, hosts []string) {
	for _, host := range hosts {
		name := strings.TrimPrefix(host, "*.")
		if name != s.Domain && !strings.HasSuffix(name, "."+s.Domain) {
			r.Fault("session.domain",
				"the gateway's host %s is not in %q, so that users could not stay signed in there; "+
					"remove session.domain, or the host from public_url, routes or tls.domains", host, s.Domain)
		}
	}
}

// Cookies of DeliveryCookie, without the prefix of Session.HostPrefix.
const (
	CookieAccess  = "access_token"
	CookieRefresh = "refresh_token"
)

// CookieLogin is the cookie that binds a login in progress, at a provider or from
// another host of the gateway, to the browser that started it.
const CookieLogin = "__Host-authgate_login"

// CookieLanguage is the cookie that keeps which language a user has chosen for the gateway's pages.
const CookieLanguage = "__Host-authgate_language"

// CookieEnded is the cookie that tells, after a session has ended by time, that it has, without
// the prefix of Session.HostPrefix. It goes where the cookie of the session goes.
const CookieEnded = "authgate_ended"

// hostPrefix begins the name of a cookie that browsers accept only with Secure, the
// path / and no Domain (RFC 6265bis, section 4.1.3.2), so that no other host and no
// cleartext response can set it.
const hostPrefix = "__Host-"

// CookieName returns the name of one of the gateway's cookies with the prefix, if
// HostPrefix is set.
func (s session) CookieName(name string) string {
	if !s.HostPrefix || strings.HasPrefix(name, hostPrefix) || name == "" {
		return name
	}
	return hostPrefix + name
}

// cookies checks that all cookies have valid and different names.
func (k *checker) cookies() {
	c, r := k.cfg, k.report
	if c.Session.HostPrefix && c.Token.Delivery == DeliveryCookie && c.Endpoints.Prefix != "/" {
		r.Fault("session.host_prefix",
			"cannot be true with token.delivery cookie and endpoints.prefix %q, because the cookie of the "+
				"refresh token has "+
				"that path, and browsers accept __Host- only with the path /; use endpoints.prefix /, or "+
				"token.delivery body",
			c.Endpoints.Prefix)
	}
	taken := map[string]string{
		c.Session.CookieName(CookieAccess):  "the tokens (token.delivery)",
		c.Session.CookieName(CookieRefresh): "the tokens (token.delivery)",
		CookieLogin:                         "logins in progress",
		CookieLanguage:                      "the language of the pages",
		c.Session.CookieName(CookieEnded):   "sessions that have ended",
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
			r.Fault(cookie.key,
				"%q is like the names of applications' cookies in the browser; choose another name", cookie.name)
			continue
		}
		if user, twice := taken[cookie.name]; twice {
			r.Fault(cookie.key, "%q is already the cookie of %s", cookie.name, user)
			continue
		}
		taken[cookie.name] = cookie.key
	}
}
