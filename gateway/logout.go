package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/pages"
)

// logoutTime bounds the writes of a logout, which go on when the client
// leaves.
const logoutTime = 5 * time.Second

// logout is POST /logout: it ends every credential presented. It answers 200
// only when the store has recorded the end.
func (ex *exchange) logout() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ex.r.Context()), logoutTime)
	defer cancel()
	if err := ex.checkLogout(ctx); err != nil {
		return err
	}
	if err := ex.verifyBearer(ctx); err != nil {
		return err
	}
	ended, err := ex.endCookies(ctx)
	redirect := ex.endAtProvider(ended)
	if err != nil {
		return err
	}
	// Last, so that after a failure before it the logout can be sent again.
	if err := ex.revokeBearer(ctx); err != nil {
		return err
	}
	ex.clearCookies()
	switch {
	case negotiate(ex.r) != typeHTML:
		ex.json(typeJSON, http.StatusOK, signedOut{Message: "Signed out.", ContinueAt: redirect})
	case redirect != "":
		// Not a redirect: browsers hold those after a form to form-action, too.
		ex.page(http.StatusOK, func(p *pages.Pages) error {
			return p.SignedOut(ex, pages.SignedOut{ContinueURL: redirect})
		})
	default:
		ex.redirect(http.StatusSeeOther, "/")
	}
	return nil
}

// signedOut is the body of a logout. ContinueAt is where the browser has to go
// to sign out at the provider, too.
type signedOut struct {
	Message    string `json:"message"`
	ContinueAt string `json:"continue_at,omitempty"`
}

// logoutByLink is GET /logout: the same for cookies. A link of another site
// must not sign a person out, so it leads to a page that asks.
func (ex *exchange) logoutByLink() error {
	switch ex.r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return ex.confirmLogout()
	}
	if ex.req.Method == http.MethodHead { // which asks and does nothing
		ex.redirect(http.StatusFound, "/")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ex.r.Context()), logoutTime)
	defer cancel()
	ended, err := ex.endCookies(ctx)
	target := ex.endAtProvider(ended)
	if err != nil {
		return err
	}
	if target == "" {
		target = "/"
	}
	ex.clearCookies()
	ex.redirect(http.StatusFound, target)
	return nil
}

func (ex *exchange) confirmLogout() error {
	page := pages.ConfirmLogout{Action: ex.st.own("logout")}
	if ex.st.csrf != nil {
		logins, err := ex.presentedLogins(ex.r.Context())
		if err != nil {
			return err
		}
		if len(logins) > 0 {
			page.Token = ex.formToken(logins[0])
		}
	}
	ex.page(http.StatusOK, func(p *pages.Pages) error { return p.ConfirmLogout(ex, page) })
	return nil
}

// verifyBearer refuses a bearer token that is not good, before anything ends.
func (ex *exchange) verifyBearer(ctx context.Context) error {
	if ex.creds.Scheme != "bearer" {
		return nil
	}
	id, err := ex.st.bearers.Authenticate(ctx, &ex.creds)
	if err != nil {
		ex.challenges = auth.Chain{ex.st.bearers}.Challenges(&ex.creds)
		return err
	}
	ex.identify(id)
	return nil
}

// revokeBearer ends what the bearer token opens. One that verifyBearer has
// found good and that is not any more belonged to a login that a cookie has
// just ended.
func (ex *exchange) revokeBearer(ctx context.Context) error {
	if ex.creds.Scheme != "bearer" {
		return nil
	}
	_, err := ex.st.bearers.Revoke(ctx, ex.creds.Value)
	if errors.Is(err, auth.ErrRejected) {
		return nil
	}
	if err != nil {
		return err
	}
	ex.gw.metrics.tokens.WithLabelValues(tokenRevoked).Inc()
	ex.audit("logout")
	return nil
}

// endCookies ends the logins that the cookies belong to, and returns the one
// that a provider has vouched for, if it was alive.
func (ex *exchange) endCookies(ctx context.Context) (delegated *auth.Login, err error) {
	if delegated, err = ex.endHandles(ctx); err != nil {
		return delegated, err
	}
	return delegated, ex.endAccessCookie(ctx)
}

// sessionHandle is a cookie that leads to a login.
type sessionHandle struct {
	value   string
	loginOf func(context.Context, string) (string, error)
}

// handles are the cookies that lead to logins, presented or not, but for the
// access token.
func (ex *exchange) handles() []sessionHandle {
	handles := []sessionHandle{
		{ex.creds.Session, ex.st.sessions.LoginOf}, {ex.creds.Refresh, ex.st.refresh.LoginOf},
	}
	if ex.st.delegated != nil {
		handles = append(handles, sessionHandle{ex.creds.Delegated, ex.st.delegated.LoginOf})
	}
	return handles
}

// endHandles ends the logins behind the cookies. A cookie that opens nothing
// any more is nobody's. Of a delegated login that was alive it returns what it
// was, also beside an error.
func (ex *exchange) endHandles(ctx context.Context) (delegated *auth.Login, err error) {
	for _, h := range ex.handles() {
		login, err := ex.endHandle(ctx, h)
		if err != nil {
			return delegated, err
		}
		if login != nil && login.Delegated != nil {
			delegated = login
		}
	}
	return delegated, nil
}

// endHandle ends the login that a cookie leads to, and returns it, nil if
// there was none.
func (ex *exchange) endHandle(ctx context.Context, h sessionHandle) (*auth.Login, error) {
	if h.value == "" {
		return nil, nil
	}
	sid, err := h.loginOf(ctx, h.value)
	if errors.Is(err, auth.ErrRejected) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	login, err := ex.st.logins.End(ctx, sid)
	if err != nil || login == nil {
		return nil, err
	}
	if login.HasTokens() {
		ex.gw.metrics.tokens.WithLabelValues(tokenRevoked).Inc()
	}
	ex.audit("logout", slog.String("subject", login.Subject()), slog.String("login", login.ID))
	return login, nil
}

func (ex *exchange) endAccessCookie(ctx context.Context) error {
	if ex.creds.Access == "" {
		return nil
	}
	id, err := ex.st.bearer.Revoke(ctx, ex.creds.Access) // a cookie holds none but our own
	if errors.Is(err, auth.ErrRejected) {
		return nil
	}
	if err != nil {
		return err
	}
	ex.identify(id)
	ex.gw.metrics.tokens.WithLabelValues(tokenRevoked).Inc()
	ex.audit("logout")
	return nil
}
