package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"authgate/gateway/login"
)

// endAtProvider signs out at the provider that vouched for the login, which
// has ended here. It returns where the browser has to go for that, if it has
// to. A provider that fails is the operator's to know about: here, the person
// is signed out.
func (ex *exchange) endAtProvider(login *login.Login) (redirect string) {
	if login == nil || login.Delegated == nil {
		return ""
	}
	party := ex.st.provider(login.Delegated.Provider)
	if party == nil || party.Issuer() != login.Delegated.Issuer {
		return ""
	}
	tokens, err := ex.st.users.Tokens(login)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ex.r.Context()), party.config.Timeout)
		defer cancel()
		redirect, err = party.Logout(ctx, tokens)
	}
	if err != nil {
		ex.gw.logger.Warn("signing out at the provider failed; the session here has ended",
			"request_id", ex.requestID, "subject", login.Subject(), "login", login.ID, "error", err.Error())
	}
	return redirect
}

// backChannel returns the endpoint where the provider says that people have
// signed out there (OpenID Connect Back-Channel Logout 1.0, section 2.5).
func backChannel(party *relyingParty) func(*exchange) error {
	return func(ex *exchange) error {
		if ex.mediaType() != typeForm {
			return unsupportedMedia(typeForm)
		}
		values, err := url.ParseQuery(string(ex.body))
		if err != nil || len(values["logout_token"]) != 1 {
			return &httpError{
				status: http.StatusBadRequest, detail: "The form must have one field logout_token.",
				cause: errors.New("malformed logout request"),
			}
		}
		token, err := party.VerifyLogoutToken(ex.r.Context(), values.Get("logout_token"))
		if err != nil {
			return err
		}
		err = ex.endByProvider("backchannel_logout", func(ctx context.Context) ([]*login.Login, error) {
			return ex.st.users.BackChannel(ctx, party.Name(), token)
		})
		if err != nil {
			return err
		}
		ex.json(typeJSON, http.StatusOK, tokenResponse{Message: "Signed out."})
		return nil
	}
}

// frontChannel returns the endpoint that the provider's page loads in a frame
// when somebody signs out there (OpenID Connect Front-Channel Logout 1.0,
// section 2). The gateway's cookies do not come with a frame of another site,
// so it goes by the session that the provider names, which nobody else knows.
func frontChannel(party *relyingParty) func(*exchange) error {
	return func(ex *exchange) error {
		values, err := url.ParseQuery(ex.req.Path.Query)
		iss, named := values["iss"]
		sid := values.Get("sid")
		// Some send no iss, which the path tells as well.
		if err != nil || named && (len(iss) != 1 || iss[0] != party.Issuer()) || len(values["sid"]) != 1 || sid == "" {
			return &httpError{
				status: http.StatusBadRequest, detail: "The parameters iss and sid must name a session at the identity provider.",
				cause: errors.New("iss is not the provider's, or sid is missing"),
			}
		}
		if ex.req.Method != http.MethodHead { // which asks and does nothing
			err := ex.endByProvider("frontchannel_logout", func(ctx context.Context) ([]*login.Login, error) {
				return ex.st.users.FrontChannel(ctx, party.Name(), sid)
			})
			if err != nil {
				return err
			}
		}
		ex.own(typeHTML + "; charset=utf-8")
		ex.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors "+originOf(party.Issuer()))
		ex.Header().Set("Content-Length", "0")
		ex.WriteHeader(http.StatusOK)
		return nil
	}
}

// originOf is the origin of a URL of the configuration.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "'none'"
	}
	return u.Scheme + "://" + u.Host
}

// endByProvider ends logins because their provider says so, and notes which.
func (ex *exchange) endByProvider(event string, end func(context.Context) ([]*login.Login, error)) error {
	ctx, cancel := ex.storage.Recording()
	defer cancel()
	ended, err := end(ctx)
	for _, login := range ended {
		ex.audit(event, slog.String("subject", login.Subject()), slog.String("login", login.ID))
	}
	return err
}
