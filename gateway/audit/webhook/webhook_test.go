package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
func (l *oneConn) Close() error   { return nil }
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
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

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

// An event is a POST of JSON with all its fields, and with those alone, to the URL. Any 2xx is success.
func TestSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Host+" "+r.Header.Get("Content-Type"))
			w.WriteHeader(299)
		})
		defer f.Close()
		f.recorder.Record("login", slog.String("subject", "local:a\x1b\"b"), slog.String("reason", ""),
			slog.Any("roles", []string{"x"}), slog.Int("seq", 7), slog.String("mac", "00"))
		calls := f.taken()
		if len(calls) != 1 || asked[0] != "POST /token?key=secret 127.0.0.1:1 application/json" {
			t.Fatalf("%d calls: %q", len(calls), asked)
		}
		want := `{"type":"audit.login","timestamp":"2000-01-01T00:00:00Z","data":{"event":"login",` +
			`"subject":"local:a\\x1b\"b","roles":["x"],"seq":7,"mac":"00"}}`
		if calls[0].body != want {
			t.Errorf("the body %s, want %s", calls[0].body, want)
		}
		if id := calls[0].header.Get("webhook-id"); len(id) < 24 || strings.Contains(id, ".") {
			t.Errorf("the id %q", id)
		}
		f.expect(1, 0, 0, 0)
	})
}

// Each secret signs id.timestamp.body with HMAC-SHA256; signatures have spaces between them. The first is the
// example of Standard Webhooks.
func TestSign(t *testing.T) {
	t.Parallel()
	m := &message{"msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`)}
	example := must.Get(base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	got := sign([][]byte{example, []byte("another")}, m, "1614265330")
	first, second, two := strings.Cut(got, " ")
	if first != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" || !two || second == first ||
		!strings.HasPrefix(second, "v1,") {
		t.Errorf("the signatures %q", got)
	}
}

// A failure is tried again after about 5 s, 30 s, 2 min, 10 min, 1 h, 6 h and 24 h, with the same id, body and a
// new timestamp, and is then given up. The log has one line, until there was a success.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		defer f.Close()
		f.recorder.Record("login")
		time.Sleep(48 * time.Hour)
		calls := f.taken()
		if len(calls) != 8 {
			t.Fatalf("%d tries, want 8", len(calls))
		}
		for i, want := range pauses() {
			pause := calls[i+1].at.Sub(calls[i].at)
			if pause < want*9/10 || pause > want*11/10 {
				t.Errorf("pause %d is %v, want about %v", i, pause, want)
			}
			first, next := calls[0], calls[i+1]
			if next.header.Get("webhook-id") != first.header.Get("webhook-id") || next.body != first.body {
				t.Errorf("try %d has another id or body", i+1)
			}
			if at := fmt.Sprint(next.at.Unix()); next.header.Get("webhook-timestamp") != at {
				t.Errorf("the timestamp %s, want %s", next.header.Get("webhook-timestamp"), at)
			}
			if next.header.Get("webhook-signature") == first.header.Get("webhook-signature") {
				t.Error("the signature is that of another time")
			}
		}
		f.expect(0, 1, 0, 1)
		line := f.log.Last(t, "a webhook failed")
		if line["name"] != "ops" || line["host"] != "127.0.0.1:1" || line["reason"] != "the answer has the status 500" {
			t.Errorf("the log has %v", line)
		}
		f.becomes(status(http.StatusNoContent))
		f.recorder.Record("login")
		f.expect(1, 1, 0, 1)
		f.becomes(status(http.StatusInternalServerError))
		f.recorder.Record("login")
		f.expect(1, 1, 0, 2)
	})
}

// The pauses are not the same for all events.
func TestRetriesVary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		defer f.Close()
		for range 20 {
			f.recorder.Record("login")
		}
		start := time.Now()
		time.Sleep(10 * time.Second)
		different := map[time.Duration]bool{}
		for _, c := range f.taken()[20:] {
			different[c.at.Sub(start)] = true
		}
		if len(different) < 10 {
			t.Errorf("%d different pauses", len(different))
		}
	})
}

// A longer Retry-After holds, in seconds and as a date, and a shorter one does not.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field     func() string
		low, high time.Duration
	}{
		{func() string { return "90" }, 90 * time.Second, 90 * time.Second},
		{func() string { return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat) }, time.Hour, time.Hour},
		{func() string { return "1" }, 4500 * time.Millisecond, 5500 * time.Millisecond},
		{func() string { return "-7" }, 4500 * time.Millisecond, 5500 * time.Millisecond},
		{func() string { return "99999999999999999999" }, 4500 * time.Millisecond, 5500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.field())
				w.WriteHeader(http.StatusTooManyRequests)
			})
			defer f.Close()
			f.recorder.Record("login")
			time.Sleep(c.high + time.Second)
			calls := f.taken()
			if len(calls) != 2 {
				t.Fatalf("%s: %d tries, want 2", c.field(), len(calls))
			}
			if pause := calls[1].at.Sub(calls[0].at); pause < c.low || pause > c.high {
				t.Errorf("%s: the pause is %v", c.field(), pause)
			}
		})
	}
}

// 410 gives up at once.
func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusGone))
		defer f.Close()
		f.recorder.Record("login")
		time.Sleep(48 * time.Hour)
		if calls := f.taken(); len(calls) != 1 {
			t.Errorf("%d tries, want 1", len(calls))
		}
		f.expect(0, 1, 0, 1)
	})
}

// A redirect is a failure, and nothing is sent to where it leads.
func TestReceiverRedirects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
		})
		defer f.Close()
		f.recorder.Record("login")
		if calls := f.taken(); len(calls) != 1 {
			t.Errorf("%d requests, want 1", len(calls))
		}
		f.expect(0, 0, 0, 1)
	})
}

// Of an answer at most 4 KiB are read, and the status alone decides.
func TestReceiverWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		written := 0
		f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil && written < 1<<20; written++ {
				if _, err = w.Write([]byte{'x'}); err == nil {
					err = http.NewResponseController(w).Flush()
				}
			}
		})
		defer f.Close()
		f.recorder.Record("login")
		f.expect(1, 0, 0, 0)
		if written < 1000 || written > 3*maxAnswer { // the connection has buffers
			t.Errorf("the receiver could write %d bytes", written)
		}
	})
}

// A receiver that hangs is a failure after the timeout. A receiver that is away is one too, and gets the events
// when it comes back.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, hang)
		defer f.Close()
		f.recorder.Record("login")
		time.Sleep(14 * time.Second)
		f.expect(0, 0, 0, 0)
		time.Sleep(2 * time.Second)
		f.expect(0, 0, 0, 1)
		if reason := f.log.Last(t, "a webhook failed")["reason"]; reason != "no answer within 15s" {
			t.Errorf("the reason %v", reason)
		}
		f.becomes(nil)
		f.recorder.Record("logout")
		f.expect(0, 0, 0, 1)
		f.becomes(status(http.StatusOK))
		f.taken()
		time.Sleep(time.Minute)
		if calls := f.taken(); len(calls) != 2 {
			t.Errorf("%d calls after the receiver came back, want 2", len(calls))
		}
		f.expect(2, 0, 0, 1)
	})
}

// What waits between two tries holds up no later event, and what hangs does for a second at most.
func TestHoldsUpNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		defer f.Close()
		f.recorder.Record("login")
		f.taken()
		f.becomes(status(http.StatusOK))
		f.recorder.Record("logout")
		f.expect(1, 0, 0, 1)
		f.becomes(hang)
		for range 5 {
			f.recorder.Record("denied")
		}
		time.Sleep(4500 * time.Millisecond)
		if hanging := len(f.taken()); hanging < 6 {
			t.Errorf("%d requests are under way", hanging)
		}
		f.becomes(status(http.StatusOK))
		f.recorder.Record("session")
		time.Sleep(time.Second)
		if calls := f.taken(); len(calls) == 0 || calls[0].fields(t)["event"] != "session" {
			t.Errorf("the calls %v", calls)
		}
	})
}

// While the receiver answers in time, events arrive one after the other and in their order. To a receiver that
// hangs at most 16 requests are under way.
func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int32
		f := newFixture(t, func(http.ResponseWriter, *http.Request) {
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(500 * time.Millisecond)
			at.Add(-1)
		})
		defer f.Close()
		for i := range 100 {
			f.recorder.Record("login", slog.Int("number", i))
		}
		time.Sleep(time.Minute)
		for i, c := range f.taken() {
			if c.fields(t)["number"] != float64(i) {
				t.Fatalf("event %v is number %d", c.fields(t)["number"], i)
			}
		}
		f.expect(100, 0, 0, 0)
		if most.Load() != 1 {
			t.Errorf("%d requests at once", most.Load())
		}
		f.becomes(hang)
		for range 100 {
			f.recorder.Record("login")
		}
		time.Sleep(14*time.Second + 500*time.Millisecond)
		if calls := len(f.taken()); calls < 10 || calls > maxAtOnce {
			t.Errorf("%d requests are under way", calls)
		}
	})
}

// Of 10,000 events at once, 1,000 wait and the new ones are dropped, also while they wait for another try. They
// take bounded memory, and all that wait arrive when the receiver is back.
func TestBurstOfEvents(t *testing.T) { // not parallel: it measures memory
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, hang)
		defer f.Close()
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := heap()
		for i := range 10_000 {
			f.recorder.Record("denied", slog.Int("number", i), slog.String("reason", strings.Repeat("x", 1000)))
		}
		f.expect(0, 0, 9000, 1)
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("10,000 events take %d bytes", grown)
		}
		f.becomes(status(http.StatusInternalServerError))
		time.Sleep(16 * time.Second)
		f.recorder.Record("denied")
		f.expect(0, 0, 9001, 1)
		f.becomes(status(http.StatusOK))
		f.taken()
		time.Sleep(time.Hour)
		f.expect(1000, 0, 9001, 1)
		for _, c := range f.taken() {
			if c.fields(t)["number"].(float64) >= 1000 {
				t.Fatal("a new event took the place of one that waited")
			}
		}
		f.recorder.Record("denied")
		f.expect(1001, 0, 9001, 1)
	})
}

// Nothing waits for a webhook: neither the event nor a reload; a stop ends what hangs after two seconds. What
// waits then is lost, counted and logged.
func TestStopWithEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		start := time.Now()
		f.recorder.Record("login")
		synctest.Wait()
		f.becomes(hang)
		for range 9 {
			f.recorder.Record("logout")
		}
		synctest.Wait()
		f.set(f.receiver)
		if took := time.Since(start); took > 0 {
			t.Errorf("events or a reload took %v", took)
		}
		f.Close()
		if took := time.Since(start); took != endTime {
			t.Errorf("the stop took %v", took)
		}
		f.expect(0, 0, 10, 2)
		line := f.log.Last(t, "events for a webhook are lost: the gateway stops, or has this webhook no more")
		if line["name"] != "ops" || line["events"] != 10.0 {
			t.Errorf("the log has %v", line)
		}
		f.recorder.Record("login")
		time.Sleep(48 * time.Hour)
		f.expect(0, 0, 10, 2)
	})
}

// A stop still sends what is due, and does not wait if nothing is.
func TestStopSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) })
		for range 10 {
			f.recorder.Record("login")
		}
		start := time.Now()
		f.Close()
		if took := time.Since(start); took != time.Second {
			t.Errorf("the stop took %v", took)
		}
		f.expect(10, 0, 0, 0)
	})
}

// A reload keeps what waits for a webhook of the same name, which is then sent as the new configuration says. What
// waits for a webhook that is there no more is lost, and the reload does not wait for it.
func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		defer f.Close()
		f.recorder.Record("login")
		f.expect(0, 0, 0, 1)
		same, other := f.receiver, f.receiver
		same.URL = must.Get(url.Parse(same.URL.String()))(t)
		other.Name = "other"
		f.set(same, other)
		f.becomes(status(http.StatusOK))
		time.Sleep(10 * time.Second)
		f.expect(1, 0, 0, 1)

		f.becomes(hang)
		f.recorder.Record("login")
		synctest.Wait()
		f.becomes(status(http.StatusOK))
		changed := f.receiver
		changed.URL = must.Get(url.Parse("http://127.0.0.1:1/new"))(t)
		changed.Events = []string{"logout"}
		f.set(changed)
		f.recorder.Record("login")
		f.expect(1, 0, 0, 1) // the line of other comes later
		f.taken()
		time.Sleep(time.Minute)
		f.expect(2, 0, 0, 3)
		if dropped := f.counted("other", "dropped"); dropped != 1 {
			t.Errorf("%d events of the other webhook are dropped", dropped)
		}
	})
}

// A failure of a webhook that has changed is logged again.
func TestReloadLogsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		defer f.Close()
		for _, lines := range []int{1, 1} {
			f.recorder.Record("login")
			f.expect(0, 0, 0, lines)
			f.set(f.receiver)
		}
		changed := f.receiver
		changed.Keys = [][]byte{[]byte("other")}
		f.set(changed)
		f.recorder.Record("login")
		f.expect(0, 0, 0, 2)
	})
}

// A webhook gets the events that it lists alone, whatever the level of the log.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusOK))
		defer f.Close()
		f.receiver.Events = []string{"login", "denied"}
		f.set(f.receiver)
		for _, event := range []string{"login", "logout", "denied"} {
			f.recorder.Record(event)
		}
		if calls := f.taken(); len(calls) != 2 || calls[1].fields(t)["event"] != "denied" {
			t.Errorf("the calls %v", calls)
		}
		f.expect(2, 0, 0, 0)
	})
}

// Without receivers an event is not encoded, and a nil sender does nothing.
func TestNone(t *testing.T) { // not parallel: it measures memory
	s := must.Get(New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), nil))(t)
	event := slog.NewRecord(time.Now(), slog.LevelInfo, audit.Message, 0)
	event.AddAttrs(slog.String("event", "login"))
	if n := testing.AllocsPerRun(100, func() { s.Send(event) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Sender
	none.Set(nil)
	none.Close()
}
