package web

import (
	"net/http"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
)

// Cookies are the gateway's own cookies: their names and attributes.
type Cookies struct {
	Names auth.CookieNames

	now      func() time.Time // the local clock
	sameSite http.SameSite
	prefix   string // of own endpoints
	domain   string // of sessions; empty: each host has its own
}

// newCookies returns the cookies of a configuration. now is the local clock.
func newCookies(cfg *config.Config, now func() time.Time) Cookies {
	c := Cookies{
		now: now,
		Names: auth.CookieNames{
			Session: cfg.Session.Cookie, Language: config.CookieLanguage,
			Ended: cfg.Session.CookieName(config.CookieEnded),
		},
		sameSite: http.SameSiteLaxMode, prefix: cfg.Endpoints.Prefix, domain: cfg.Session.Domain,
	}
	if cfg.Token.Delivery == config.DeliveryCookie {
		c.Names.Access = cfg.Session.CookieName(config.CookieAccess)
		c.Names.Refresh = cfg.Session.CookieName(config.CookieRefresh)
	}
	if len(cfg.Providers) > 0 {
		c.Names.Delegated, c.Names.Browser = cfg.Delegated.Cookie, config.CookieLogin
	}
	switch cfg.Session.SameSite {
	case config.SameSiteStrict:
		c.sameSite = http.SameSiteStrictMode
	case config.SameSiteNone:
		c.sameSite = http.SameSiteNoneMode
	}
	return c
}

// Strict reports whether sessions of local accounts are SameSite=Strict.
func (c *Cookies) Strict() bool { return c.sameSite == http.SameSiteStrictMode }

// Tokens reports whether cookies deliver the tokens.
func (c *Cookies) Tokens() bool { return c.Names.Access != "" }

// Set gives a cookie to the browser.
func (c *Cookies) Set(w http.ResponseWriter, name, value string, lives time.Duration) {
	http.SetCookie(w, c.cookie(name, value, lives))
}

// SetSession gives the cookie of a session to the browser, and beside it the one that tells of the
// session's end: browsers drop the former at that moment. name is that of the session's cookie.
func (c *Cookies) SetSession(w http.ResponseWriter, name, id string, lives time.Duration) {
	c.Set(w, name, id, lives)
	c.Set(w, c.Names.Ended, auth.Trace(id), lives+auth.TraceLifetime)
}

// Clear makes the browser forget cookies of those names, but not of the empty
// name.
func (c *Cookies) Clear(w http.ResponseWriter, names ...string) {
	for _, name := range names {
		if name == "" {
			continue
		}
		for _, cookie := range c.cleared(name) {
			http.SetCookie(w, cookie)
		}
	}
}

// ClearAll makes the browser forget all cookies of the gateway.
func (c *Cookies) ClearAll(w http.ResponseWriter) {
	c.Clear(w, c.Names.Session, c.Names.Delegated, c.Names.Browser, c.Names.Access, c.Names.Refresh,
		c.Names.Ended)
}

// ClearOthers makes the browser forget the cookies of earlier logins, so that
// it presents one identity. given are those that the new login has set. unseen
// tells that the browser comes from another site: strict cookies do not come
// along, so those that are missing may be there too.
func (c *Cookies) ClearOthers(w http.ResponseWriter, creds *auth.Credentials, unseen bool, given ...string) {
	if slices.Contains(given, c.Names.Session) || slices.Contains(given, c.Names.Delegated) {
		given = append(given, c.Names.Ended)
	}
	for name, value := range map[string]string{
		c.Names.Session: creds.Session, c.Names.Delegated: creds.Delegated,
		c.Names.Access: creds.Access, c.Names.Refresh: creds.Refresh, c.Names.Ended: creds.Ended,
	} {
		if (unseen || value != "") && !slices.Contains(given, name) {
			c.Clear(w, name)
		}
	}
}

// cookie makes one of the gateway's cookies. Scripts cannot read it, and it is
// not sent in cleartext.
func (c *Cookies) cookie(name, value string, lives time.Duration) *http.Cookie {
	cookie := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(lives.Seconds()),
		HttpOnly: true, Secure: true, SameSite: c.sameSite,
	}
	if lives > 0 { // clients that know no Max-Age, and Java, which takes a cookie without Expires for an old kind
		cookie.Expires = c.now().Add(lives)
	}
	switch name {
	case c.Names.Refresh: // only the gateway reads it, and no other site has a use for it
		cookie.Path, cookie.SameSite = c.prefix, http.SameSiteStrictMode
	case c.Names.Delegated, c.Names.Browser, c.Names.Language, c.Names.Ended:
		// They must come along from the provider, and between hosts.
		cookie.SameSite = http.SameSiteLaxMode
	}
	switch name {
	case c.Names.Session, c.Names.Delegated, c.Names.Ended:
		cookie.Domain = c.domain
	}
	return cookie
}

// cleared returns the cookies that make a browser forget a cookie. One without Domain is another
// cookie: it is from before session.domain was set.
func (c *Cookies) cleared(name string) []*http.Cookie {
	cookie := c.cookie(name, "", 0)
	cookie.MaxAge, cookie.Expires = -1, time.Unix(1, 0)
	if cookie.Domain == "" {
		return []*http.Cookie{cookie}
	}
	own := *cookie
	own.Domain = ""
	return []*http.Cookie{cookie, &own}
}
