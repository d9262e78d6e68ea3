package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/provider"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
	"authgate/gateway/upstream"
	"authgate/policy"
)

// kinds are all errors that something on a request's way may return, with
// what the client is to be told.
var kinds = []struct {
	name       string
	err        error
	status     int
	detail     string
	retryAfter string
}{
	{"ready", &httpError{status: 415, detail: "Send JSON."}, 415, "Send JSON.", ""},
	{"ready with Retry-After", &httpError{status: 503, detail: "Wait.", retryAfter: 90 * time.Second}, 503, "Wait.", "90"},
	{"target", &policy.TargetError{Reason: "the path holds a backslash"}, 400, "The request target is malformed: the path holds a backslash.", ""},
	{"ambiguous", auth.ErrAmbiguous, 400, "The request presents more than one credential of a kind.", ""},
	{"body too large", &http.MaxBytesError{Limit: 65536}, 413, "The body is larger than 65536 bytes.", ""},
	{"body too large, on the way to the upstream", &upstream.Error{Upstream: "app", Err: fmt.Errorf("write: %w", &http.MaxBytesError{Limit: 10})}, 413, "The body is larger than 10 bytes.", ""},
	{"throttled", &auth.ThrottledError{RetryAfter: 3 * time.Minute}, 429, "Too many failed logins. Try again later.", "180"},
	{"throttled for part of a second", &auth.ThrottledError{RetryAfter: time.Millisecond}, 429, "Too many failed logins. Try again later.", "1"},
	{"throttled for a second and a bit", &auth.ThrottledError{RetryAfter: time.Second + 1}, 429, "Too many failed logins. Try again later.", "2"},
	{"nothing presented", auth.ErrNoCredentials, 401, "Not signed in.", ""},
	{"rejection", &auth.Rejection{Detail: "No.", Reason: "revoked"}, 401, "No.", ""},
	{"reuse", &login.ReuseError{}, 401, "The refresh token is invalid, expired or already used.", ""},
	{"rejected", auth.ErrRejected, 401, "Invalid username or password.", ""},
	{"upstream refused", &upstream.Error{Upstream: "app", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, 502, "The application could not be reached.", ""},
	{"upstream broke", &upstream.Error{Upstream: "app", Err: errors.New("EOF")}, 502, "The application could not be reached.", ""},
	{"upstream too late", &upstream.Error{Upstream: "app", Err: fmt.Errorf("x: %w", os.ErrDeadlineExceeded)}, 504, "The application did not answer in time.", ""},
	{"upstream's context too late", &upstream.Error{Upstream: "app", Err: context.DeadlineExceeded}, 504, "The application did not answer in time.", ""},
	{"client left the upstream", &upstream.Error{Upstream: "app", Err: context.Canceled}, 499, "The client left.", ""},
	{"client left", context.Canceled, 499, "The client left.", ""},
	{"client left the store", &guard.Error{Operation: "get", Err: context.Canceled}, 499, "The client left.", ""},
	{"client left the queue of logins", fmt.Errorf("%w: %w", auth.ErrBusy, context.Canceled), 499, "The client left.", ""},
	{"store", &guard.Error{Operation: "get", Err: errBroken}, 503, "The service is unavailable for the moment.", "1"},
	{"store too late", &guard.Error{Operation: "put", Err: context.DeadlineExceeded}, 503, "The service is unavailable for the moment.", "1"},
	{"busy", auth.ErrBusy, 503, "Too many credentials are being checked at once. Try again.", "1"},
	{"unknown", errBroken, 500, "The gateway failed.", ""},
	{"a stray answer of the store", store.ErrNotFound, 500, "The gateway failed.", ""},
	{"a stray conflict", store.ErrConflict, 500, "The gateway failed.", ""},
	{"a deadline of nobody's", context.DeadlineExceeded, 500, "The gateway failed.", ""},
}

func TestToHTTP(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		// As it is, and with the operation in hand around it.
		for _, err := range []error{k.err, fmt.Errorf("doing this: %w", k.err), errors.Join(errors.New("and"), k.err)} {
			got := toHTTP(err)
			if got.status != k.status || got.detail != k.detail {
				t.Errorf("%s: %d %q, want %d %q", k.name, got.status, got.detail, k.status, k.detail)
			}
			if _, ready := k.err.(*httpError); !ready && !errors.Is(got, k.err) {
				t.Errorf("%s: the cause is lost", k.name)
			}
		}
	}
}

// fail answers a request with an error.
func (r *rig) fail(q *http.Request, err error) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	ex := r.begin(w, q)
	defer ex.finish()
	ex.fail(err)
	return w
}

// What reaches the client: status, detail, Retry-After and a 401's challenges,
// whatever form it takes; and nothing of the cause.
func TestFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, k := range kinds {
		if k.status == statusClientGone {
			continue // see TestFailClientGone
		}
		for _, accept := range []string{"", "application/json", "application/problem+json", "text/html"} {
			w := r.fail(request("GET", "/", "", "Accept: "+accept), fmt.Errorf("sesame: %w", k.err))
			if w.Code != k.status || w.Header().Get("Retry-After") != k.retryAfter {
				t.Errorf("%s: %d, Retry-After %q, want %d and %q", k.name, w.Code, w.Header().Get("Retry-After"), k.status, k.retryAfter)
			}
			media, body := accept, w.Body.String()
			switch accept {
			case "text/html":
				media += "; charset=utf-8"
				if !strings.Contains(body, k.detail) {
					t.Errorf("%s: the page lacks %q", k.name, k.detail)
				}
			default:
				if accept == "" {
					media = "application/json"
				}
				want := problem{Title: http.StatusText(k.status), Status: k.status, Detail: k.detail}
				if got := problemOf(t, w); got != want {
					t.Errorf("%s: %+v, want %+v", k.name, got, want)
				}
			}
			for name, want := range map[string]string{
				"Content-Type": media, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", k.name, name, got, want)
				}
			}
			for _, internal := range []string{"sesame", errBroken.Error(), "upstream app", "dial", "store:", "revoked"} {
				if strings.Contains(body, internal) || strings.Contains(fmt.Sprint(w.Header()), internal) {
					t.Errorf("%s: the client is told %q", k.name, internal)
				}
			}
			line := r.log.last(t, "request")
			if line["status"] != float64(k.status) || !strings.Contains(fmt.Sprint(line["error"]), "sesame") {
				t.Errorf("%s: the log does not tell why: %v", k.name, line)
			}
		}
	}
}

// Nobody is told that the client left, and the connection ends without what
// could pass for an answer.
func TestFailClientGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.upstream.answer = func(*http.Request) (*http.Response, error) {
		return nil, &upstream.Error{Upstream: "app", Err: context.Canceled}
	}
	w := httptest.NewRecorder()
	gone, leave := context.WithCancel(t.Context())
	leave()
	aborted(t, func() { r.ServeHTTP(w, request("GET", "/public/", "").WithContext(gone)) })
	if w.Body.Len() > 0 {
		t.Errorf("answered %q", w.Body)
	}
	if line := r.log.last(t, "request"); line["status"] != float64(499) || line["decision"] != "error" {
		t.Errorf("logged %v", line)
	}
}

// What was given up while the client waits is no client that left.
func TestFailGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for want, err := range map[int]error{
		http.StatusServiceUnavailable: &upstream.Error{Upstream: "app", Err: context.Canceled},
		http.StatusBadGateway:         &provider.Error{Provider: "p", Operation: "keys", Kind: provider.ErrFault, Err: context.Canceled},
	} {
		r.upstream.answer = func(*http.Request) (*http.Response, error) { return nil, err }
		if w := r.do("GET", "/public/", ""); w.Code != want {
			t.Errorf("%v: %d, want %d", err, w.Code, want)
		}
	}
}

// aborted makes sure that f ends in the panic by which net/http cuts an answer
// off.
func aborted(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the handler ends with %v, want http.ErrAbortHandler", p)
		}
	}()
	f()
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	const j, p, h = typeJSON, typeProblem, typeHTML
	for _, c := range []struct{ accept, want string }{
		{"", j},
		{"*/*", j}, // curl
		{"*", j},
		{"application/json", j},
		{"application/problem+json", p},
		{"text/html", h},
		{"TEXT/HTML", h},
		{"Application/Problem+JSON", p},
		{"text/html;charset=utf-8", h},
		{"text/html ; level=1 ; q=0.7", h},
		{"text/*", h},
		{"application/*", j},
		{"text/plain", j},
		{"image/png", j},
		// Design B.2: problem+json where it is named, wherever it stands.
		{"application/json, application/problem+json", p},
		{"application/problem+json, application/json", p},
		{"application/json, application/problem+json;q=0.5", p},
		{"application/problem+json, */*;q=0.1", p},
		{"*/*, application/problem+json", p},
		{"application/problem+json;q=0, application/json", j},
		{"application/problem+json;q=0.5, text/html", h}, // prefers the page
		// HTML where it is preferred.
		{"text/html, application/json;q=0.9", h},
		{"application/json;q=0.9, text/html", h},
		{"application/json, text/html;q=0.9", j},
		{"text/html;q=0.5, */*", j},
		{"text/html;q=0.5, */*;q=0.1", h},
		{"text/html;q=0.1, application/json;q=0.2", j},
		{"application/json;q=0.1, text/html;q=0.2", h},
		{"text/html;q=0.9, application/*", j},
		{"text/html, */*", h},
		{"text/html;q=0", j},
		{"text/html;q=0.0, */*", j},
		{"text/*;q=0.5, text/html;q=0, application/json;q=0.1", j},
		{"text/html, application/json", j}, // no preference
		{"application/json, text/html", j},
		// Browsers loading a page: Firefox, Chrome, Safari, an old Edge.
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", h},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7", h},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", h},
		{"text/html, application/xhtml+xml, image/jxr, */*", h},
		// Browsers loading something else, and scripts.
		{"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", j},
		{"text/css,*/*;q=0.1", j},
		{"application/json, text/plain, */*", j},
		{"application/json, text/javascript, */*; q=0.01", j},
		// Garbage is never a page.
		{",", j}, {";", j}, {"/", j}, {"html", j}, {"text/", j}, {"/html", j}, {"text/html/x", j}, {";q=1", j},
		{"text/html;q=x", j}, {"text/html;q=-1", j}, {"text/html;q=NaN", j}, {"\x00", j}, {"text/html\x00", j},
	} {
		r := request("GET", "/", "")
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		if got := negotiate(r); got != c.want {
			t.Errorf("Accept: %s: %s, want %s", c.accept, got, c.want)
		}
	}
}

// A list may be cut over several lines (RFC 9110, section 5.3).
func TestNegotiateLines(t *testing.T) {
	t.Parallel()
	r := request("GET", "/", "", "Accept: application/json;q=0.5", "Accept: text/html")
	if got := negotiate(r); got != typeHTML {
		t.Errorf("got %s, want %s", got, typeHTML)
	}
}
