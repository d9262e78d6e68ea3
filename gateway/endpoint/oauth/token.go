package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/rate"
)

// The values of grant_type (RFC 6749, section 1.3; RFC 8628, section 3.4).
const (
	grantCode        = config.GrantAuthorizationCode
	grantRefresh     = config.GrantRefreshToken
	grantCredentials = config.GrantClientCredentials
	grantDevice      = "urn:ietf:params:oauth:grant-type:device_code"
	grantAssertion   = clients.AssertionGrant
	grantExchange    = clients.ExchangeGrant
)

// tokens is the answer of the token endpoint (RFC 6749, section 5.1).
type tokens struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"` // seconds
	Refresh   string `json:"refresh_token,omitempty"`
	Scope     string `json:"scope,omitempty"`
	ID        string `json:"id_token,omitempty"`
	Issued    string `json:"issued_token_type,omitempty"` // of an exchange (RFC 8693, section 2.2.1)
}

// programs are the endpoints that clients ask themselves.
type programs struct {
	*core
	devices       *grants.Devices
	starts        *auth.Starts  // of devices
	registrations *rate.Limiter // by the client's address
}

// token is POST oauth/token.
func (s *programs) token(ex *web.Exchange, c *call) (any, error) {
	grant := c.form.Get("grant_type")
	var do func(*web.Exchange, *call) (*grants.Issued, error)
	switch grant {
	case grantCode:
		do = s.byCode
	case grantRefresh:
		do = s.byRefreshToken
	case grantCredentials:
		do = s.byCredentials
	case grantAssertion:
		if do = s.byAssertion; c.crossApp {
			do = s.byCrossApp
		}
	case grantExchange:
		do = s.byExchange
	case grantDevice:
		do = s.byDeviceCode
	case "":
		return nil, refuse(codeInvalidRequest, "The parameter grant_type is needed.")
	default:
		return nil, refuse(codeUnsupportedGrant, "This grant type is not supported.")
	}
	if !c.crossApp && !c.client.May(grant) {
		return nil, refuse(codeUnauthorizedClient, "The client may not use this grant type.")
	}
	issued, err := do(ex, c)
	if err != nil {
		return nil, refusedCredential(grant, c.client.ID, err)
	}
	return s.issue(ex, c, issued)
}

// issue returns the answer with the issued tokens, and with an ID token if the scope asks for one.
func (s *programs) issue(ex *web.Exchange, c *call, issued *grants.Issued) (any, error) {
	answer := &tokens{
		Access: issued.Access, Type: "Bearer", ExpiresIn: int(issued.ExpiresIn.Seconds()), Refresh: issued.Refresh,
		Scope: strings.Join(issued.Terms.Scopes, " "),
	}
	if c.form.Get("grant_type") == grantExchange {
		answer.Issued = accessTokenType
	}
	if issued.Terms.OpenID && issued.Login != nil {
		var err error
		if answer.ID, err = s.idToken(c.client, issued); err != nil {
			return nil, err
		}
	}
	s.clients.Keep(c.client)
	event := web.TokenIssued
	if c.form.Get("grant_type") == grantRefresh {
		event = web.TokenRefreshed
	}
	s.site.Service.Metrics.Token(event)
	ex.Identify(issued.Identity)
	s.auditIssued(ex, c, issued)
	ex.Header().Set("Pragma", "no-cache") // RFC 6749, section 5.1
	return answer, nil
}

// auditIssued records the tokens that a client gets.
func (s *programs) auditIssued(ex *web.Exchange, c *call, issued *grants.Issued) {
	attrs := []slog.Attr{
		slog.String("grant", clients.GrantWord(c.form.Get("grant_type"))), slog.String("client_id", c.client.ID),
		slog.String("resource", issued.Terms.Resource), slog.String("scope", strings.Join(issued.Terms.Scopes, " ")),
	}
	if c.proof != nil {
		attrs = append(attrs, slog.String("issuer", c.proof.Issuer), slog.String("assertion_subject", c.proof.Subject))
	}
	ex.Audit("token_issued", attrs...)
}

// refusedCredential returns the error of a code or token that a client has presented, for the audit log.
// A device that has to wait is not refused, and a second use has its own event.
func refusedCredential(grant, client string, err error) error {
	kind := map[string]web.Credential{
		grantCode: web.CredentialCode, grantRefresh: web.CredentialRefreshToken, grantDevice: web.CredentialDeviceCode,
	}[grant]
	refused := refusalOf(err)
	if _, reused := errors.AsType[*grants.ReuseError](err); kind == "" || refused == nil || reused {
		return err
	}
	switch refused.code {
	case codePending, codeSlowDown, codeInvalidRequest:
		return err
	}
	past := errors.Is(err, grants.ErrInvalid) && !errors.Is(err, grants.ErrNeverIssued) ||
		errors.Is(err, grants.ErrExpired) || errors.Is(err, grants.ErrDenied) || errors.Is(err, grants.ErrNoConsent)
	return &web.Refusal{Err: err, Kind: kind, Past: past, Client: client}
}

// byCode exchanges a code (RFC 6749, section 4.1.3).
func (s *programs) byCode(ex *web.Exchange, c *call) (*grants.Issued, error) {
	code, verifier, redirect := c.form.Get("code"), c.form.Get("code_verifier"), c.form.Get("redirect_uri")
	if code == "" {
		return nil, refuse(codeInvalidRequest, "The parameter code is needed.")
	}
	return s.grants.Redeem(&ex.Store, code, func(known *grants.Code) error {
		switch {
		case known.Client != c.client.ID:
			return refuse(codeInvalidGrant, "The code is of another client.")
		case redirect != "" && redirect != known.RedirectURI:
			return refuse(codeInvalidGrant, "redirect_uri is not that of the authorization request.")
		case known.Challenge == "" && (!c.client.ExcusedPKCE || redirect == "" || verifier != ""):
			// A verifier would prove nothing here, and a client that sends one believes that it does (RFC
			// 9700, section 4.8.2). redirect_uri takes its place (RFC 6749, section 4.1.3).
			return refuse(codeInvalidGrant, "The code was given without PKCE: send redirect_uri, and no code_verifier.")
		case known.Challenge != "" && !proves(verifier, known.Challenge):
			return refuse(codeInvalidGrant, "code_verifier is not that of the authorization request.")
		}
		known.Federation = c.entry()
		return s.sameTarget(c.form, &known.Terms)
	})
}

// proves reports whether a verifier is that of a code challenge (RFC 7636, section 4.6).
func proves(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	made := base64.RawURLEncoding.EncodeToString(sum[:])
	return len(verifier) >= 43 && len(verifier) <= 128 &&
		subtle.ConstantTimeCompare([]byte(made), []byte(challenge)) == 1
}

// sameTarget refuses a request for tokens of another resource than the user has granted (RFC
// 8707, section 2.2). An address has several spellings, here as in the authorization request.
func (s *programs) sameTarget(form url.Values, t *grants.Terms) error {
	for _, asked := range form["resource"] {
		if resource, _, ok := s.findResource(asked); asked != t.Resource && !(ok && resource == t.Resource) {
			return refuse(codeInvalidTarget, "The grant is for another resource.")
		}
	}
	return nil
}

// byRefreshToken exchanges a refresh token (RFC 6749, section 6). The scope may get smaller
// for the access token.
func (s *programs) byRefreshToken(ex *web.Exchange, c *call) (*grants.Issued, error) {
	token := c.form.Get("refresh_token")
	if token == "" {
		return nil, refuse(codeInvalidRequest, "The parameter refresh_token is needed.")
	}
	return s.grants.Refresh(&ex.Store, token, func(t *grants.Terms) error {
		if t.Client != c.client.ID {
			return refuse(codeInvalidGrant, "The refresh token is of another client.")
		}
		if err := s.narrow(c, t); err != nil {
			return err
		}
		t.Federation = c.entry()
		return s.sameTarget(c.form, t)
	})
}

// narrow leaves to the terms of a grant the scopes that a client asks for. Those that were left out
// of the grant because they do not count are left out again: many clients repeat their first
// scopes.
func (s *programs) narrow(c *call, t *grants.Terms) error {
	asked := c.form.Get("scope")
	if asked == "" {
		return nil
	}
	var kept []string
	for scope := range strings.FieldsSeq(asked) {
		switch {
		case slices.Contains(kept, scope):
		case slices.Contains(t.Scopes, scope):
			kept = append(kept, scope)
		case s.countingScopes(c.client, []string{scope}) != nil:
			return refuse(codeInvalidScope, "A scope was not granted. Ask the user for it first.")
		}
	}
	if kept == nil {
		return refuse(codeInvalidScope, "None of the scopes was granted.")
	}
	t.Scopes, t.OpenID = kept, slices.Contains(kept, scopeOpenID)
	return nil
}

// byCredentials gives a client a token of its own (RFC 6749, section 4.4).
func (s *programs) byCredentials(ex *web.Exchange, c *call) (*grants.Issued, error) {
	if !c.client.Confidential() {
		return nil, refuse(codeUnauthorizedClient, "Only a client with a secret or a key gets tokens of its own.")
	}
	return s.ownToken(c, 0)
}

// byAssertion gives a client a token of its own, for no longer than the assertion of its platform lives
// (RFC 7523, section 2.1).
func (s *programs) byAssertion(_ *web.Exchange, c *call) (*grants.Issued, error) {
	left := c.proof.Left.Truncate(time.Second)
	if left == 0 {
		return nil, assertions.Refused(errors.New("it lives for less than a second more"))
	}
	return s.ownToken(c, left)
}

// ownToken gives a client a token of its own, for at most that time, if it is not 0.
func (s *programs) ownToken(c *call, atMost time.Duration) (*grants.Issued, error) {
	terms, err := s.terms(c.client, c.form)
	if err != nil {
		return nil, err
	}
	if atMost > 0 {
		terms.Access = min(terms.Access, atMost)
	}
	terms.Federation = c.entry()
	if terms.Resource == s.address(userinfoPath) { // a client that acts for itself has no user
		terms.Resource = ""
	}
	return s.grants.Credentials(c.client.ID, terms)
}
