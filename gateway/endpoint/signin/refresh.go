package signin

import (
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// tokenRefresh is POST /refresh: it takes a refresh token once, for new tokens.
type tokenRefresh struct {
	crossSite *web.CrossSite
	refresh   *login.RefreshTokens
	tokens    *tokens
	realm     string
}

func (r *tokenRefresh) serve(ex *web.Exchange) error {
	token, err := r.readToken(ex)
	if err != nil {
		return err
	}
	if err := r.checkSite(ex, token); err != nil {
		return err
	}
	// A client that leaves must not leave a reuse half punished.
	ctx, end := ex.Store.Recording()
	defer end()
	rotation, err := r.refresh.Rotate(ctx, token, &ex.Credentials)
	if err != nil {
		return r.auditFailure(ex, err)
	}
	pair := tokenPair{refresh: rotation.Token, until: rotation.Expires}
	if err := r.tokens.complete(&pair, rotation.Login, rotation.Account, web.TokenRefreshed); err != nil {
		return err
	}
	r.tokens.deliver(ex, pair)
	ex.Mechanism = string(policy.Bearer)
	ex.Audit("refresh", slog.String("subject", rotation.Login.Subject()), slog.String("login", rotation.Login.ID))
	message := ""
	if r.tokens.cookies.Tokens() {
		message = "Refreshed."
	}
	ex.JSON(web.TypeJSON, http.StatusOK, r.tokens.response(message, pair))
	return nil
}

// readToken returns the refresh token: from the body, or from the cookie if cookies
// deliver tokens and the body has none.
func (r *tokenRefresh) readToken(ex *web.Exchange) (string, error) {
	byCookie := r.tokens.cookies.Tokens()
	if len(ex.Body) == 0 && byCookie {
		return ex.Credentials.Refresh, nil
	}
	o, err := bodies.ReadObject(ex, web.TypeJSON)
	if err != nil {
		return "", err
	}
	if _, given := o["refresh_token"]; !given && byCookie {
		return ex.Credentials.Refresh, nil
	}
	return o.Text("refresh_token")
}

// checkSite demands the anti-CSRF token for a refresh by cookie.
func (r *tokenRefresh) checkSite(ex *web.Exchange, token string) error {
	if token == "" || token != ex.Credentials.Refresh || !r.crossSite.NeedsToken(ex) {
		return nil
	}
	sid, err := r.refresh.LoginOf(&ex.Store, token)
	if errors.Is(err, auth.ErrRejected) {
		return nil // there is nothing to change
	}
	if err != nil {
		return err
	}
	return r.crossSite.CheckToken(ex, sid)
}

func (r *tokenRefresh) auditFailure(ex *web.Exchange, err error) error {
	var reuse *login.ReuseError
	switch {
	case errors.As(err, &reuse):
		r.tokens.metrics.Token(web.TokenReused)
		var attrs []slog.Attr
		if reuse.Login != nil {
			attrs = append(attrs, slog.String("subject", reuse.Login.Subject()), slog.String("login", reuse.Login.ID))
		}
		ex.Audit("reuse_detected", attrs...)
	case errors.Is(err, auth.ErrRejected):
		rejection, ok := errors.AsType[*auth.Rejection](err)
		ex.AuditRefused("refresh", ok && rejection.Past, slog.String("result", "failure"),
			slog.String("reason", err.Error()))
	}
	return web.Challenge(err, auth.BearerChallenge(r.realm, true))
}
