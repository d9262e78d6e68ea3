package gateway

import (
	"net/http"
	"slices"
	"time"
)

// The cookies that carry tokens where token.delivery is cookie.
const (
	accessCookie  = "access_token"
	refreshCookie = "refresh_token"
)

const deliveryCookie = "cookie"

func (ex *exchange) tokensByCookie() bool { return ex.st.config.Token.Delivery == deliveryCookie }

// cookie makes one of the gateway's cookies, out of reach of scripts and of
// cleartext.
func (ex *exchange) cookie(name, value string, lives time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(lives.Seconds()),
		HttpOnly: true, Secure: true, SameSite: ex.sameSite(),
	}
	switch name {
	case refreshCookie: // only the gateway reads it, and no other site has a use for it
		c.Path, c.SameSite = ex.st.config.Endpoints.Prefix, http.SameSiteStrictMode
	case ex.st.cookies.Delegated, ex.st.cookies.Browser: // must come along from the provider
		c.SameSite = http.SameSiteLaxMode
	}
	return c
}

func (ex *exchange) sameSite() http.SameSite {
	switch ex.st.config.Session.SameSite {
	case "strict":
		return http.SameSiteStrictMode
	case "none":
		return http.SameSiteNoneMode
	}
	return http.SameSiteLaxMode
}

// setSession gives a session to the browser.
func (ex *exchange) setSession(name, id string, lives time.Duration) {
	http.SetCookie(ex, ex.cookie(name, id, lives))
}

// clearBefore takes back the cookies of who somebody was before: nobody is two
// people at once. given are those that the new login has set. Where the
// browser comes from another site, strict cookies do not come along, so what
// is not seen may be there.
func (ex *exchange) clearBefore(unseen bool, given ...string) {
	names := ex.st.cookies
	for name, value := range map[string]string{
		names.Session: ex.creds.Session, names.Delegated: ex.creds.Delegated,
		names.Access: ex.creds.Access, names.Refresh: ex.creds.Refresh,
	} {
		if name != "" && (unseen || value != "") && !slices.Contains(given, name) {
			ex.clearCookie(name)
		}
	}
}

// deliver sets the token cookies if that is how tokens are delivered. until
// is when the refresh token ends.
func (ex *exchange) deliver(given *issued, until time.Time) {
	if ex.tokensByCookie() {
		http.SetCookie(ex, ex.cookie(accessCookie, given.access, given.left))
		http.SetCookie(ex, ex.cookie(refreshCookie, given.refresh, until.Sub(ex.gw.shared())))
	}
}

// clearCookies makes the browser forget the gateway's cookies.
func (ex *exchange) clearCookies() {
	names := ex.st.cookies
	for _, name := range []string{names.Session, names.Delegated, names.Browser, names.Access, names.Refresh} {
		if name != "" {
			ex.clearCookie(name)
		}
	}
}

func (ex *exchange) clearCookie(name string) { http.SetCookie(ex, ex.clearedCookie(name)) }

func (ex *exchange) clearedCookie(name string) *http.Cookie {
	c := ex.cookie(name, "", 0)
	c.MaxAge, c.Expires = -1, time.Unix(1, 0)
	return c
}

// clearsDead reports whether the answer may clear cookies that are no longer
// valid. A browser deletes a cookie by its name, whatever its value is by now.
// Requests that a page makes in the background may be answered after a new
// login has set the cookie again, so only page loads clear it, and programs,
// which say nothing of their mode.
func (ex *exchange) clearsDead() bool {
	mode := ex.r.Header.Get("Sec-Fetch-Mode")
	return mode == "" || mode == "navigate"
}

// clearDead clears the cookies that were found to be no longer valid.
func (ex *exchange) clearDead() {
	if ex.clearsDead() {
		for _, name := range ex.dead {
			ex.clearCookie(name)
		}
	}
}
