package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"authgate/gateway/provider"
	"authgate/gateway/upstream"
)

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
