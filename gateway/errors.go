package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/provider"
	"authgate/gateway/store/guard"
	"authgate/gateway/upstream"
	"authgate/policy"
)

// httpError is an answer other than success. Detail is for whoever asks and
// tells no internals; cause is for operators.
type httpError struct {
	status     int
	detail     string
	cause      error
	retryAfter time.Duration
	allow      string // of a 405
}

func (e *httpError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%d %s: %v", e.status, e.detail, e.cause)
	}
	return fmt.Sprintf("%d %s", e.status, e.detail)
}

func (e *httpError) Unwrap() error { return e.cause }

func errNoRoute() error {
	return &httpError{status: http.StatusNotFound, detail: "There is nothing here.", cause: errors.New("no route matches")}
}

func errForbidden() error {
	return &httpError{status: http.StatusForbidden, detail: "You are signed in, but not allowed to do this."}
}

func errUnavailable(cause error) *httpError {
	return &httpError{status: 503, detail: "The service is unavailable for the moment.", cause: cause, retryAfter: time.Second}
}

// statusClientGone is what is counted and logged when the client left before
// there was an answer. It is never sent.
const statusClientGone = 499

// toHTTP is the one place that maps errors to HTTP (design B.2). What it does
// not know is a failure of ours: 500.
func toHTTP(err error) *httpError {
	var (
		ready     *httpError
		target    *policy.TargetError
		rejection *auth.Rejection
		reuse     *login.ReuseError
		throttled *auth.ThrottledError
		tooLarge  *http.MaxBytesError
		failed    *upstream.Error
		storage   *guard.Error
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &target):
		return &httpError{status: 400, detail: "The request target is malformed: " + target.Reason + ".", cause: err}
	case errors.Is(err, auth.ErrAmbiguous):
		return &httpError{status: 400, detail: "The request presents more than one credential of a kind.", cause: err}
	case errors.As(err, &tooLarge):
		return &httpError{status: 413, detail: fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit), cause: err}
	case errors.As(err, &throttled):
		return &httpError{status: 429, detail: "Too many failed logins. Try again later.", cause: err, retryAfter: throttled.RetryAfter}
	case errors.Is(err, auth.ErrNoCredentials):
		return &httpError{status: 401, detail: auth.DetailNotSignedIn, cause: err}
	case errors.As(err, &rejection):
		return &httpError{status: 401, detail: rejection.Detail, cause: err}
	case errors.As(err, &reuse):
		return &httpError{status: 401, detail: auth.DetailBadRefresh, cause: err}
	case errors.Is(err, auth.ErrRejected):
		return &httpError{status: 401, detail: auth.DetailWrongPassword, cause: err}
	case errors.As(err, &failed):
		return upstreamStatus(failed)
	case errors.Is(err, context.Canceled):
		return &httpError{status: statusClientGone, detail: "The client left.", cause: err}
	case errors.Is(err, login.ErrNoAttempt):
		return &httpError{status: 400, detail: "This sign-in was not begun in this browser, is finished already, or took too long. Please start again.", cause: err}
	case errors.Is(err, login.ErrReplayed):
		return &httpError{status: 400, detail: "The token was used before.", cause: err}
	case isProviderError(err):
		return providerStatus(err)
	case errors.As(err, &storage):
		return errUnavailable(err)
	case errors.Is(err, auth.ErrBusy):
		return &httpError{status: 503, detail: "Too many credentials are being checked at once. Try again.", cause: err, retryAfter: time.Second}
	}
	return &httpError{status: 500, detail: "The gateway failed.", cause: err}
}

func upstreamStatus(err *upstream.Error) *httpError {
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return &httpError{status: statusClientGone, detail: "The client left.", cause: err}
	case errors.As(err.Err, &timeout) && timeout.Timeout():
		return &httpError{status: 504, detail: "The application did not answer in time.", cause: err}
	}
	return &httpError{status: 502, detail: "The application could not be reached.", cause: err}
}

// isProviderError reports whether err is about what a provider said, or failed
// to say.
func isProviderError(err error) bool {
	var e *provider.Error
	return errors.As(err, &e)
}

func providerStatus(err error) *httpError {
	switch {
	case errors.Is(err, provider.ErrInvalid):
		return &httpError{status: 400, detail: "The token is not valid.", cause: err}
	case errors.Is(err, provider.ErrMixUp):
		return &httpError{status: 400, detail: "The answer is of another identity provider than the one asked.", cause: err}
	case errors.Is(err, provider.ErrRefused):
		return &httpError{status: 401, detail: "The identity provider refused the sign-in.", cause: err}
	case errors.Is(err, provider.ErrTimeout):
		return &httpError{status: 504, detail: "The identity provider did not answer in time. Please try again later.", cause: err}
	}
	return &httpError{status: 502, detail: "The identity provider could not be reached, or its answer was not acceptable.", cause: err}
}

// problem is the body of an error (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeHTML    = "text/html"
	typeForm    = "application/x-www-form-urlencoded"
)

// negotiate picks the media type of what the gateway itself says (RFC 9110,
// section 12.5.1): a page only for a client that prefers HTML to JSON, and
// problem+json only for one that names it.
func negotiate(r *http.Request) string {
	lines := r.Header["Accept"]
	if len(lines) == 0 {
		return typeJSON
	}
	ranges := goautoneg.ParseAccept(strings.ToLower(strings.Join(lines, ",")))
	page, named := weigh(ranges, typeHTML), weigh(ranges, typeProblem)
	switch {
	case page.over(named) && page.over(weigh(ranges, typeJSON)):
		return typeHTML
	case named.specific == 2 && named.quality > 0:
		return typeProblem
	}
	return typeJSON
}

// preference is how much a client wants a media type: the quality that the
// most specific range for it has, and how many parts of the type that names.
type preference struct {
	quality  float64
	specific int
}

// over reports whether p is wanted, and more than o.
func (p preference) over(o preference) bool {
	return p.quality > 0 && (p.quality > o.quality || p.quality == o.quality && p.specific > o.specific)
}

func weigh(ranges []goautoneg.Accept, media string) preference {
	best := preference{specific: -1}
	for _, r := range ranges {
		specific := slices.Index([]string{"*/*", strings.Split(media, "/")[0] + "/*", media}, r.Type+"/"+r.SubType)
		if specific > best.specific {
			best = preference{quality: r.Q, specific: specific}
		}
	}
	return best
}

// fail answers the request with what toHTTP makes of err. A response that
// has begun cannot be changed any more and is cut.
func (ex *exchange) fail(err error) {
	ended := ex.stream.ended.Load()
	if ended != nil {
		err, ex.challenges = ended, ended.challenges // the failure is a consequence
	}
	e := toHTTP(err)
	if e.status == statusClientGone && ex.r.Context().Err() == nil { // something else was given up
		e = errUnavailable(err)
		if isProviderError(err) {
			e = providerStatus(err)
		}
	}
	ex.err = err
	ex.outcome(e)
	if e.status == statusClientGone && ex.status == 0 {
		ex.status = e.status // nobody is there to be told
	}
	if ex.status != 0 {
		panic(http.ErrAbortHandler) // returning would end the answer as if it were whole
	}
	h := ex.Header()
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retryAfter.Seconds()))))
	}
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.status == http.StatusUnauthorized {
		ex.clearDead()
		for _, challenge := range ex.challenges {
			h.Add("WWW-Authenticate", string(challenge))
		}
	}
	ex.toldEnded = ended != nil
	ex.writeError(e)
}

func (ex *exchange) writeError(e *httpError) {
	body := problem{Title: http.StatusText(e.status), Status: e.status, Detail: e.detail}
	switch media := negotiate(ex.r); media {
	case typeHTML:
		ex.page(e.status, func(p *pages.Pages) error {
			return p.Error(ex, pages.ErrorPage{
				Status: e.status, Title: body.Title, Detail: e.detail,
				RequestID: ex.requestID, SignInURL: ex.signInURL(e.status),
			})
		})
	default:
		ex.json(media, e.status, body)
	}
}

// json answers with body as media.
func (ex *exchange) json(media string, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil { // a type of ours that cannot be marshalled
		encoded, status = []byte(`{"title":"Internal Server Error","status":500,"detail":"The gateway failed."}`), 500
		ex.err = err
	}
	ex.own(media)
	ex.Header().Set("Content-Length", strconv.Itoa(len(encoded)+1))
	ex.WriteHeader(status)
	_, _ = ex.Write(append(encoded, '\n')) // the client is gone if this fails
}

// page answers with what render writes.
func (ex *exchange) page(status int, render func(*pages.Pages) error) {
	ex.own(typeHTML + "; charset=utf-8")
	ex.Header().Set("Content-Security-Policy", ex.gw.pages.ContentSecurityPolicy())
	ex.WriteHeader(status)
	if err := render(ex.gw.pages); err != nil {
		ex.err = errors.Join(ex.err, fmt.Errorf("rendering a page: %w", err))
	}
}

// own sets the headers of everything that the gateway itself says.
func (ex *exchange) own(media string) {
	ex.limitBody()
	ex.strictTransport()
	h := ex.Header()
	h.Set("Content-Type", media)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Request-Id", ex.requestID)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
}
