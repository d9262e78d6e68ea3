package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/pages"
)

// request makes a request as a server would hand it over, with header lines
// like "Accept: text/html".
func request(target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// testExchange is an exchange with its client and its log.
type testExchange struct {
	Exchange
	t   *testing.T
	w   *httptest.ResponseRecorder
	log *bytes.Buffer
}

func newExchange(t *testing.T, r *http.Request) *testExchange {
	t.Helper()
	e := &testExchange{t: t, w: httptest.NewRecorder(), log: &bytes.Buffer{}}
	logger := slog.New(slog.NewJSONHandler(e.log, nil))
	metrics, err := NewMetrics(prometheus.NewRegistry(), logger, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pages.New()
	if err != nil {
		t.Fatal(err)
	}
	service := &Service{Logger: logger, Metrics: metrics, Pages: p, Now: time.Now}
	e.Init(&Site{Service: service, Prefix: "/"}, e.w, r)
	return e
}

// problem decodes the body of an error.
func (e *testExchange) problem() problem {
	e.t.Helper()
	var p problem
	if err := json.Unmarshal(e.w.Body.Bytes(), &p); err != nil {
		e.t.Fatalf("the body is no problem: %v: %q", err, e.w.Body)
	}
	return p
}

// logged returns the only record of the log.
func (e *testExchange) logged() map[string]any {
	e.t.Helper()
	var line map[string]any
	if err := json.Unmarshal(e.log.Bytes(), &line); err != nil {
		e.t.Fatalf("the log is not one record: %v: %s", err, e.log)
	}
	return line
}

// serverWriter takes 1xx as net/http does, which httptest.ResponseRecorder does
// not.
type serverWriter struct {
	*httptest.ResponseRecorder
	informational []int
}

func (w *serverWriter) WriteHeader(status int) {
	if status < 200 {
		w.informational = append(w.informational, status)
		return
	}
	w.ResponseRecorder.WriteHeader(status)
}

func TestExchangeWriter(t *testing.T) {
	t.Parallel()
	e := newExchange(t, request("/"))
	w := &serverWriter{ResponseRecorder: e.w}
	ex := &e.Exchange
	ex.ResponseWriter = w
	ex.WriteHeader(http.StatusEarlyHints)
	ex.WriteHeader(http.StatusProcessing)
	if ex.Status != 0 || len(w.informational) != 2 {
		t.Errorf("1xx: status %d, passed on %d", ex.Status, w.informational)
	}
	for _, part := range []string{"abc", "", "defgh"} {
		if n, err := ex.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if ex.Status != 200 || ex.bytes != 8 {
		t.Errorf("status %d, %d bytes", ex.Status, ex.bytes)
	}
	if err := http.NewResponseController(ex).Flush(); err != nil || !w.Flushed {
		t.Errorf("it cannot be flushed: %v", err)
	}
	if _, _, err := http.NewResponseController(ex).Hijack(); !errors.Is(err, http.ErrNotSupported) || ex.Status != 200 {
		t.Errorf("hijacking what cannot be hijacked: %v, status %d", err, ex.Status)
	}
}

// After Cut, the answer is the last one on a connection of HTTP/1.1.
func TestCutClosesConnection(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[int]string{1: "close", 2: ""} {
		e := newExchange(t, request("/"))
		e.Request.ProtoMajor = protocol
		e.Cut(time.Second)
		e.WriteHeader(http.StatusOK)
		if got := e.w.Header().Get("Connection"); got != want {
			t.Errorf("HTTP/%d: Connection is %q, want %q", protocol, got, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	kept := []string{"a", "Z9._-", strings.Repeat("x", 128)}
	for _, id := range kept {
		if got := requestID(http.Header{"X-Request-Id": {id}}); got != id {
			t.Errorf("%q becomes %q", id, got)
		}
	}
	made := map[string]bool{}
	for _, ids := range [][]string{
		nil, {}, {""}, {strings.Repeat("x", 129)}, {"a b"}, {"a\n"}, {"é"}, {"a/b"}, {"a,b"}, {"<x>"}, {"a", "a"}, {"\x00"},
	} {
		id := requestID(http.Header{"X-Request-Id": ids})
		if !validRequestID(id) || made[id] {
			t.Errorf("%q becomes %q", ids, id)
		}
		made[id] = true
	}
}
