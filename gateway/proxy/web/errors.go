package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login/journey"
	"authgate/gateway/pages"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/store/guard"
	"authgate/gateway/wire/mcp"
	"authgate/gateway/wire/rate"
	"authgate/policy"
)

// Error is an answer other than success.
type Error struct {
	Status     int
	Detail     string // for the client; tells no internals
	Cause      error  // for operators; may be nil
	RetryAfter time.Duration
	MaxAge     time.Duration // how old the user's sign-in may be; 0: that would not help
	Allow      string        // of a 405
	Factors    []string      // one of which the user must prove beside the password that is right
	OAuth      string        // the code of an error of OAuth; empty: by Status
	RPC        *mcp.Error    // the whole body, for a client that sent a message; nil: none

	Problem pages.Problem // for a page, if it can tell more than the status
	Said    string        // what an identity provider said, for a page
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%d %s: %v", e.Status, e.Detail, e.Cause)
	}
	return fmt.Sprintf("%d %s", e.Status, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// NoServiceWorker is the error of a request for the script of a service worker.
// reason is for operators.
func NoServiceWorker(reason string) error {
	return &Error{Status: http.StatusForbidden, Detail: "No service worker may be registered here.",
		Cause: errors.New("the script of a service worker: " + reason)}
}

// UnsupportedMedia is the error of a body of another type than those expected.
func UnsupportedMedia(expected string) error {
	return &Error{Status: http.StatusUnsupportedMediaType, Detail: "The body must be " + expected + "."}
}

// BadRequest is the error of a request that cannot be understood. cause is for operators;
// it may be nil.
func BadRequest(detail string, cause error) error {
	return &Error{Status: http.StatusBadRequest, Detail: detail, Cause: cause}
}

// Forbidden is the error of an identity that the policy does not allow.
func Forbidden() error {
	return &Error{Status: http.StatusForbidden, Detail: "You are signed in, but not allowed to do this.",
		Problem: pages.ProblemForbidden}
}

// InsufficientScope is the error of a token that lacks one of those scopes, and nothing else (RFC
// 6750, section 3.1). reason is for operators.
func InsufficientScope(realm string, scopes []string, reason string) error {
	return Challenge(&Error{
		Status: http.StatusForbidden, Detail: "The token lacks a scope. It needs one of: " +
			strings.Join(scopes, ", ") + ".",
		Cause: errors.New(reason), OAuth: "insufficient_scope",
	}, auth.ScopeChallenge(realm, scopes))
}

// NotSecure is the error of a request that did not come over https.
func NotSecure(reason string) error {
	return &Error{Status: http.StatusForbidden, Detail: "This service is reached over https only.",
		Cause: errors.New(reason), Problem: pages.ProblemNotSecure}
}

// Busy is the error of a request that the gateway has no capacity for. detail is for the
// client.
func Busy(detail string, cause error) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Detail: detail, Cause: cause, RetryAfter: time.Second,
		Problem: pages.ProblemBusy}
}

// Unavailable is the error of a request that may succeed a moment later.
func Unavailable(cause error) error { return unavailable(cause) }

func unavailable(cause error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Detail: "The service is unavailable for the moment.",
		Cause: cause, RetryAfter: time.Second,
	}
}

// statusClientGone is counted and logged for a client that left before there
// was an answer. It is never sent.
const statusClientGone = 499

// Challenge returns err with the challenges that a 401 for it carries.
func Challenge(err error, challenges ...auth.Challenge) error {
	if len(challenges) == 0 {
		return err
	}
	return &challenged{err, challenges}
}

type challenged struct {
	error
	challenges []auth.Challenge
}

func (e *challenged) Unwrap() error { return e.error }

// At returns err with the address of the document that says where its Bearer challenge finds a
// token (RFC 9728, section 5.1). An empty address, and an error without a challenge, change nothing.
func At(metadata string, err error) error {
	known, ok := errors.AsType[*challenged](err)
	if !ok || metadata == "" {
		return err
	}
	all := slices.Clone(known.challenges)
	for i, c := range all {
		if strings.HasPrefix(string(c), "Bearer ") {
			all[i] = c.With("resource_metadata", metadata)
		}
	}
	return &challenged{known.error, all}
}

// toHTTP is the one place that maps errors to HTTP. An error that
// it does not know is a failure of the gateway: 500. ctx is that of the request:
// only if it has ended did the client leave.
func toHTTP(ctx context.Context, err error) *Error {
	var (
		ready     *Error
		target    *policy.TargetError
		tooLarge  *http.MaxBytesError
		failed    *upstream.Error
		storage   *guard.Error
		throttled *auth.ThrottledError
		starts    *auth.StartsError
		limited   *rate.LimitedError
		message   *mcp.Error
	)
	answer := func(status int, detail string) *Error { return &Error{Status: status, Detail: detail, Cause: err} }
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &target):
		return answer(400, "The request target is malformed: "+target.Reason+".")
	case errors.Is(err, auth.ErrAmbiguous):
		return ambiguous(err)
	case errors.As(err, &tooLarge):
		return answer(413, fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit))
	case errors.As(err, &message):
		return &Error{Status: 400, Detail: message.Text, Cause: err, RPC: message}
	case errors.As(err, &throttled):
		return named(pages.ProblemLogins, retryLater(answer(429, "Too many failed logins. Try again later."),
			throttled.RetryAfter))
	case errors.As(err, &starts):
		return retryLater(answer(429, "Too many sign-ins were begun from your address. Try again later."),
			starts.RetryAfter)
	case errors.As(err, &limited):
		return retryLater(answer(429, "Too many requests. Try again later."), limited.RetryAfter)
	case errors.Is(err, auth.ErrNoCredentials), errors.Is(err, auth.ErrRejected):
		return rejected(err)
	case errors.Is(err, context.Canceled):
		return canceled(ctx, err)
	case errors.As(err, &failed):
		return upstreamStatus(failed, err)
	case errors.Is(err, journey.ErrNoAttempt), errors.Is(err, proofs.ErrNoStep):
		return named(pages.ProblemAttempt, answer(400,
			"This sign-in was not begun in this browser, is finished already, or took too long. Please start again."))
	case errors.Is(err, journey.ErrNoTicket):
		return named(pages.ProblemAttempt,
			answer(400, "This sign-in was not begun in this browser, is finished already, "+
				"or took too long. Does the browser accept cookies? Please start again."))
	case errors.Is(err, provider.ErrReplayed):
		return answer(400, "The token was used before.")
	case isProviderError(err):
		return providerStatus(err)
	case errors.As(err, &storage), errors.Is(err, proofs.ErrUnspent), errors.Is(err, factors.ErrSealed):
		return unavailable(err)
	case errors.Is(err, auth.ErrBusy):
		return Busy("Too many credentials are being checked at once. Try again.", err)
	}
	return answer(500, "The gateway failed.")
}

// oauthCode returns the code of an error of OAuth (RFC 6749, sections 4.1.2.1 and 5.2; RFC 6750,
// section 3.1).
func oauthCode(e *Error) string {
	switch {
	case e.OAuth != "":
		return e.OAuth
	case e.Status == http.StatusUnauthorized:
		return "invalid_token"
	case e.Status == http.StatusForbidden:
		return "access_denied"
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return "temporarily_unavailable"
	case e.Status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request"
}

func named(problem pages.Problem, e *Error) *Error {
	e.Problem = problem
	return e
}

func retryLater(e *Error, after time.Duration) *Error {
	e.RetryAfter = after
	return e
}

// ambiguous maps the error of credentials that contradict each other.
func ambiguous(err error) *Error {
	e := &Error{Status: http.StatusBadRequest, Detail: "The request presents more than one credential of a kind.",
		Cause: err}
	if _, ok := errors.AsType[*auth.AmbiguousCookieError](err); ok {
		e.Problem = pages.ProblemCookies
	}
	return e
}

// rejected maps the error of a credential that is missing or not valid.
func rejected(err error) *Error {
	e := &Error{Status: http.StatusUnauthorized, Detail: rejectionDetail(err), Cause: err}
	if e.Detail == auth.DetailWrongPassword {
		e.Problem = pages.ProblemPassword
	}
	return e
}

// rejectionDetail returns the detail of a 401.
func rejectionDetail(err error) string {
	var rejection *auth.Rejection
	switch {
	case errors.Is(err, auth.ErrNoCredentials):
		return auth.DetailNotSignedIn
	case errors.As(err, &rejection):
		return rejection.Detail
	}
	return auth.DetailWrongPassword
}

// canceled maps the end of a context. If that of the request goes on, something
// other than the client ended the work.
func canceled(ctx context.Context, err error) *Error {
	switch {
	case ctx.Err() != nil:
		return &Error{Status: statusClientGone, Detail: "The client left.", Cause: err}
	case isProviderError(err):
		return providerStatus(err)
	}
	return unavailable(err)
}

func upstreamStatus(failed *upstream.Error, err error) *Error {
	var timeout net.Error
	if errors.As(failed.Err, &timeout) && timeout.Timeout() {
		return &Error{Status: 504, Detail: "The application did not answer in time.", Cause: err}
	}
	if failed.Answered() {
		return &Error{Status: 502, Detail: "The application answered, but broke the protocol.", Cause: err,
			Problem: pages.ProblemBroken}
	}
	return &Error{Status: 502, Detail: "The application could not be reached.", Cause: err}
}

// isProviderError reports whether err is about an answer of an identity
// provider, or about a missing one.
func isProviderError(err error) bool {
	var e *provider.Error
	return errors.As(err, &e)
}

func providerStatus(err error) *Error {
	switch {
	case errors.Is(err, provider.ErrInvalid):
		return &Error{Status: 400, Detail: "The token is not valid.", Cause: err}
	case errors.Is(err, provider.ErrMixUp):
		return &Error{Status: 400, Detail: "The answer is of another identity provider than the one asked.", Cause: err}
	case errors.Is(err, provider.ErrRefused):
		return &Error{Status: 401, Detail: "The identity provider refused the sign-in.", Cause: err,
			Problem: pages.ProblemProviderRefused}
	case errors.Is(err, provider.ErrTimeout):
		return &Error{Status: 504, Detail: "The identity provider did not answer in time. Please try again later.",
			Cause: err, Problem: pages.ProblemProviderSlow}
	}
	e := &Error{Status: 502, Detail: "The identity provider could not be reached, or its answer was not acceptable.",
		Cause: err, Problem: pages.ProblemProvider}
	if errors.Is(err, provider.ErrClock) {
		e.Problem = pages.ProblemClock
	}
	return e
}

// Results of a sign-in, as metrics and the audit log call them.
const (
	loginSuccess   = "success"
	loginFailure   = "failure"
	loginThrottled = "throttled"
)

// LoginResult returns the result of a sign-in, "" for a failure of the gateway
// itself.
func LoginResult(err error) string {
	var throttled *auth.ThrottledError
	switch {
	case err == nil:
		return loginSuccess
	case errors.As(err, &throttled):
		return loginThrottled
	case errors.Is(err, auth.ErrRejected), errors.Is(err, journey.ErrNoAttempt), errors.Is(err, proofs.ErrNoStep),
		isProviderError(err), errors.Is(err, errUnproved):
		return loginFailure
	}
	return ""
}
