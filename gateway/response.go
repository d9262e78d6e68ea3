package gateway

import (
	"net/http"

	"authgate/gateway/auth"
)

// modifier returns what a route does to the header of every response of its
// upstream.
func (g *Gateway) modifier(st *state, public bool, upstream string) func(*http.Response) error {
	names, hsts := &st.cookies, st.hsts
	return func(response *http.Response) error {
		if hsts != "" { // the gateway's word over the upstream's (RFC 6797, section 8.1)
			response.Header["Strict-Transport-Security"] = []string{hsts}
		}
		if !public {
			keepPrivate(response)
		}
		if dropped := separateCookies(response.Header, names); dropped > 0 {
			g.logger.Warn("cookies of an upstream are left out: clients could read them as the gateway's", "upstream", upstream, "cookies", dropped)
		}
		return nil
	}
}

// keepPrivate keeps shared caches from giving one person's page to another
// where the upstream says nothing about it (RFC 9111, section 5.2.2.7).
func keepPrivate(response *http.Response) {
	if _, ok := response.Header["Cache-Control"]; !ok && response.StatusCode != http.StatusSwitchingProtocols {
		response.Header["Cache-Control"] = []string{"private"}
	}
}

// separateCookies gives the cookies that an upstream sets other names where
// they have the gateway's. It returns how many are left out.
func separateCookies(h http.Header, names *auth.CookieNames) (dropped int) {
	delete(h, "Set-Cookie2") // obsolete (RFC 6265, section 9.4); old clients still read it
	lines, ok := h["Set-Cookie"]
	if !ok {
		return 0
	}
	if lines, dropped = names.ToBrowser(lines); len(lines) == 0 {
		delete(h, "Set-Cookie")
	} else {
		h["Set-Cookie"] = lines
	}
	return dropped
}

// dropTrailerCookies keeps cookies in the trailer of an upstream's response
// from the client. The header itself has been sent by now.
func dropTrailerCookies(h http.Header) {
	for _, name := range [...]string{"Set-Cookie", "Set-Cookie2", http.TrailerPrefix + "Set-Cookie", http.TrailerPrefix + "Set-Cookie2"} {
		delete(h, name)
	}
}

// clearing is modify for a response that also clears cookies which are no
// longer valid.
func (ex *exchange) clearing(modify func(*http.Response) error) func(*http.Response) error {
	return func(response *http.Response) error {
		if err := modify(response); err != nil {
			return err
		}
		if ex.clearsDead() {
			for _, name := range ex.dead {
				response.Header.Add("Set-Cookie", ex.clearedCookie(name).String())
			}
		}
		return nil
	}
}
