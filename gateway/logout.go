package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
)

// logout is POST /logout: it ends every credential presented. It answers 200
// only when the store has recorded the end.
func (ex *exchange) logout() error {
	ctx := ex.storage.Detached()
	if err := ex.checkLogout(ctx); err != nil {
		return err
	}
	if err := ex.verifyBearer(ctx); err != nil {
		return err
	}
	ended, err := ex.endPresented()
	redirect := ex.endAtProvider(ended)
	if err != nil {
		return err
	}
	// Last, so that after a failure before it the logout can be sent again.
	if err := ex.revokeBearer(); err != nil {
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
	ended, err := ex.endPresented()
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
		logins, err := ex.presentedLogins(&ex.storage)
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
func (ex *exchange) revokeBearer() error {
	if ex.creds.Scheme != "bearer" {
		return nil
	}
	ctx, end := ex.storage.Recording()
	defer end()
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

// endPresented ends the logins that the cookies belong to, and returns the one
// that a provider has vouched for, if it was alive.
func (ex *exchange) endPresented() (delegated *login.Login, err error) {
	ctx, end := ex.storage.Recording()
	defer end()
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

// loginsOf returns the sids of the logins that handles lead to, each once. It
// looks at all of them side by side. A handle that opens nothing any more leads
// to none.
func loginsOf(ctx context.Context, handles []sessionHandle) ([]string, error) {
	found := make([]string, len(handles))
	var all errgroup.Group
	for i, h := range handles {
		if h.value == "" {
			continue
		}
		all.Go(func() error {
			sid, err := h.loginOf(ctx, h.value)
			if err == nil {
				found[i] = sid
			}
			if errors.Is(err, auth.ErrRejected) {
				return nil
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	var sids []string
	for _, sid := range found {
		if sid != "" && !slices.Contains(sids, sid) {
			sids = append(sids, sid)
		}
	}
	return sids, nil
}

// endHandles ends the logins behind the cookies, side by side. Of a delegated
// login that was alive it returns what it was, also beside an error.
func (ex *exchange) endHandles(ctx context.Context) (delegated *login.Login, err error) {
	sids, err := loginsOf(ctx, ex.handles())
	if err != nil {
		return nil, err
	}
	ended := make([]*login.Login, len(sids))
	var all errgroup.Group
	for i, sid := range sids {
		all.Go(func() (err error) {
			ended[i], err = ex.st.logins.End(ctx, sid)
			return err
		})
	}
	err = all.Wait()
	for _, login := range ended {
		if login == nil {
			continue
		}
		if login.HasTokens() {
			ex.gw.metrics.tokens.WithLabelValues(tokenRevoked).Inc()
		}
		ex.audit("logout", slog.String("subject", login.Subject()), slog.String("login", login.ID))
		if login.Delegated != nil {
			delegated = login
		}
	}
	return delegated, err
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
