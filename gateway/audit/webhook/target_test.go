package webhook

import (
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
)

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

// 410 gives up at once.
func TestGone(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusGone), func(t *testing.T, f *fixture) {
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

// A receiver that is no server of HTTP may repeat the request: nothing of the URL gets into the log.
func TestReceiverRepeatsTheURL(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(r.Method + " " + r.RequestURI + " HTTP/1.1\r\n\r\n"))
	}, func(t *testing.T, f *fixture) {
		f.recorder.Record("login")
		synctest.Wait()
		f.expect(0, 0, 0, 1)
		if strings.Contains(f.log.String(), "secret") {
			t.Errorf("the log has the URL: %s", f.log.String())
		}
	})
}

// A receiver that never answers to a handshake holds no connection for longer than a try.
func TestReceiverWithoutHandshake(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	target := newTarget(Receiver{
		URL:     must.Get(url.Parse("https://" + listener.Addr().String()))(t),
		Timeout: 50 * time.Millisecond,
	})
	if _, err := target.send(t.Context(), &message{}); err == nil {
		t.Fatal("the receiver did not answer")
	}
	conn := must.Get(listener.Accept())(t)
	defer conn.Close()
	must.Do(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection is not closed: %v", err)
	}
}
