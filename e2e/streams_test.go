package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// streamUpstream serves a WebSocket that takes commands, a stream of events, and
// an endless download.
type streamUpstream struct {
	url string

	mu       sync.Mutex
	commands map[string]bool // that WebSockets were sent
	open     int             // requests in flight
}

func serveStreams(t *testing.T) *streamUpstream {
	t.Helper()
	up := &streamUpstream{commands: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/secure/socket", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		for {
			_, command, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			up.note(string(command))
			_ = conn.Write(r.Context(), websocket.MessageText, command) // Read reports the end
		}
	})
	mux.HandleFunc("/secure/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = io.WriteString(w, "data: tick\n\n") // the context reports the end
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
	})
	mux.HandleFunc("/secure/download", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(int64(1)<<40))
		for b := make([]byte, 32<<10); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up.count(1)
		defer up.count(-1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	up.url = server.URL
	return up
}

func (up *streamUpstream) note(command string) {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.commands[command] = true
}

func (up *streamUpstream) got(command string) bool {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.commands[command]
}

func (up *streamUpstream) count(n int) {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.open += n
}

func (up *streamUpstream) inFlight() int {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.open
}

// openStreams are streams that a test opened with one credential at one gateway.
type openStreams struct {
	t      *testing.T
	up     *streamUpstream
	socket *websocket.Conn
	ended  chan streamEnd
	n      int
}

// streamEnd is how a stream ended for its client.
type streamEnd struct {
	what string
	at   time.Time
	err  error
}

// openAll opens a stream of each kind with a header.
func (up *streamUpstream) openAll(t *testing.T, g *instance, header ...string) *openStreams {
	t.Helper()
	s := &openStreams{t: t, up: up, ended: make(chan streamEnd, 10)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	h1, h2 := g.stranger11(), g.stranger()
	h1.Timeout, h2.Timeout = 0, 0
	var err error
	s.socket, _, err = websocket.Dial(ctx, g.base+"/secure/socket", &websocket.DialOptions{
		HTTPClient: h1, HTTPHeader: http.Header{header[0]: {header[1]}},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, g.log)
	}
	t.Cleanup(func() { _ = s.socket.CloseNow() })
	command := newRequestID()
	if err := s.socket.Write(ctx, websocket.MessageText, []byte(command)); err != nil {
		t.Fatal(err)
	}
	if _, echoed, err := s.socket.Read(ctx); err != nil || string(echoed) != command || !up.got(command) {
		t.Fatalf("%q, %v", echoed, err)
	}
	s.wait("WebSocket", func() error {
		_, _, err := s.socket.Read(ctx)
		return err
	})
	for what, client := range map[string]*http.Client{"events by HTTP/1.1": h1, "events by HTTP/2": h2, "download by HTTP/1.1": h1, "download by HTTP/2": h2} {
		path, _, _ := strings.Cut(what, " ")
		q, err := http.NewRequestWithContext(ctx, "GET", g.base+"/secure/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set(header[0], header[1])
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if n, err := io.CopyN(io.Discard, answer.Body, 10); answer.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("%s: %d, %d bytes, %v", what, answer.StatusCode, n, err)
		}
		s.wait(what, func() error {
			_, err := io.Copy(io.Discard, answer.Body)
			return err
		})
	}
	return s
}

func (s *openStreams) wait(what string, end func() error) {
	s.n++
	go func() {
		err := end()
		s.ended <- streamEnd{what: what, at: time.Now(), err: err}
	}()
}

// goesOn fails the test if a stream has ended.
func (s *openStreams) goesOn() {
	s.t.Helper()
	select {
	case end := <-s.ended:
		s.t.Fatalf("%s ended too soon: %v", end.what, end.err)
	default:
	}
}

// end waits until all streams have ended, and returns how long after since the
// last one did. It fails the test unless every client saw that its stream was cut
// off, and nothing reaches the upstream any more.
func (s *openStreams) end(since time.Time) (last time.Duration) {
	s.t.Helper()
	for range s.n {
		select {
		case end := <-s.ended:
			last = max(last, end.at.Sub(since))
			if end.what == "WebSocket" {
				var closed websocket.CloseError
				if !errors.As(end.err, &closed) || closed.Code != websocket.StatusPolicyViolation || closed.Reason != "signed out" {
					s.t.Errorf("the WebSocket ended with %v", end.err)
				}
			} else if end.err == nil {
				s.t.Errorf("%s: the response looks complete", end.what)
			}
		case <-time.After(patience):
			s.t.Fatal("a stream does not end")
		}
	}
	late := newRequestID()
	_ = s.socket.Write(s.t.Context(), websocket.MessageText, []byte(late)) // it may be closed
	until(s.t, "the end of all requests to the upstream", func() bool { return s.up.inFlight() == 0 })
	if s.up.got(late) {
		s.t.Error("a command reached the upstream after the end")
	}
	return last
}

// TestRedisStreamsEnd: a logout on one instance ends the streams on the other
// within a second, and the other's audit log has each of them. A busy machine
// gets more chances for the measurement.
func TestRedisStreamsEnd(t *testing.T) {
	up := serveStreams(t)
	redis := startRedis(t)
	a, b := prepared(t), prepared(t)
	b.public = a.base
	for _, g := range []*instance{a, b} {
		g.configure(people + "token: {secret: \"01234567890123456789012345678901\"}\n" + app(up.url) + onRedis(redis.Address) +
			"routes: [{match: /secure/, upstream: app, auth: [session, bearer]}]\n")
		g.run()
	}
	opened := 0
	for _, kind := range []string{"session", "token"} {
		took := time.Hour
		for try := 0; try < 5 && took >= time.Second; try++ {
			in := a.signIn(a.stranger(), "alice")
			streams := up.openAll(t, b, in.credentials()[kind]...)
			opened += streams.n
			streams.goesOn()
			if got := a.status(a.stranger(), "POST", "/logout", in.credentials()[kind]...); got != http.StatusOK {
				t.Fatal(got)
			}
			took = streams.end(time.Now())
			t.Logf("%s: the last stream on B ended %v after the logout on A", kind, took.Round(time.Millisecond))
		}
		if took >= time.Second {
			t.Errorf("%s: the last stream ended %v after the logout", kind, took)
		}
	}
	ended := 0
	for _, entry := range b.entriesOf("audit") {
		if entry["event"] == "stream_ended" && entry["subject"] == "local:alice" {
			ended++
		}
	}
	if ended != opened {
		t.Errorf("the audit log has %d of %d streams\n%s", ended, opened, b.log)
	}
}
