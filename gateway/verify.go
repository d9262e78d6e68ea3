package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/headername"
	"authgate/gateway/peer"
	"authgate/gateway/web"
)

// labelVerify is the label of a request to verify that leads to no route.
const labelVerify = "authgate/" + config.EndpointVerify

// takeOriginal replaces a request to verify by the request that the
// proxy asks about. From here on the exchange takes the same way as one of a
// client, up to the answer.
func (ex *exchange) takeOriginal() error {
	ex.Verify, ex.Label = true, labelVerify
	r := *ex.Request
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		ex.Header().Set("Connection", "close") // the server must not wait for the body
	}
	if !ex.Peer.Trusted {
		return &web.Error{
			Status: http.StatusForbidden, Detail: "Only a proxy that the gateway trusts may ask this.",
			Cause: errors.New("the request does not come from one of listen.trusted_proxies"),
		}
	}
	original, err := peer.ReadOriginal(r.Header)
	if err != nil {
		return &web.Error{Status: http.StatusBadRequest, Detail: "The proxy does not describe the request in one meaning.",
			Cause: err}
	}
	if !original.Secure {
		return web.NotSecure("the original request came over http")
	}
	r.Method, r.Host, r.RequestURI = original.Method, original.Host, original.Target
	r.URL, r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = &url.URL{}, http.NoBody, 0, nil, nil
	if original.WebSocket {
		r.Header = r.Header.Clone()
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
	}
	ex.Request, ex.original = &r, original
	ex.Peer.Proto, ex.Peer.Host = "https", original.Host
	return nil
}

// checkIdentityNames refuses a request with a header that an application could
// take for one of the identity headers, and that a proxy which copies those
// would not overwrite. From a request that the gateway forwards it is removed.
func (r *route) checkIdentityNames(h http.Header) error {
	if name := r.identity.Imitation(h); name != "" {
		return &web.Error{
			Status: http.StatusBadRequest, Detail: "The request has a header that could be taken for an identity.",
			Cause: fmt.Errorf("the header %s can be read as %s", name, headername.Fold(name)),
		}
	}
	return nil
}

// confirm tells the proxy that the original request may pass, and who makes it.
func (ex *exchange) confirm() {
	ex.ClearStale()
	h := ex.Header()
	ex.route.identity.SetAll(h, ex.Identity)
	values := [...]string{"no-store", ex.ID, "0"} // one allocation for all
	h["Cache-Control"], h["X-Request-Id"], h["Content-Length"] = values[0:1:1], values[1:2:2], values[2:3:3]
	ex.WriteHeader(http.StatusOK)
}

// leadTo redirects a user who is not signed in. Through a proxy the place needs
// its host, because the proxy asks for another URL than the user. auth_request
// of nginx makes a redirect an error of the server, but passes a 401 on.
func (ex *exchange) leadTo(place string) error {
	if ex.Verify && strings.HasPrefix(place, "/") {
		place = "https://" + ex.Peer.Host + place
	}
	if ex.original.AuthRequest {
		ex.Header().Set("Location", place)
		return &web.Error{Status: http.StatusUnauthorized, Detail: auth.DetailNotSignedIn}
	}
	ex.ClearStale()
	ex.Redirect(http.StatusFound, place)
	return nil
}
