package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/policy"
)

// A browser sends cookies by itself, on behalf of any site. What that could
// change is refused here, by what browsers say of the site that asks, and for
// clients that say nothing, if it is so configured, by a token that no other
// site can know.

// The header and the form field of the anti-CSRF token.
const (
	csrfHeader = "X-CSRF-Token"
	csrfField  = "csrf_token"
)

// byCookie reports whether a cookie proved the identity.
func (ex *exchange) byCookie() bool {
	switch ex.id.Mechanism {
	case policy.Basic:
		return false
	case policy.Bearer:
		return ex.creds.Scheme != "bearer"
	}
	return true
}

// crossSite refuses a request to a route that another site may be behind.
func (ex *exchange) crossSite(route *route) error {
	if route.config.CrossOrigin == config.CrossOriginAllow || !ex.byCookie() {
		return nil
	}
	if err := ex.sameOrigin(); err != nil {
		return err
	}
	if !ex.needsToken() {
		return nil
	}
	return ex.checkToken(ex.id.Login)
}

// sameOrigin refuses a state change or a WebSocket that another site makes
// the browser ask for (Origin, Fetch Metadata).
func (ex *exchange) sameOrigin() error {
	r := http.Request{Method: ex.r.Method, Header: ex.r.Header, Host: ex.peer.Host, URL: ex.r.URL}
	if upgrade(r.Header) != "" {
		r.Method = http.MethodPost // a WebSocket begins with a GET and lets its client do anything
	}
	if err := ex.st.crossOrigin.Check(&r); err != nil {
		return ex.notSameSite(err)
	}
	// Hosts alone are compared there, and over http anybody can be any host.
	origin := r.Header.Get("Origin")
	if changes(r.Method) && r.Header.Get("Sec-Fetch-Site") == "" && strings.HasPrefix(origin, "http://") {
		return ex.notSameSite(errors.New("the Origin is not https"))
	}
	return nil
}

// changes reports whether requests with the method may change something (RFC
// 9110, section 9.2.1).
func changes(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

func (ex *exchange) notSameSite(err error) error {
	ex.reason = err.Error()
	ex.audit("denied", slog.String("reason", ex.reason))
	return &httpError{status: http.StatusForbidden, detail: "Another site may not do this on your behalf.", cause: err}
}

// needsToken reports whether the request must carry the anti-CSRF token: it
// changes something, and says nothing of the site behind it.
func (ex *exchange) needsToken() bool {
	if ex.st.csrf == nil {
		return false
	}
	if !changes(ex.req.Method) && upgrade(ex.r.Header) == "" {
		return false
	}
	return ex.r.Header.Get("Sec-Fetch-Site") == "" && ex.r.Header.Get("Origin") == ""
}

// csrfToken is the token of a login: nobody can make it without the key.
func (ex *exchange) csrfToken(login string) string {
	return base64.RawURLEncoding.EncodeToString(ex.st.csrf.MAC("csrf:" + login))
}

// checkToken refuses a request that does not present the token of one of the
// logins.
func (ex *exchange) checkToken(logins ...string) error {
	presented, err := ex.presentedToken()
	if err != nil {
		return err
	}
	for _, login := range logins {
		if login != "" && hmac.Equal([]byte(presented), []byte(ex.csrfToken(login))) {
			return nil
		}
	}
	return ex.notSameSite(errors.New("neither Origin nor Sec-Fetch-Site tells the site, and " + csrfHeader + " is missing or not that of the login"))
}

// presentedToken returns the token of the request: from the header, else from
// the field of a form, whose body is put back for the upstream.
func (ex *exchange) presentedToken() (string, error) {
	if token := ex.r.Header.Get(csrfHeader); token != "" {
		return token, nil
	}
	if ex.mediaType() != typeForm || ex.r.ContentLength <= 0 || ex.r.ContentLength > maxOwnBody {
		return "", nil
	}
	if ex.body == nil {
		if err := ex.readBody(); err != nil {
			return "", err
		}
		ex.r.Body = io.NopCloser(bytes.NewReader(ex.body))
	}
	values, err := url.ParseQuery(string(ex.body))
	if err != nil || len(values[csrfField]) != 1 {
		return "", nil
	}
	return values.Get(csrfField), nil
}

// giveToken is GET /csrf-token: the token of the login at hand.
func (ex *exchange) giveToken() error {
	id, err := ex.whoAsks()
	if err != nil {
		return err
	}
	if id.Login == "" {
		return &httpError{status: http.StatusBadRequest, detail: "This credential belongs to no login, and needs no token."}
	}
	ex.json(typeJSON, http.StatusOK, map[string]string{csrfField: ex.csrfToken(id.Login)})
	return nil
}

// formToken is the token for the forms of the gateway's own pages, empty where
// none is needed.
func (ex *exchange) formToken(login string) string {
	if ex.st.csrf == nil || login == "" {
		return ""
	}
	return ex.csrfToken(login)
}

// checkLogout holds a logout by cookies to the same rule.
func (ex *exchange) checkLogout(ctx context.Context) error {
	if !ex.needsToken() {
		return nil
	}
	logins, err := ex.presentedLogins(ctx)
	if err != nil || len(logins) == 0 {
		return err
	}
	return ex.checkToken(logins...)
}

// checkRefresh holds a refresh by cookie to it as well.
func (ex *exchange) checkRefresh(token string) error {
	if token == "" || token != ex.creds.Refresh || !ex.needsToken() {
		return nil
	}
	sid, err := ex.st.refresh.LoginOf(&ex.storage, token)
	if errors.Is(err, auth.ErrRejected) {
		return nil // there is nothing to change
	}
	if err != nil {
		return err
	}
	return ex.checkToken(sid)
}

// presentedLogins are the sids of the logins behind the cookies, as far as they
// are known.
func (ex *exchange) presentedLogins(ctx context.Context) ([]string, error) {
	return loginsOf(ctx, append(ex.handles(), sessionHandle{ex.creds.Access, ex.st.bearer.LoginOf}))
}

// upgrade returns the protocol that the request asks to switch to, if any.
func upgrade(h http.Header) string {
	if !httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade") {
		return ""
	}
	return h.Get("Upgrade")
}
