package gateway

import (
	"net/http"

	"authgate/gateway/proxy/web"
)

// labelPlainHTTP is the label of requests by plain HTTP.
const labelPlainHTTP = "authgate/plain"

// HTTPRedirect answers a request by plain HTTP: with a redirect to https, or with an error
// if it carries a credential. Everyone on the way can have read that credential, and its
// owner must know.
func (g *Gateway) HTTPRedirect(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.finish()
	ex.Label, ex.Cleartext = labelPlainHTTP, true
	err := ex.checkInFlight()
	if err == nil {
		err = checkFraming(&ex.Exchange)
	}
	if err == nil {
		err = web.RedirectToHTTPS(&ex.Exchange)
	}
	if err != nil {
		ex.fail(err)
	}
}
