package oauth

import (
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/clients"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
)

// refusal is an error that a client is told (RFC 6749, sections 4.1.2.1 and 5.2).
type refusal struct {
	code        string
	description string // what is wrong and what to do; tells no secrets
	cause       error  // for operators; may be nil
}

// The codes of refusals.
const (
	codeInvalidRequest      = "invalid_request"
	codeInvalidClient       = "invalid_client"
	codeInvalidGrant        = "invalid_grant"
	codeInvalidScope        = "invalid_scope"
	codeInvalidTarget       = "invalid_target" // RFC 8707, section 2
	codeUnauthorizedClient  = "unauthorized_client"
	codeUnsupportedGrant    = "unsupported_grant_type"
	codeUnsupportedResponse = "unsupported_response_type"
	codeAccessDenied        = "access_denied"
	codeLoginRequired       = "login_required" // OpenID Connect Core 1.0, section 3.1.2.6
	codeConsentRequired     = "consent_required"
	codeRequestNotSupported = "request_not_supported"
	codePending             = "authorization_pending" // RFC 8628, section 3.5
	codeSlowDown            = "slow_down"
	codeExpired             = "expired_token"
)

// Error implements error.
func (r *refusal) Error() string {
	text := r.code + ": " + r.description
	if r.cause != nil {
		text += " (" + r.cause.Error() + ")"
	}
	return text
}

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

func refuse(code, description string) *refusal { return &refusal{code: code, description: description} }

// refusalOf returns the refusal for err, nil if it is no error of the client's.
func refusalOf(err error) *refusal {
	var known *refusal
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, clients.ErrTwoWays):
		return &refusal{codeInvalidRequest, "The client authenticates in more than one way. Use one.", err}
	case errors.Is(err, clients.ErrUnreachable): // which is an ErrUnknown too
		return &refusal{codeInvalidClient, "The document of the client, or its keys, cannot be had.", err}
	case errors.Is(err, clients.ErrUnauthenticated), errors.Is(err, clients.ErrUnknown):
		return &refusal{codeInvalidClient, "The client is not known, or its authentication is not right.", err}
	case errors.Is(err, assertions.ErrRefused):
		return &refusal{codeInvalidGrant, "The assertion is not accepted.", err}
	case errors.Is(err, grants.ErrNoConsent):
		return &refusal{codeConsentRequired, "The user has taken the consent back. Ask again.", err}
	case errors.Is(err, grants.ErrNotAdmitted):
		return &refusal{codeAccessDenied, "The policy of the application does not let the user in.", err}
	case errors.Is(err, grants.ErrPending):
		return &refusal{codePending, "The user has not decided yet.", err}
	case errors.Is(err, grants.ErrSlowDown):
		return &refusal{codeSlowDown, "Ask less often: wait 5 seconds longer than before.", err}
	case errors.Is(err, grants.ErrDenied):
		return &refusal{codeAccessDenied, "The user has refused.", err}
	case errors.Is(err, grants.ErrExpired):
		return &refusal{codeExpired, "The device code has expired. Begin again.", err}
	case errors.Is(err, grants.ErrInvalid), errors.Is(err, auth.ErrRejected):
		return &refusal{codeInvalidGrant, "The code or token is not valid, has expired, was used or belongs to " +
			"another client.", err}
	}
	return nil
}

// fail returns the error of a program that asks, as it is answered.
func (s *core) fail(ex *web.Exchange, err error) error {
	refused := refusalOf(err)
	if refused == nil {
		if _, ok := errors.AsType[*provider.Error](err); ok && ex.Request.Context().Err() == nil {
			return web.Unavailable(err) // an issuer of assertions does not answer
		}
		return err
	}
	status := http.StatusBadRequest
	if refused.code == codeInvalidClient {
		status = http.StatusUnauthorized
		ex.Header().Set("WWW-Authenticate", string(auth.BasicChallenge(s.options.Realm)))
	}
	if reuse, ok := errors.AsType[*grants.ReuseError](err); ok {
		s.site.Service.Metrics.Token(web.TokenReused)
		ex.Audit("reuse_detected", slog.String("client_id", reuse.Client), slog.String("subject", reuse.Subject),
			slog.String("login", reuse.Login), slog.String("reason", reuse.What))
	}
	return &web.Error{Status: status, OAuth: refused.code, Detail: refused.description, Cause: err}
}
