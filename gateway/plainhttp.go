package gateway

import (
	"errors"
	"net/http"

	"authgate/gateway/auth"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
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
	err := ex.refusal()
	if err == nil {
		err = checkFraming(&ex.Exchange)
	}
	if err == nil {
		err = redirectToHTTPS(&ex.Exchange, ex.state.site)
	}
	if err != nil {
		ex.fail(err)
	}
}

func redirectToHTTPS(ex *web.Exchange, site *web.Site) error {
	creds, err := auth.ReadCredentials(ex.Request.Header, &site.Cookies.Names, ex.Peer.Client)
	if err != nil || creds.Scheme != "" || creds.Cookies {
		return &web.Error{
			Status: http.StatusForbidden,
			Detail: "A credential was sent without encryption. Consider it exposed: change it, and use https.",
			Cause:  errors.New("a credential came in cleartext"), Problem: pages.ProblemCleartext,
		}
	}
	path, err := site.ParseTarget(ex.Request.RequestURI)
	if err != nil {
		return err
	}
	ex.Decision = web.DecisionAllow
	// To a host of the gateway, never to another one that the request names.
	host, err := policy.CanonicalHost(ex.Peer.Host)
	if err != nil {
		host = ""
	}
	ex.Redirect(http.StatusPermanentRedirect, site.SecureURL(host, path))
	return nil
}
