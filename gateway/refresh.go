package gateway

import (
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/policy"
)

// refresh is POST /refresh: a refresh token for new tokens, once.
func (ex *exchange) refresh() error {
	token, err := ex.readRefresh()
	if err != nil {
		return err
	}
	if err := ex.checkRefresh(token); err != nil {
		return err
	}
	// A client that leaves must not leave a reuse half punished.
	ctx, cancel := ex.storage.Recording()
	defer cancel()
	rotation, err := ex.st.refresh.Rotate(ctx, token, &ex.creds)
	if err != nil {
		return ex.refreshFailed(err)
	}
	given := &issued{ex: ex, login: rotation.Login, refresh: rotation.Token}
	if given.access, given.left, err = ex.st.bearer.Issue(rotation.Login, rotation.Account); err != nil {
		return err
	}
	ex.deliver(given, rotation.Expires)
	ex.mechanism = string(policy.Bearer)
	ex.gw.metrics.tokens.WithLabelValues(tokenRefreshed).Inc()
	ex.audit("refresh", slog.String("subject", rotation.Login.Subject()), slog.String("login", rotation.Login.ID))
	message := ""
	if ex.tokensByCookie() {
		message = "Refreshed."
	}
	ex.json(typeJSON, http.StatusOK, given.response(message))
	return nil
}

// readRefresh finds the refresh token: in the body, or in the cookie where
// tokens are delivered so and the body has none.
func (ex *exchange) readRefresh() (string, error) {
	if len(ex.body) == 0 && ex.tokensByCookie() {
		return ex.creds.Refresh, nil
	}
	if ex.mediaType() != typeJSON {
		return "", unsupportedMedia("application/json")
	}
	o, err := parseObject(ex.body)
	if err != nil {
		return "", err
	}
	if _, given := o["refresh_token"]; !given && ex.tokensByCookie() {
		return ex.creds.Refresh, nil
	}
	return o.text("refresh_token")
}

func (ex *exchange) refreshFailed(err error) error {
	ex.challenges = []auth.Challenge{auth.BearerChallenge(ex.st.config.Basic.Realm, true)}
	var reuse *login.ReuseError
	switch {
	case errors.As(err, &reuse):
		ex.gw.metrics.tokens.WithLabelValues(tokenReused).Inc()
		attrs := []slog.Attr{}
		if reuse.Login != nil {
			attrs = append(attrs, slog.String("subject", reuse.Login.Subject()), slog.String("login", reuse.Login.ID))
		}
		ex.audit("reuse_detected", attrs...)
	case errors.Is(err, auth.ErrRejected):
		ex.audit("refresh", slog.String("result", "failure"), slog.String("reason", err.Error()))
	}
	return err
}
