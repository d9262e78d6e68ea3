package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
	"authgate/policy"
)

var errBroken = errors.New("the disk with the secret name is on fire")

// kinds are the errors that a handler may return, and the answers to them.
var kinds = []struct {
	name       string
	err        error
	status     int
	detail     string
	retryAfter string
}{
	{"ready", &Error{Status: 415, Detail: "Send JSON."}, 415, "Send JSON.", ""},
	{"ready with Retry-After", &Error{Status: 503, Detail: "Wait.", RetryAfter: 90 * time.Second}, 503, "Wait.", "90"},
	{"target", &policy.TargetError{Reason: "the path holds a backslash"}, 400,
		"The request target is malformed: the path holds a backslash.", ""},
	{"ambiguous", auth.ErrAmbiguous, 400, "The request presents more than one credential of a kind.", ""},
	{"body too large", &http.MaxBytesError{Limit: 65536}, 413, "The body is larger than 65536 bytes.", ""},
	{"body too large, on the way to the upstream",
		&upstream.Error{Upstream: "app", Err: fmt.Errorf("write: %w", &http.MaxBytesError{Limit: 10})}, 413,
		"The body is larger than 10 bytes.", ""},
	{"throttled", &auth.ThrottledError{RetryAfter: 3 * time.Minute}, 429,
		"Too many failed logins. Try again later.", "180"},
	{"throttled for part of a second", &auth.ThrottledError{RetryAfter: time.Millisecond}, 429,
		"Too many failed logins. Try again later.", "1"},
	{"throttled for a second and a bit", &auth.ThrottledError{RetryAfter: time.Second + 1}, 429,
		"Too many failed logins. Try again later.", "2"},
	{"too many sign-ins begun", &auth.StartsError{RetryAfter: time.Second}, 429,
		"Too many sign-ins were begun from your address. Try again later.", "1"},
	{"nothing presented", auth.ErrNoCredentials, 401, "Not signed in.", ""},
	{"rejection", &auth.Rejection{Detail: "No.", Reason: "revoked"}, 401, "No.", ""},
	{"reuse", &login.ReuseError{}, 401, "The refresh token is invalid, expired or already used.", ""},
	{"rejected", auth.ErrRejected, 401, "Invalid username or password.", ""},
	{"upstream refused",
		&upstream.Error{Upstream: "app", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, 502,
		"The application could not be reached.", ""},
	{"upstream has another certificate", &upstream.Error{Upstream: "app",
		Err: &tls.CertificateVerificationError{Err: errBroken}}, 502, "The application could not be reached.", ""},
	{"upstream broke", &upstream.Error{Upstream: "app", Err: errors.New("malformed")}, 502,
		"The application answered, but broke the protocol.", ""},
	{"upstream too late", &upstream.Error{Upstream: "app", Err: fmt.Errorf("x: %w", os.ErrDeadlineExceeded)}, 504,
		"The application did not answer in time.", ""},
	{"upstream's context too late", &upstream.Error{Upstream: "app", Err: context.DeadlineExceeded}, 504,
		"The application did not answer in time.", ""},
	{"client left the upstream", &upstream.Error{Upstream: "app", Err: context.Canceled}, 499, "The client left.", ""},
	{"client left", context.Canceled, 499, "The client left.", ""},
	{"client left the store", &guard.Error{Operation: "get", Err: context.Canceled}, 499, "The client left.", ""},
	{"client left the queue of logins", fmt.Errorf("%w: %w", auth.ErrBusy, context.Canceled), 499, "The client left.", ""},
	{"no ticket", journey.ErrNoTicket, 400, "This sign-in was not begun in this browser, is finished already, or took " +
		"too long. Does the browser accept cookies? Please start again.", ""},
	{"no attempt", journey.ErrNoAttempt, 400, "This sign-in was not begun in this browser, is finished already, or took " +
		"too long. Please start again.", ""},
	{"replayed", provider.ErrReplayed, 400, "The token was used before.", ""},
	{"provider's token", &provider.Error{Provider: "p", Kind: provider.ErrInvalid, Err: errBroken}, 400,
		"The token is not valid.", ""},
	{"another provider", &provider.Error{Provider: "p", Kind: provider.ErrMixUp, Err: errBroken}, 400,
		"The answer is of another identity provider than the one asked.", ""},
	{"provider refused", &provider.Error{Provider: "p", Kind: provider.ErrRefused, Err: errBroken}, 401,
		"The identity provider refused the sign-in.", ""},
	{"provider too late", &provider.Error{Provider: "p", Kind: provider.ErrTimeout, Err: errBroken}, 504,
		"The identity provider did not answer in time. Please try again later.", ""},
	{"provider failed", &provider.Error{Provider: "p", Kind: provider.ErrFault, Err: errBroken}, 502,
		"The identity provider could not be reached, or its answer was not acceptable.", ""},
	{"store", &guard.Error{Operation: "get", Err: errBroken}, 503, "The service is unavailable for the moment.", "1"},
	{"store too late", &guard.Error{Operation: "put", Err: context.DeadlineExceeded}, 503,
		"The service is unavailable for the moment.", "1"},
	{"a recovery code that cannot be used up", fmt.Errorf("%w: %w", proofs.ErrUnspent, errBroken), 503,
		"The service is unavailable for the moment.", "1"},
	{"a TOTP secret that does not open", fmt.Errorf("x: %w", factors.ErrSealed), 503,
		"The service is unavailable for the moment.", "1"},
	{"busy", auth.ErrBusy, 503, "Too many credentials are being checked at once. Try again.", "1"},
	{"unknown", errBroken, 500, "The gateway failed.", ""},
	{"a stray answer of the store", store.ErrNotFound, 500, "The gateway failed.", ""},
	{"a stray conflict", store.ErrConflict, 500, "The gateway failed.", ""},
	{"a deadline of unknown origin", context.DeadlineExceeded, 500, "The gateway failed.", ""},
}

// pageTexts are what the pages of those kinds say instead of the detail.
var pageTexts = map[string]string{
	"ready with Retry-After":           "The service is unavailable for the moment.",
	"throttled":                        "To protect accounts, sign-in pauses for a while.",
	"throttled for part of a second":   "Try again in <strong>1 second</strong>.",
	"throttled for a second and a bit": "Try again in <strong>2 seconds</strong>.",
	"too many sign-ins begun":          "Try again in <strong>1 second</strong>.",
	"nothing presented":                "You are not signed in",
	"rejection":                        "You are not signed in",
	"reuse":                            "You are not signed in",
	"upstream broke":                   "The application answered, but its answer is broken.",
	"no ticket":                        "Your browser did not keep a cookie",
	"no attempt":                       "Your browser did not keep a cookie",
	"provider refused":                 "The identity provider refused the sign-in",
	"provider too late":                "The identity provider did not answer in time.",
	"busy":                             "Too many requests are being served at once.",
	"unknown":                          "Something went wrong",
	"a stray answer of the store":      "Something went wrong",
	"a stray conflict":                 "Something went wrong",
	"a deadline of unknown origin":     "Something went wrong",
}

func TestToHTTP(t *testing.T) {
	t.Parallel()
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, k := range kinds {
		// As it is, and with the operation in hand around it.
		for _, err := range []error{
			k.err, fmt.Errorf("doing this: %w", k.err), errors.Join(errors.New("and"), k.err), Challenge(k.err, "Basic"),
		} {
			got := toHTTP(left, err)
			if got.Status != k.status || got.Detail != k.detail {
				t.Errorf("%s: %d %q, want %d %q", k.name, got.Status, got.Detail, k.status, k.detail)
			}
			if _, ready := k.err.(*Error); !ready && !errors.Is(got, k.err) {
				t.Errorf("%s: the cause is lost", k.name)
			}
		}
	}
	// Work that was canceled while the client waits is no client that left.
	for want, err := range map[int]error{
		503: &upstream.Error{Upstream: "app", Err: context.Canceled},
		502: &provider.Error{Provider: "p", Operation: "keys", Kind: provider.ErrFault, Err: context.Canceled},
	} {
		if got := toHTTP(t.Context(), err).Status; got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// The client is told status, detail, Retry-After and a 401's challenges, in each
// form of an answer, and nothing of the cause.
func TestFail(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		if k.status == statusClientGone {
			continue // see TestFailWithoutAnswer
		}
		for accept, media := range map[string]string{
			"": TypeJSON, TypeJSON: TypeJSON, TypeProblem: TypeProblem, TypeHTML: TypeHTML + "; charset=utf-8",
		} {
			name := k.name + ", " + accept
			e := newExchange(t, request("/", "Accept: "+accept))
			if e.Fail(Challenge(fmt.Errorf("sesame: %w", k.err), "Basic", "Bearer")) {
				t.Errorf("%s: Fail wants to abort", name)
			}
			e.Finish(false)
			h, body, csp := e.w.Header(), e.w.Body.String(), ""
			if challenges := len(h["Www-Authenticate"]); e.w.Code != k.status || challenges != 0 != (k.status == 401) {
				t.Errorf("%s: %d with %d challenges, want %d", name, e.w.Code, challenges, k.status)
			}
			if accept == TypeHTML {
				csp = e.site.Pages.In("", nil).ContentSecurityPolicy(nil, "")
				if want := cmp.Or(pageTexts[k.name], k.detail); !strings.Contains(body, want) {
					t.Errorf("%s: the page lacks %q", name, want)
				}
			} else {
				var got problem
				err := json.Unmarshal([]byte(body), &got)
				want := problem{Title: http.StatusText(k.status), Status: k.status, Detail: k.detail}
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %+v, want %+v", name, got, want)
				}
			}
			for header, want := range map[string]string{
				"Content-Type": media, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
				"Referrer-Policy": "same-origin", "Content-Security-Policy": csp, "X-Request-Id": e.ID, "Retry-After": k.retryAfter,
			} {
				if got := h.Get(header); got != want {
					t.Errorf("%s: %s is %q, want %q", name, header, got, want)
				}
			}
			for _, internal := range []string{"sesame", errBroken.Error(), "upstream app", "dial", "store:", "revoked"} {
				if strings.Contains(body, internal) || strings.Contains(fmt.Sprint(h), internal) {
					t.Errorf("%s: the client is told %q", name, internal)
				}
			}
			if line := e.log.Last(t, config.AccessMessage); line["status"] != float64(k.status) ||
				!strings.Contains(fmt.Sprint(line["error"]), "sesame") {
				t.Errorf("%s: the log does not tell why: %v", name, line)
			}
		}
	}
}

// A client that left gets no answer, and an answer that has begun does not become
// another one.
func TestFailWithoutAnswer(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	e := newExchange(t, request("/").WithContext(gone))
	if !e.Fail(context.Canceled) || e.w.Body.Len() > 0 {
		t.Errorf("answered %q", e.w.Body)
	}
	e.Finish(true)
	if line := e.log.Last(t, config.AccessMessage); line["status"] != float64(499) || line["decision"] != "error" {
		t.Errorf("logged %v", line)
	}
	e = newExchange(t, request("/"))
	_, _ = e.Write([]byte("half"))
	if !e.Fail(errBroken) || e.w.Body.String() != "half" || e.w.Code != 200 {
		t.Errorf("%d %q", e.w.Code, e.w.Body)
	}
}
