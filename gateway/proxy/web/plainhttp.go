package web

import (
	"errors"
	"net/http"

	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/policy"
)

// RedirectToHTTPS answers a request by plain HTTP with a redirect to https. If the
// request carries a credential, the error is a 403.
func RedirectToHTTPS(ex *Exchange) error {
	site := ex.site
	var creds auth.Credentials
	err := creds.Read(ex.Request.Header, &site.Cookies.Names, ex.Peer.Client)
	if err != nil || creds.Scheme != "" || creds.Cookies || len(ex.Request.Header["Proxy-Authorization"]) > 0 ||
		site.TokenHeader != "" && len(ex.Request.Header[site.TokenHeader]) > 0 {
		return &Error{
			Status: http.StatusForbidden,
			Detail: "A credential was sent without encryption. Consider it exposed: change it, and use https.",
			Cause:  errors.New("a credential came in cleartext"), Problem: pages.ProblemCleartext,
		}
	}
	// To a host of the gateway, never to another one that the request names.
	host, err := policy.CanonicalHost(ex.Peer.Host)
	if err != nil {
		host = ""
	}
	path, err := site.ParseTarget(host, ex.Request.RequestURI)
	if err != nil {
		return err
	}
	ex.Decision = DecisionAllow
	ex.Redirect(http.StatusPermanentRedirect, site.SecureURL(host, path))
	return nil
}
