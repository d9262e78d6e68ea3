package gateway

import (
	"errors"
	"net/http"

	"authgate/gateway/auth"
	"authgate/policy"
)

// HTTPRedirect answers cleartext HTTP (design B.1): a redirect to https, but for
// a request that carries a credential. That one has been seen by whoever
// listens on the way, and its sender should know.
func (g *Gateway) HTTPRedirect(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.finish()
	ex.label, ex.cleartext = "authgate/plain", true
	err := ex.refusal()
	if err == nil {
		err = ex.redirectHTTP()
	}
	if err != nil {
		ex.fail(err)
	}
}

func (ex *exchange) redirectHTTP() error {
	ex.peer = ex.st.trusted.Read(ex.r)
	creds, err := auth.ReadCredentials(ex.r.Header, &ex.st.cookies, ex.peer.Client)
	if err != nil || creds.Scheme != "" || creds.Cookies {
		return &httpError{
			status: http.StatusForbidden,
			detail: "A credential was sent without encryption. Consider it exposed: change it, and use https.",
			cause:  errors.New("a credential came in cleartext"),
		}
	}
	path, err := policy.ParseTarget(ex.r.RequestURI)
	if err != nil {
		return err
	}
	ex.decision = decisionAllow
	// To a host of the gateway, never to another one that the request names.
	host, err := policy.CanonicalHost(ex.peer.Host)
	if err != nil {
		host = ""
	}
	ex.redirect(http.StatusPermanentRedirect, ex.st.secureOrigin(host)+path.Raw+query(path))
	return nil
}
