package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/audit"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/internal/test/logtest"
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
	w   *serverWriter
	log *logtest.Buffer
}

func newExchange(t *testing.T, r *http.Request) *testExchange {
	t.Helper()
	e := &testExchange{w: &serverWriter{ResponseRecorder: httptest.NewRecorder()}, log: &logtest.Buffer{}}
	logger := slog.New(slog.NewJSONHandler(e.log, nil))
	metrics, err := NewMetrics(prometheus.NewRegistry(), logger, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pages.New(pages.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service := &Service{Logger: logger, Events: audit.NewRecorder(logger), Metrics: metrics, Now: time.Now}
	e.Init(&Site{Service: service, Pages: p, Places: &places.Places{Prefix: "/"}}, e.w, r)
	return e
}

// serverWriter takes 1xx and write deadlines as net/http does, which
// httptest.ResponseRecorder does not.
type serverWriter struct {
	*httptest.ResponseRecorder
	informational []int
	limits        []time.Duration // until the deadlines; 0: removed
}

func (w *serverWriter) WriteHeader(status int) {
	if status < 200 {
		w.informational = append(w.informational, status)
		return
	}
	w.ResponseRecorder.WriteHeader(status)
}

func (w *serverWriter) SetWriteDeadline(t time.Time) error {
	limit := time.Duration(0)
	if !t.IsZero() {
		limit = time.Until(t).Round(time.Minute)
	}
	w.limits = append(w.limits, limit)
	return nil
}

// An informational response is no answer. In HTTP/1.0 there is none.
func TestExchangeWriter(t *testing.T) {
	t.Parallel()
	e := newExchange(t, request("/"))
	ex := &e.Exchange
	ex.Header().Set("Link", "</a>")
	ex.WriteHeader(http.StatusEarlyHints)
	ex.WriteHeader(http.StatusProcessing)
	ex.Request.ProtoMinor = 0
	ex.WriteHeader(http.StatusEarlyHints)
	if ex.Status != 0 || len(e.w.informational) != 2 || ex.Header().Get("Link") == "" {
		t.Errorf("1xx: status %d, passed on %d with %v", ex.Status, e.w.informational, ex.Header())
	}
	for _, part := range []string{"abc", "", "defgh"} {
		if n, err := ex.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if ex.Status != 200 || ex.bytes != 8 {
		t.Errorf("status %d, %d bytes", ex.Status, ex.bytes)
	}
	if err := http.NewResponseController(ex).Flush(); err != nil || !e.w.Flushed {
		t.Errorf("it cannot be flushed: %v", err)
	}
	if _, _, err := http.NewResponseController(ex).Hijack(); !errors.Is(err, http.ErrNotSupported) || ex.Status != 200 {
		t.Errorf("hijacking what cannot be hijacked: %v, status %d", err, ex.Status)
	}
}

// A large answer has a time limit, which ends with the answer. The limit of Cut
// stays, and a WebSocket has none. After Cut, the answer is the last one on a
// connection of HTTP/1.1.
func TestAnswerLimits(t *testing.T) {
	t.Parallel()
	large := []byte(strings.Repeat("x", unpacedAnswer+1))
	write := func(e *testExchange) { _, _ = e.Write(large) }
	for name, c := range map[string]struct {
		protocol   int
		answer     func(*testExchange)
		want       []time.Duration
		connection string
	}{
		"small": {1, func(e *testExchange) { _, _ = e.Write(large[1:]) }, nil, ""},
		"large": {1, write, []time.Duration{AnswerPause, AnswerPause, 0}, ""},
		"switched": {1, func(e *testExchange) { write(e); e.Status = http.StatusSwitchingProtocols },
			[]time.Duration{AnswerPause}, ""},
		"cut":         {1, func(e *testExchange) { e.Cut(time.Minute); write(e) }, []time.Duration{time.Minute}, "close"},
		"cut, HTTP/2": {2, func(e *testExchange) { e.Cut(time.Minute); write(e) }, []time.Duration{time.Minute}, ""},
		"small, HTTP/3": {3, func(e *testExchange) { _, _ = e.Write(large[:1]) },
			[]time.Duration{AnswerPause, AnswerPause}, ""},
		"empty, HTTP/3": {3, func(e *testExchange) { e.WriteHeader(http.StatusNoContent) },
			[]time.Duration{AnswerPause, AnswerPause}, ""},
		"cut, HTTP/3": {3, func(e *testExchange) { e.Cut(time.Minute); write(e) }, []time.Duration{time.Minute}, ""},
		"cut late": {1, func(e *testExchange) { write(e); e.Cut(time.Minute) },
			[]time.Duration{AnswerPause, time.Minute}, ""},
	} {
		e := newExchange(t, request("/"))
		e.Request.ProtoMajor = c.protocol
		c.answer(e)
		e.Finish(false)
		if got := e.w.Header().Get("Connection"); !slices.Equal(e.w.limits, c.want) || got != c.connection {
			t.Errorf("%s: limits %v, want %v; Connection %q, want %q", name, e.w.limits, c.want, got, c.connection)
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "Z9._-", strings.Repeat("x", 128)} {
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

// A client that resets its stream while informational responses are sent does
// not make two goroutines use one map, which ends the process. The race detector
// finds it reliably.
func TestResetAmidHints(t *testing.T) {
	t.Parallel()
	site := newExchange(t, request("/")).site
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ex Exchange
		ex.Init(site, w, r)
		for range 4 { // as httputil.ReverseProxy
			h := ex.Header()
			for i := range 100 { // so that encoding takes some time
				h.Set("X-Hint-"+strconv.Itoa(i), "</style.css>; rel=preload")
			}
			ex.WriteHeader(http.StatusEarlyHints)
			clear(h)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	reset := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			cancel()
			return nil
		}}
		q, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		if answer, err := server.Client().Do(q); err == nil {
			answer.Body.Close()
		}
	}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 75 {
				reset()
			}
		})
	}
	clients.Wait()
}

// A line of a library becomes a record, without what it quotes.
func TestLibraryLog(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"http: TLS handshake error from 192.0.2.7:4711: EOF\n": "http: TLS handshake error from 192.0.2.7:4711: EOF",
		`Unsolicited response received on idle HTTP channel starting with ` +
			`"Set-Cookie: a\"b"; err=<nil>`: `Unsolicited response received on idle HTTP channel starting with "..."; err=<nil>`,
		`got ["a" "b"], and "cut off`: `got ["..." "..."], and "..."`,
		`the end is "cut off\`:        `the end is "..."`,
	} {
		out := &logtest.Buffer{}
		handler := slog.NewJSONHandler(out, nil)
		LibraryLog(handler, slog.LevelDebug).Print("of a level that is not logged")
		LibraryLog(handler, slog.LevelWarn).Print(line)
		var record map[string]any
		if err := json.Unmarshal([]byte(out.String()), &record); err != nil ||
			record["level"] != "WARN" || record["msg"] != want {
			t.Errorf("%q: %v, %v", line, out, err)
		}
	}
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for want, accepts := range map[string][]string{
		TypeJSON: {
			"*/*", "*", "application/json", "application/*", "text/plain", "image/png",
			"application/problem+json;q=0, application/json",
			// A page is not preferred.
			"application/json, text/html;q=0.9", "text/html;q=0.5, */*", "text/html;q=0.1, application/json;q=0.2",
			"text/html;q=0.9, application/*", "text/html;q=0", "text/html;q=0.0, */*",
			"text/*;q=0.5, text/html;q=0, application/json;q=0.1", "text/html, application/json", "application/json, text/html",
			// Browsers that load something else than a page, and scripts.
			"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", "text/css,*/*;q=0.1",
			"application/json, text/plain, */*", "application/json, text/javascript, */*; q=0.01",
			// Garbage is never a page.
			",", ";", "/", "html", "text/", "/html", "text/html/x", ";q=1",
			"text/html;q=x", "text/html;q=-1", "text/html;q=NaN", "\x00", "text/html\x00",
		},
		TypeProblem: { // where it is named, at any place
			"application/problem+json", "Application/Problem+JSON", "application/json, application/problem+json",
			"application/problem+json, application/json", "application/json, application/problem+json;q=0.5",
			"application/problem+json, */*;q=0.1", "*/*, application/problem+json",
		},
		TypeHTML: {
			"text/html", "TEXT/HTML", "text/html;charset=utf-8", "text/html ; level=1 ; q=0.7",
			"text/*", "application/problem+json;q=0.5, text/html",
			"text/html, application/json;q=0.9", "application/json;q=0.9, text/html",
			"text/html;q=0.5, */*;q=0.1", "application/json;q=0.1, text/html;q=0.2", "text/html, */*",
			// Browsers that load a page: Firefox, Chrome, an old Edge.
			"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
			"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng," +
				"*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
			"text/html, application/xhtml+xml, image/jxr, */*",
		},
	} {
		for _, accept := range accepts {
			if got := Negotiate(request("/", "Accept: "+accept)); got != want {
				t.Errorf("Accept: %s: %s, want %s", accept, got, want)
			}
		}
	}
	if got := Negotiate(request("/")); got != TypeJSON {
		t.Errorf("without Accept: %s", got)
	}
	// A list may be cut over several lines (RFC 9110, section 5.3).
	if got := Negotiate(request("/", "Accept: application/json;q=0.5", "Accept: text/html")); got != TypeHTML {
		t.Errorf("over two lines: %s, want %s", got, TypeHTML)
	}
}
