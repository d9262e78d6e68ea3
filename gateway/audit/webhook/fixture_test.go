package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/audit"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

// call is a request that a receiver got.
type call struct {
	at     time.Time
	header http.Header
	body   string
}

// fixture is a sender with one receiver, which is a server in the bubble of the test.
type fixture struct {
	*Sender
	t        *testing.T
	log      logtest.Buffer
	recorder *audit.Recorder
	receiver Receiver
	registry *prometheus.Registry

	mu     sync.Mutex
	away   bool
	answer http.HandlerFunc
	calls  []call
}

// newFixture returns a fixture whose receiver answers so.
func newFixture(t *testing.T, answer http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{t: t, answer: answer, receiver: Receiver{
		Name: "ops", URL: must.Get(url.Parse("http://127.0.0.1:1/token?key=secret"))(t), Keys: [][]byte{[]byte("key")},
		Timeout: 15 * time.Second,
	}}
	f.registry = prometheus.NewRegistry()
	f.Sender = must.Get(New(slog.New(slog.NewJSONHandler(&f.log, nil)), f.registry, nil))(t)
	f.recorder = audit.NewRecorder(slog.New(slog.DiscardHandler), f.Send)
	f.set(f.receiver)
	return f
}

// inBubble runs a test with a fixture in a bubble, whose time is its own.
func inBubble(t *testing.T, answer http.HandlerFunc, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, answer)
		defer f.Close()
		test(t, f)
	})
}

// set replaces the receivers, and makes connections to new ones lead to the fixture.
func (f *fixture) set(receivers ...Receiver) {
	f.Set(receivers)
	for _, q := range *f.queues.Load() {
		if q.target.transport.DialContext == nil {
			q.target.transport.DialContext = f.dial
		}
	}
}

func (f *fixture) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	go func() {
		_ = (&http.Server{Handler: http.HandlerFunc(f.serve)}).Serve(&oneConn{conn: server})
	}()
	return client, nil
}

// oneConn is a listener that accepts one connection.
type oneConn struct{ conn net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	conn := l.conn
	if l.conn = nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

func (l *oneConn) Close() error { return nil }

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func (f *fixture) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.calls = append(f.calls, call{time.Now(), r.Header, string(body)})
	answer := f.answer
	f.mu.Unlock()
	answer(w, r)
}

// becomes changes how the receiver answers. Without an answer it is away.
func (f *fixture) becomes(answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.away = answer, answer == nil
}

// taken returns the calls since the last one of taken, once nothing moves any more.
func (f *fixture) taken() []call {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// counted returns the counter of a webhook and a result.
func (f *fixture) counted(name, result string) int {
	f.t.Helper()
	for _, family := range must.Get(f.registry.Gather())(f.t) {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel()
			if family.GetName() == "authgate_webhooks_total" && labels[0].GetValue() == name &&
				labels[1].GetValue() == result {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	f.t.Errorf("%s of %s is not counted", result, name)
	return 0
}

// expect compares the counters and the number of lines of the log.
func (f *fixture) expect(sent, failed, dropped, lines int) {
	f.t.Helper()
	synctest.Wait()
	got := func(result string) int { return f.counted("ops", result) }
	if got("sent") != sent || got("failed") != failed || got("dropped") != dropped {
		f.t.Errorf("sent %d, failed %d, dropped %d; want %d, %d, %d",
			got("sent"), got("failed"), got("dropped"), sent, failed, dropped)
	}
	if logged := slices.Collect(f.log.Lines()); len(logged) != lines {
		f.t.Errorf("%d lines of the log, want %d: %q", len(logged), lines, logged)
	}
	if strings.Contains(f.log.String(), "token") || strings.Contains(f.log.String(), "secret") {
		f.t.Errorf("the log has the URL: %s", &f.log)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// hang answers nothing until the request ends.
func hang(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler) // an answer may still reach a client that closes its connection
}

// fields returns the data of a call.
func (c call) fields(t *testing.T) map[string]any {
	t.Helper()
	var body struct {
		Type      string
		Timestamp time.Time
		Data      map[string]any
	}
	must.Do(t, json.Unmarshal([]byte(c.body), &body))
	if body.Type != "audit."+fmt.Sprint(body.Data["event"]) || body.Timestamp.IsZero() {
		t.Errorf("the body %s", c.body)
	}
	return body.Data
}
