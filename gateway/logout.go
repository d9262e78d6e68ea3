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
	if ex.creds.Scheme == "bearer" {
		if err := ex.revokeBearer(ctx); err != nil {
			return err
		}
	}
	if err := ex.endCookies(ctx); err != nil {
		return err
	}
	ex.clearCookies()
	if negotiate(ex.r) == typeHTML {
		ex.redirect(http.StatusSeeOther, "/")
		return nil
	}
	ex.json(typeJSON, http.StatusOK, tokenResponse{Message: "Signed out."})
	return nil
}

// logoutByLink is GET /logout: the same for cookies. A link of another site
// must not sign a person out, so it leads to a page that asks.
func (ex *exchange) logoutByLink() error {
	switch ex.r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		ex.page(http.StatusOK, func(p *pages.Pages) error {
			return p.ConfirmLogout(ex, pages.ConfirmLogout{Action: ex.st.own("logout")})
		})
		return nil
	}
	if ex.req.Method == http.MethodHead { // which asks and does nothing
		ex.redirect(http.StatusFound, "/")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ex.r.Context()), logoutTime)
	defer cancel()
	if err := ex.endCookies(ctx); err != nil {
		return err
	}
	ex.clearCookies()
	ex.redirect(http.StatusFound, "/")
	return nil
}

func (ex *exchange) revokeBearer(ctx context.Context) error {
	id, err := ex.st.bearer.Revoke(ctx, ex.creds.Value)
	if err != nil {
		ex.challenges = auth.Chain{ex.st.bearer}.Challenges(&ex.creds)
		return err
	}
	ex.identify(id)
	ex.gw.metrics.tokens.WithLabelValues(tokenRevoked).Inc()
	ex.audit("logout")
	return nil
}

// endCookies ends the logins that the cookies belong to. A cookie that opens
// nothing any more is only cleared.
func (ex *exchange) endCookies(ctx context.Context) error {
	for _, c := range []struct {
		value   string
		loginOf func(context.Context, string) (string, error)
	}{
		{ex.creds.Session, ex.st.sessions.LoginOf},
		{ex.creds.Refresh, ex.st.refresh.LoginOf},
	} {
		if c.value == "" {
			continue
		}
		sid, err := c.loginOf(ctx, c.value)
		if errors.Is(err, auth.ErrRejected) {
			continue
		}
		if err != nil {
			return err
		}
		login, err := ex.st.logins.End(ctx, sid)
		if err != nil {
			return err
		}
		if login != nil {
			if login.HasTokens() {
				ex.gw.metrics.tokens.WithLabelValues(tokenRevoked).Inc()
			}
			ex.audit("logout", slog.String("subject", login.Subject()), slog.String("login", login.ID))
		}
	}
	return ex.endAccessCookie(ctx)
}

func (ex *exchange) endAccessCookie(ctx context.Context) error {
	if ex.creds.Access == "" {
		return nil
	}
	id, err := ex.st.bearer.Revoke(ctx, ex.creds.Access)
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
