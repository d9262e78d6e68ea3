package relyingparty

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login"
	"authgate/gateway/login/journey"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// errorCode is the form of the error codes of OAuth and OpenID Connect.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// maxProviderText bounds how much a page quotes of a provider's text, in
// characters.
const maxProviderText = 200

// callback is where identity providers send users back to, with a code or an
// error (RFC 6749, section 4.1.2). It ends in a session, or on a page that says
// why not.
type callback struct {
	site       *web.Site
	federation *mechanism.Federation
	presented  *signout.Presented
	sessions   auth.Chain
	hosts      *signin.OtherHosts
}

// enabled returns why no user comes back from a provider here.
func (c *callback) enabled() error {
	if len(c.federation.Providers) == 0 {
		return &web.Error{Status: http.StatusNotFound, Detail: "No provider is configured here."}
	}
	return nil
}

func (c *callback) serve(ex *web.Exchange) error {
	if ex.Canonical.Method == http.MethodHead { // finishes nothing
		ex.Redirect(http.StatusFound, c.site.Own("signin"))
		return nil
	}
	login, attempt, err := c.finish(ex)
	if err != nil && attempt != nil {
		if err := c.keepPlace(ex, attempt, err); err != nil {
			return err
		}
	}
	c.site.Service.Metrics.Login(policy.OIDC, err)
	if err != nil {
		if result := web.LoginResult(err); result != "" {
			ex.Audit("login", slog.String("result", result), slog.String("reason", err.Error()))
		}
		return err
	}
	ex.Mechanism = string(policy.OIDC)
	ex.Audit("login", slog.String("subject", login.Subject()), slog.String("login", login.ID))
	r := c.place(ex, attempt)
	if r.Binding != "" && ex.FollowsLinks() {
		// A link can have led through the provider without a page. The sign-in page finds
		// out whether this browser has begun the sign-in at the other host.
		c.leadTo(ex, c.site.PublicURL+c.site.WithReturn(c.site.Own("signin"), r), false)
		return nil
	}
	place, asks := c.hosts.AfterLogin(ex, login.ID, r)
	c.leadTo(ex, place, asks)
	return nil
}

// place returns where the user of an attempt goes on.
func (c *callback) place(ex *web.Exchange, attempt *journey.Attempt) places.Return {
	r := c.site.ReadReturn(ex.Canonical.Host, attempt.ReturnTo, attempt.Binding)
	r.Elsewhere, r.Demand = attempt.Elsewhere, attempt.Demand
	return r
}

// leadTo leads a user to a place. asks tells that another site began the sign-in.
func (c *callback) leadTo(ex *web.Exchange, place string, asks bool) {
	if asks {
		c.hosts.Ask(ex, place)
		return
	}
	if strings.HasPrefix(place, "https://") && ex.Request.Header.Get("Sec-Fetch-Mode") == "navigate" {
		// The policy of the provider's page may allow its form to lead here, and no
		// further: browsers apply form-action to all redirects that follow.
		c.hosts.Onward(ex, place)
		return
	}
	ex.Redirect(http.StatusFound, place)
}

// keepPlace lets a user whose sign-in failed begin again with the same place to go on
// to. It answers one who is signed in and only sent a response a second time: they go on.
func (c *callback) keepPlace(ex *web.Exchange, attempt *journey.Attempt, failure error) error {
	r := c.place(ex, attempt)
	ex.SignIn = &web.SignInLink{Page: c.site.WithReturn(c.site.Own("signin"), r), Always: true}
	if !errors.Is(failure, journey.ErrNoAttempt) {
		return nil
	}
	id, err := endpoint.Guest(ex, c.sessions)
	if id == nil || err != nil {
		return err
	}
	c.leadTo(ex, c.site.PlaceOrStart(r), r.Elsewhere)
	return web.ErrAnswered
}

// finish turns the response of a provider into a login, and returns it with the
// attempt, which may be there beside an error too. It checks the state first: without
// it, it makes no call to a provider.
func (c *callback) finish(ex *web.Exchange) (*login.Login, *journey.Attempt, error) {
	response, err := readResponse(ex)
	if err != nil {
		return nil, nil, err
	}
	ctx := ex.Request.Context()
	attempt, err := c.federation.Attempts.Finish(&ex.Store, ex.Credentials.Browser, response.state)
	if err != nil {
		return nil, attempt, err
	}
	p := c.federation.Provider(attempt.Provider)
	if p == nil || p.Issuer() != attempt.Issuer {
		return nil, attempt, web.BadRequest("The identity provider is not configured any more. Please start again.",
			errors.New("provider "+attempt.Provider+" has gone or changed since the sign-in began"))
	}
	if err := c.checkPath(ex, p); err != nil {
		return nil, attempt, err
	}
	if err := p.CheckIssuer(ctx, response.issuer, response.hasIssuer); err != nil {
		return nil, attempt, err
	}
	if err := response.refusal(p.Name()); err != nil {
		return nil, attempt, err
	}
	grant, err := p.Exchange(ctx, response.code, attempt.Attempt)
	if err != nil {
		return nil, attempt, err
	}
	if !attempt.Demand.Met(&grant.Proof, ex.Canonical.Now) {
		// Before anything changes: the user keeps the session that was not enough.
		return nil, attempt, web.Unproved(attempt.Demand, pages.ProblemUnproved, unproved(p, &grant.Proof))
	}
	login, err := c.beginLogin(ex, grant, attempt)
	return login, attempt, err
}

// unproved describes for operators the proof of a provider, which was not enough.
func unproved(p *mechanism.Provider, proof *policy.Proof) string {
	at := "no auth_time"
	if !proof.AuthTime.IsZero() {
		at = "auth_time " + proof.AuthTime.UTC().Format(time.RFC3339)
	}
	factors := "one factor"
	if proof.Factors() == 2 {
		factors = "two factors"
	}
	return fmt.Sprintf("the ID token of provider %s has %s, and its amr and acr count as %s (providers[].two_factors)",
		p.Name(), at, factors)
}

// checkPath refuses a response that came to the redirect URI of another provider
// than the one that the user was sent to (RFC 9700, section 4.4.2.2). A single provider
// may use any of them.
func (c *callback) checkPath(ex *web.Exchange, p *mechanism.Provider) error {
	path := ex.Canonical.Path.Decoded
	if path == p.Callback || len(c.federation.Providers) == 1 {
		return nil
	}
	return &provider.Error{
		Provider: p.Name(), Operation: "callback", Kind: provider.ErrMixUp,
		Err: fmt.Errorf("the response came to %s, and the redirect URI of the provider ends in %s", path, p.Callback),
	}
}

// beginLogin records the login and gives its session to the browser.
func (c *callback) beginLogin(ex *web.Exchange, grant *provider.Grant, attempt *journey.Attempt) (*login.Login, error) {
	before, err := c.presented.BehindCookies(&ex.Store, &ex.Credentials)
	if err != nil {
		return nil, err
	}
	for _, sid := range before {
		if !slices.Contains(attempt.Before, sid) {
			attempt.Before = append(attempt.Before, sid)
		}
	}
	// A client that leaves now must not leave half a login behind.
	ctx, end := ex.Store.Recording()
	defer end()
	sessions, cookies := c.federation.Delegated, &c.site.Cookies
	session, handle := sessions.New(ex.Credentials.Scope)
	login, err := c.federation.Users.Begin(ctx, attempt, grant, login.DeviceOf(&ex.Credentials), handle)
	if err != nil {
		return nil, err
	}
	c.presented.NoteReplaced(ex, login)
	cookies.SetSession(ex, cookies.Names.Delegated, session, sessions.Lifetime(false))
	cookies.ClearOthers(ex, &ex.Credentials, true, cookies.Names.Delegated)
	return login, nil
}

// authorizationResponse is the response of a provider, which the browser brings.
type authorizationResponse struct {
	state, code, failure, description string
	issuer                            string // RFC 9207
	hasIssuer                         bool
}

// readResponse reads the query of a callback. A parameter that is there twice
// has no meaning (RFC 6749, section 3.1).
func readResponse(ex *web.Exchange) (*authorizationResponse, error) {
	values, err := ex.Query()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"state", "code", "iss", "error", "error_description"} {
		if len(values[name]) > 1 {
			return nil, web.BadRequest("The parameter "+name+" appears more than once.", nil)
		}
	}
	return &authorizationResponse{
		state: values.Get("state"), code: values.Get("code"),
		failure: values.Get("error"), description: values.Get("error_description"),
		issuer: values.Get("iss"), hasIssuer: values.Has("iss"),
	}, nil
}

// refusal returns the error that a response carries, or that it is because it
// carries nothing.
func (r *authorizationResponse) refusal(name string) error {
	failed := func(kind error, text string) error {
		return &provider.Error{Provider: name, Operation: "callback", Kind: kind, Err: errors.New(text)}
	}
	switch {
	case r.failure == "" && r.code == "":
		return web.BadRequest("The answer of the identity provider has neither a code nor an error.", nil)
	case r.failure == "":
		return nil
	}
	text := printable(r.failure)
	if r.description != "" {
		text += " (" + printable(r.description) + ")"
	}
	code := r.failure // for the log, which holds no text that a client can choose
	if !errorCode.MatchString(code) {
		code = "an error code of another form"
	}
	switch r.failure {
	case "server_error", "temporarily_unavailable":
		return &web.Error{
			Status: http.StatusBadGateway, Detail: "The identity provider failed: " + text + ".",
			Cause: failed(provider.ErrFault, code), Problem: pages.ProblemProvider, Said: text,
		}
	}
	return &web.Error{
		Status: http.StatusUnauthorized, Detail: "The identity provider refused the sign-in: " + text + ".",
		Cause: failed(provider.ErrRefused, code), Problem: pages.ProblemProviderRefused, Said: text,
	}
}

// printable returns the part of a provider's text that a page may quote: one line of bounded
// length.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if cut := []rune(text); len(cut) > maxProviderText {
		text = string(cut[:maxProviderText]) + "…"
	}
	return text
}
