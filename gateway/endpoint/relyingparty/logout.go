package relyingparty

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/proxy/web"
)

// providerLogout are the endpoints where one identity provider says that users
// have signed out there.
type providerLogout struct {
	provider *mechanism.Provider
	users    *login.Users
}

// backChannel is called by the provider itself (OpenID Connect Back-Channel
// Logout 1.0, section 2.5).
func (l *providerLogout) backChannel(ex *web.Exchange) error {
	if ex.MediaType() != web.TypeForm {
		return web.UnsupportedMedia(web.TypeForm)
	}
	values, err := bodies.ParseForm(ex.Body, "logout_token")
	if err != nil {
		return web.BadRequest("The form must have one field logout_token.", errors.New("malformed logout request"))
	}
	token, err := l.provider.VerifyLogoutToken(ex.Request.Context(), values.Get("logout_token"))
	if err != nil {
		return web.Refused(web.CredentialLogoutToken, err)
	}
	err = end(ex, "backchannel_logout", func(ctx context.Context) ([]*login.Login, error) {
		return l.users.BackChannel(ctx, l.provider.Name(), token)
	})
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{"message": "Signed out."})
	return nil
}

// frontChannel is loaded by the provider's page in a frame (OpenID Connect
// Front-Channel Logout 1.0, section 2). The gateway's cookies do not come with
// a frame of another site. The session that the provider names identifies the
// login; it is a secret between the provider and the gateway.
func (l *providerLogout) frontChannel(ex *web.Exchange) error {
	values, err := url.ParseQuery(ex.Canonical.Path.Query)
	iss, named := values["iss"]
	sid := values.Get("sid")
	// Some providers send no iss, which the path tells as well.
	if err != nil || named && (len(iss) != 1 || iss[0] != l.provider.Issuer()) || len(values["sid"]) != 1 || sid == "" {
		return web.BadRequest("The parameters iss and sid must name a session at the identity provider.",
			errors.New("iss is not the provider's, or sid is missing"))
	}
	if ex.Canonical.Method != http.MethodHead { // changes nothing
		err := end(ex, "frontchannel_logout", func(ctx context.Context) ([]*login.Login, error) {
			return l.users.FrontChannel(ctx, l.provider.Name(), sid)
		})
		if err != nil {
			return err
		}
	}
	ex.OwnHeader(web.TypeHTML + "; charset=utf-8")
	ex.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors "+originOf(l.provider.Issuer()))
	ex.Header().Set("Content-Length", "0")
	ex.WriteHeader(http.StatusOK)
	return nil
}

// end ends logins because their provider says so, and writes the audit log.
func end(ex *web.Exchange, event string, logins func(context.Context) ([]*login.Login, error)) error {
	ctx, done := ex.Store.Recording()
	defer done()
	ended, err := logins(ctx)
	for _, login := range ended {
		ex.Audit(event, slog.String("subject", login.Subject()), slog.String("login", login.ID))
	}
	return err
}

// originOf returns the origin of a URL of the configuration.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "'none'"
	}
	return u.Scheme + "://" + u.Host
}
