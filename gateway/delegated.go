package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/provider"
	"authgate/policy"
)

// labelCallback is the own endpoint where providers send people back to.
const labelCallback = "authgate/callback"

// maxReturnTo is the longest path that an attempt remembers, in bytes.
const maxReturnTo = 4 << 10

// errorCode is the form of the codes of OAuth and OpenID Connect.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// maxProviderWords bounds what a page repeats of a provider's words.
const maxProviderWords = 200

// startSignIn is GET /login: off to the provider that is asked for, or that is
// the one to go to, else to the sign-in page.
func (ex *exchange) startSignIn() error {
	if ex.foreign {
		return ex.signInElsewhere()
	}
	target := ex.returnTo(ex.queryValue("return_to"))
	party := ex.st.defaultProvider()
	values, err := url.ParseQuery(ex.req.Path.Query)
	if err != nil {
		return &httpError{status: http.StatusBadRequest, detail: "The query is malformed.", cause: err}
	}
	if _, named := values["provider"]; named {
		if party = ex.st.provider(ex.queryValue("provider")); party == nil {
			return &httpError{status: http.StatusBadRequest, detail: "There is no identity provider of that name here."}
		}
	}
	if party == nil || ex.req.Method == http.MethodHead { // which begins nothing
		ex.redirect(http.StatusFound, leadingBack(ex.st.own("signin"), target))
		return nil
	}
	return ex.delegate(party, target)
}

// leadingBack is a place of the gateway with the path to return to, which is
// empty or came through returnTo.
func leadingBack(place, target string) string {
	if target == "" {
		return place
	}
	separator := "?"
	if strings.Contains(place, "?") {
		separator = "&"
	}
	return place + separator + "return_to=" + url.QueryEscape(target)
}

// delegate sends the person to the provider, with an attempt to log in that
// their browser alone can finish.
func (ex *exchange) delegate(party *relyingParty, target string) error {
	if len(target) > maxReturnTo {
		target = ""
	}
	browser := ex.creds.Browser // shared by tabs, so that each can finish its own attempt
	if !login.ValidBrowserSecret(browser) {
		browser = login.NewBrowserSecret()
	}
	attempt := ex.st.attempts.New(browser, party.Name(), party.Issuer(), target)
	var err error
	if attempt.Before, err = ex.presentedLogins(&ex.storage); err != nil {
		return err
	}
	location, err := party.AuthorizationURL(ex.r.Context(), attempt.Attempt)
	if err != nil {
		return err
	}
	err = ex.st.attempts.Begin(&ex.storage, ex.peer.Client, attempt)
	var throttled *auth.ThrottledError
	if errors.As(err, &throttled) {
		return &httpError{
			status: http.StatusTooManyRequests, detail: "Too many sign-ins were begun from your address. Try again later.",
			cause: err, retryAfter: throttled.RetryAfter,
		}
	}
	if err != nil {
		return err
	}
	http.SetCookie(ex, ex.cookie(ex.st.cookies.Browser, browser, login.AttemptLifetime))
	ex.redirect(http.StatusFound, location)
	return nil
}

// callback is where a provider sends people back to, with a code or an error
// (RFC 6749, section 4.1.2). It ends in a session, or on a page that says why
// not; never in a redirect to anywhere else.
func (ex *exchange) callback() error {
	if len(ex.st.providers) == 0 {
		return &httpError{status: http.StatusNotFound, detail: "No provider is configured here."}
	}
	ex.label = labelCallback
	if ex.req.Method == http.MethodHead { // which asks and does nothing
		ex.redirect(http.StatusFound, ex.st.own("signin"))
		return nil
	}
	login, target, err := ex.finishAttempt()
	ex.countLogin(policy.OIDC, err)
	if err != nil {
		if result := loginResult(err); result != "" {
			ex.audit("login", slog.String("result", result), slog.String("reason", err.Error()))
		}
		return err
	}
	ex.mechanism = string(policy.OIDC)
	ex.audit("login", slog.String("subject", login.Subject()), slog.String("login", login.ID))
	if target == "" {
		target = "/"
	}
	ex.redirect(http.StatusFound, target)
	return nil
}

// authorizationResponse is what a provider sends back with the browser.
type authorizationResponse struct {
	state, code, failure, description string
	issuer                            string // RFC 9207
	hasIssuer                         bool
}

// readResponse reads the query of a callback. A parameter that stands there
// twice has no meaning (RFC 6749, section 3.1).
func (ex *exchange) readResponse() (*authorizationResponse, error) {
	values, err := url.ParseQuery(ex.req.Path.Query)
	if err != nil {
		return nil, &httpError{status: http.StatusBadRequest, detail: "The query is malformed.", cause: err}
	}
	response := &authorizationResponse{}
	for name, at := range map[string]*string{
		"state": &response.state, "code": &response.code, "iss": &response.issuer,
		"error": &response.failure, "error_description": &response.description,
	} {
		if len(values[name]) > 1 {
			return nil, &httpError{status: http.StatusBadRequest, detail: "The parameter " + name + " stands there more than once."}
		}
		*at = values.Get(name)
	}
	_, response.hasIssuer = values["iss"]
	return response, nil
}

// finishAttempt leads from the response of a provider to a login and where the
// person wants to go on. The state comes first: without it nothing is asked of
// anybody.
func (ex *exchange) finishAttempt() (*login.Login, string, error) {
	response, err := ex.readResponse()
	if err != nil {
		return nil, "", err
	}
	ctx := ex.r.Context()
	attempt, err := ex.st.attempts.Finish(&ex.storage, ex.creds.Browser, response.state)
	if err != nil {
		return nil, "", err
	}
	party := ex.st.provider(attempt.Provider)
	if party == nil || party.Issuer() != attempt.Issuer {
		return nil, "", &httpError{
			status: http.StatusBadRequest, detail: "The identity provider is not configured any more. Please start again.",
			cause: errors.New("provider " + attempt.Provider + " has gone or changed since the sign-in began"),
		}
	}
	if err := party.CheckIssuer(ctx, response.issuer, response.hasIssuer); err != nil {
		return nil, "", err
	}
	if err := response.refusal(party.Name()); err != nil {
		return nil, "", err
	}
	grant, err := party.Exchange(ctx, response.code, attempt.Attempt)
	if err != nil {
		return nil, "", err
	}
	login, err := ex.beginDelegated(party, grant, attempt)
	return login, attempt.ReturnTo, err
}

// refusal is the error that a response carries, or is by carrying nothing.
func (r *authorizationResponse) refusal(name string) error {
	failed := func(kind error, words string) error {
		return &provider.Error{Provider: name, Operation: "callback", Kind: kind, Err: errors.New(words)}
	}
	switch {
	case r.failure == "" && r.code == "":
		return &httpError{status: http.StatusBadRequest, detail: "The answer of the identity provider has neither a code nor an error."}
	case r.failure == "":
		return nil
	}
	words := printable(r.failure)
	if r.description != "" {
		words += " (" + printable(r.description) + ")"
	}
	code := r.failure // for the log, which holds nothing that anybody can choose
	if !errorCode.MatchString(code) {
		code = "an error code of another form"
	}
	switch r.failure {
	case "server_error", "temporarily_unavailable":
		return &httpError{
			status: http.StatusBadGateway, detail: "The identity provider failed: " + words + ".",
			cause: failed(provider.ErrFault, code),
		}
	}
	return &httpError{
		status: http.StatusUnauthorized, detail: "The identity provider refused the sign-in: " + words + ".",
		cause: failed(provider.ErrRefused, code),
	}
}

// printable is what a page may repeat of somebody else's words: in one line,
// and not at length.
func printable(words string) string {
	words = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, words)
	if cut := []rune(words); len(cut) > maxProviderWords {
		words = string(cut[:maxProviderWords]) + "…"
	}
	return words
}

// beginDelegated records the login and gives its session to the browser.
func (ex *exchange) beginDelegated(party *relyingParty, grant *provider.Grant, attempt *login.Attempt) (*login.Login, error) {
	if _, err := ex.endPresented(); err != nil {
		return nil, err
	}
	// A client that leaves now must not leave half a login behind.
	ctx, cancel := ex.storage.Recording()
	defer cancel()
	for _, sid := range attempt.Before {
		if _, err := ex.st.logins.End(ctx, sid); err != nil {
			return nil, err
		}
	}
	session, handle := ex.st.delegated.New()
	login, err := ex.st.users.Begin(ctx, party.Name(), grant, attempt.Started, handle)
	if err != nil {
		return nil, err
	}
	ex.setSession(ex.st.cookies.Delegated, session, ex.st.delegated.Lifetime())
	ex.clearBefore(true, ex.st.cookies.Delegated)
	return login, nil
}

// signIn is the page where a person signs in. Where it is asked for one of
// session and oidc, because a route accepts no other, it offers that alone.
func (ex *exchange) signIn() error {
	if ex.foreign {
		return ex.signInElsewhere()
	}
	ex.signInPage(http.StatusOK, pages.SignIn{ReturnTo: ex.returnTo(ex.queryValue("return_to"))})
	return nil
}

func (ex *exchange) signInPage(status int, page pages.SignIn) {
	only := policy.Mechanism(ex.queryValue("mechanism"))
	page.Action = ex.st.own("login")
	page.Password = ex.st.accounts.Len() > 0 && only != policy.OIDC
	for _, party := range ex.st.providers {
		if only != policy.Session {
			place := ex.st.own("login") + "?provider=" + url.QueryEscape(party.Name())
			page.Providers = append(page.Providers, pages.Provider{
				Title: party.config.Title, URL: leadingBack(place, page.ReturnTo),
			})
		}
	}
	ex.page(status, func(p *pages.Pages) error { return p.SignIn(ex, page) })
}
