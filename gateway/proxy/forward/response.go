package forward

import (
	"net/http"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
)

// modify makes the changes of the gateway and the route to the header of a response,
// and clears cookies that are no longer valid.
func (q *Request) modify(status int, h http.Header) {
	ex, route := q.Exchange, q.Route
	q.Trace.Answered(status)
	if _, typed := h["Content-Type"]; !typed {
		ex.Header()["Content-Type"] = nil // else servers guess one from the body, such as text/html
	}
	spellHandshake(ex.Header(), h) // which httputil.ReverseProxy would spell in its own way
	route.modify(status, h)
	if route.perUser {
		q.ownCookies(h)
	}
	if route.caching != nil && status != http.StatusSwitchingProtocols {
		route.caching.modify(ex, h)
	}
	if route.rewriter != nil {
		route.rewriter.Rewrite(h, ex.Peer.Host)
	}
	if status/100 == 3 {
		ex.NoteRedirect(route.config.Upstream, h["Location"])
	}
	ex.CORS.SetFields(ex.Request.Header, h)
	ex.Stale.ClearIn(h)
}

// modify makes the changes that are the same for every response of the route.
func (r *Route) modify(status int, h http.Header) {
	if r.hsts[0] != "" { // replaces that of the upstream (RFC 6797, section 8.1)
		h["Strict-Transport-Security"] = r.hsts
	}
	if r.altSvc[0] != "" { // replaces that of the upstream, which speaks of other ports
		h["Alt-Svc"] = r.altSvc
	}
	if _, ok := h["Cache-Control"]; !ok && !r.public && r.caching == nil && status != http.StatusSwitchingProtocols {
		// Else shared caches could give one user's page to another (RFC 9111, section 5.2.2.7).
		h["Cache-Control"] = r.private
	}
	if !r.config.AllowsWorkers() {
		withoutWorkers(h)
	}
	delete(h, web.SignInHeader)
	if dropped := separateCookies(h, &r.site.Cookies.Names); dropped > 0 {
		r.site.Service.Logger.Warn("cookies of an upstream are left out: clients could read them as the gateway's",
			"upstream", r.config.Upstream, "cookies", dropped)
	}
}

// separateCookies gives the cookies that an upstream sets other names where
// they have the gateway's. It returns how many are left out.
func separateCookies(h http.Header, names *auth.CookieNames) (dropped int) {
	delete(h, "Set-Cookie2") // obsolete (RFC 6265, section 9.4); old clients still read it
	if values, ok := h["Clear-Site-Data"]; ok {
		keepCookies(h, values)
	}
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

// allButCookies is "*" in Clear-Site-Data, without the cookies.
const allButCookies = `"cache", "clientHints", "executionContexts", "storage"`

// keepCookies removes the cookies from Clear-Site-Data (W3C Clear Site Data, section
// 3.1). They are those of the whole domain, and so the gateway's too.
func keepCookies(h http.Header, values []string) {
	var kept []string
	for _, value := range elements(values) {
		switch strings.ToLower(value) {
		case `"cookies"`:
		case `"*"`:
			kept = append(kept, allButCookies)
		default:
			kept = append(kept, value)
		}
	}
	if len(kept) == 0 {
		delete(h, "Clear-Site-Data")
	} else {
		h["Clear-Site-Data"] = []string{strings.Join(kept, ", ")}
	}
}
