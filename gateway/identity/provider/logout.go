package provider

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"authgate/gateway/config/issuers"
)

// Logout ends the session at the provider, if the provider supports that. If it
// returns a redirect, the browser must go there to end the session. With auto,
// Logout tries in this order: a form with the refresh token to the end-session
// endpoint (Keycloak), token revocation (RFC 7009), the browser (RP-Initiated Logout
// 1.0). One timeout bounds all of them. If the provider supports none, Logout
// returns nil. The error is ErrFault or ErrTimeout.
func (p *Provider) Logout(ctx context.Context, t Tokens) (redirect string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.client.timeout)
	defer cancel()
	m, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	endSession := m.EndSession
	if p.options.LogoutURL != "" {
		endSession = p.options.LogoutURL
		if err := checkEndpoint("logout_url", endSession); err != nil {
			return "", p.fault("logout", err)
		}
	}
	way := p.options.Logout
	may := func(this string) bool { return way == "" || way == issuers.LogoutAuto || way == this }

	var failures []error
	if may(issuers.LogoutForm) && endSession != "" && t.Refresh != "" {
		err := p.logoutForm(ctx, m, endSession, t.Refresh)
		if err == nil {
			return "", nil
		}
		failures = append(failures, err)
	}
	if token, hint := revocable(t); may(issuers.LogoutRevoke) && m.Revocation != "" && token != "" {
		_, err := p.post(ctx, m, m.Revocation, url.Values{"token": {token}, "token_type_hint": {hint}})
		if err == nil {
			return "", nil
		}
		failures = append(failures, err)
	}
	answers := len(failures) == 0 || slices.ContainsFunc(failures, answered)
	if may(issuers.LogoutRedirect) && endSession != "" && answers {
		if len(failures) > 0 {
			p.logger.Info("the provider did not end its session; the browser is sent there",
				"error", errors.Join(failures...))
		}
		return p.logoutRedirect(endSession, t.ID)
	}
	return "", errors.Join(failures...)
}

// errPage means that the provider answered with an HTML page.
var errPage = errors.New("the end-session endpoint answered the refresh token with a page for a person")

// answered reports whether the provider has answered at all. The browser is not sent
// to a provider that does not answer.
func answered(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	_, elsewhere := errors.AsType[redirected](err)
	return refused || elsewhere || errors.Is(err, errPage)
}

// logoutForm posts the refresh token to the end-session endpoint. If the answer is a
// page, the provider took the call for a request of a browser and has not ended the
// session.
func (p *Provider) logoutForm(ctx context.Context, m *metadata, endpoint, refresh string) error {
	got, err := p.post(ctx, m, endpoint, url.Values{"refresh_token": {refresh}})
	if err == nil && (got.mediaType == "text/html" || got.mediaType == "application/xhtml+xml") {
		err = p.fault("logout", errPage)
	}
	return err
}

// revocable returns the token whose revocation ends most (RFC 7009, section 2.1).
func revocable(t Tokens) (token, hint string) {
	if t.Refresh != "" {
		return t.Refresh, "refresh_token"
	}
	return t.Access, "access_token"
}

// post sends an authenticated form.
func (p *Provider) post(ctx context.Context, m *metadata, endpoint string, form url.Values) (*answer, error) {
	client, err := authenticate(p.options.Client, m.AuthMethods)
	if err != nil {
		return nil, p.fault("logout", err)
	}
	r, err := client.request(endpoint, form)
	if err != nil {
		return nil, p.fault("logout", err)
	}
	return p.client.send(ctx, "logout", r)
}

// logoutRedirect returns the URL of a logout request for the browser (RP-Initiated
// Logout 1.0, section 2).
func (p *Provider) logoutRedirect(endpoint, idToken string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", p.fault("logout", err)
	}
	query := u.Query()
	for name, value := range map[string]string{
		"client_id": p.options.Client.ID, "id_token_hint": idToken, "post_logout_redirect_uri": p.options.PostLogoutURL,
	} {
		if value != "" && !query.Has(name) { // what the address itself has counts
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}
