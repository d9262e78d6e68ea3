package gateway

import (
	"net/http"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
)

// checkIdentityNames refuses a request with a header that an application could
// take for one of the identity headers, and that a proxy which copies those
// would not overwrite. From a request that the gateway forwards it is removed.
func (r *route) checkIdentityNames(h http.Header) error {
	if err := r.identity.CheckImitation(h); err != nil {
		return &web.Error{Status: http.StatusBadRequest,
			Detail: "The request has a header that could be taken for an identity.", Cause: err}
	}
	return nil
}

// allowProxy tells the proxy that the original request may pass, and who makes it.
func (ex *exchange) allowProxy() {
	ex.Stale.Clear(ex)
	h := ex.Header()
	ex.route.identity.SetAll(h, ex.Identity)
	if name := ex.state.site.TokenHeader; name != "" {
		h[name] = []string{""} // the proxy may copy it, so that the application does not get the client's
	}
	values := [...]string{"no-store", ex.ID, "0"} // one allocation for all
	h["Cache-Control"], h["X-Request-Id"], h["Content-Length"] = values[0:1:1], values[1:2:2], values[2:3:3]
	ex.WriteHeader(http.StatusOK)
	ex.allowed = true
}

// leadTo redirects the client to another place. Through a proxy the place needs
// its host, because the proxy asks for another URL than the user. auth_request
// of nginx makes a redirect an error of the server, but passes a 401 on.
func (ex *exchange) leadTo(status int, place string) error {
	if ex.Verify && strings.HasPrefix(place, "/") {
		place = "https://" + ex.Peer.Host + place
	}
	if ex.AuthRequest {
		ex.Header().Set("Location", place)
		return &web.Error{Status: http.StatusUnauthorized, Detail: auth.DetailNotSignedIn}
	}
	ex.Stale.Clear(ex)
	ex.Redirect(status, place)
	return web.ErrAnswered
}
