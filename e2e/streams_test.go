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

// streamUpstream has a WebSocket that takes commands, a stream of events, and a
// download without end.
type streamUpstream struct {
	url string

	mu       sync.Mutex
	commands map[string]bool // that WebSockets were sent
	open     int             // requests under way
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
			_ = conn.Write(r.Context(), websocket.MessageText, command) // Read tells of its end
		}
	})
	mux.HandleFunc("/secure/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = io.WriteString(w, "data: tick\n\n") // the context tells of the end
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

func (up *streamUpstream) underWay() int {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.open
}

// openStreams are streams that one credential has opened at one gateway.
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

// open opens a stream of each kind with a header.
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

// end waits until all have ended, and returns how long the last one took from
// that time. It fails the test unless each was seen to be cut off and nothing
// reaches the upstream any more.
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
				s.t.Errorf("%s: seems to be whole", end.what)
			}
		case <-time.After(30 * time.Second):
			s.t.Fatal("a stream goes on")
		}
	}
	late := newRequestID()
	_ = s.socket.Write(s.t.Context(), websocket.MessageText, []byte(late)) // it may say that it is closed
	until(s.t, "the upstream's ends", func() bool { return s.up.underWay() == 0 })
	if s.up.got(late) {
		s.t.Error("a command reached the upstream after the end")
	}
	return last
}

// streamsOf is a configuration of streams.
func streamsOf(url string) string {
	return app(url) + "routes: [{match: /secure/, upstream: app, auth: [session, bearer]}]\n"
}

// TestStreamsEnd: streams end with the login, whatever ends it. How soon is
// logged; the bound is proved where the clock is a test's own.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	accounts := func(more string) string { return person("alice", wonderlandHash, more) }
	for name, c := range map[string]struct {
		config string
		by     string // which credential opens them
		end    func(t *testing.T, g *instance, s signIn)
		audit  string
	}{
		"logout": {"", "session", func(t *testing.T, g *instance, s signIn) {
			if got := g.status(g.stranger(), "POST", "/logout", "Cookie", s.session); got != http.StatusOK {
				t.Fatal(got)
			}
		}, "ended session"},
		"logout by token": {"", "token", func(t *testing.T, g *instance, s signIn) {
			if got := g.status(g.stranger(), "POST", "/logout", "Authorization", s.access); got != http.StatusOK {
				t.Fatal(got)
			}
		}, "access token"},
		"account disabled": {"", "session", func(t *testing.T, g *instance, _ signIn) {
			g.write("accounts.yaml", accounts(", disabled: true"))
			until(t, "the reload", func() bool { return strings.Contains(g.log.String(), "reloaded") })
		}, "ended session"},
		"refresh token reused": {"token: {reuse_leeway: 1s}\n", "token", func(t *testing.T, g *instance, s signIn) {
			c := g.stranger()
			if _, got, err := g.tryRefresh(c, s.refresh); err != nil || got != http.StatusOK {
				t.Fatal(got, err)
			}
			until(t, "the reuse to end the login", func() bool {
				if _, got, err := g.tryRefresh(c, s.refresh); err != nil || got != http.StatusUnauthorized {
					t.Fatal(got, err)
				}
				return g.status(c, "GET", "/me", "Authorization", s.access) == http.StatusUnauthorized
			})
		}, "access token"},
		"token expires": {"token: {access_lifetime: 20s}\n", "token", func(t *testing.T, g *instance, s signIn) {
			if _, got, err := g.tryRefresh(g.stranger(), s.refresh); err != nil || got != http.StatusOK { // which ends nothing
				t.Fatal(got, err)
			}
			until(t, "the token to expire", func() bool { return g.status(g.stranger(), "GET", "/me", "Authorization", s.access) == 401 })
		}, "expired"},
		"session expires": {"session: {lifetime: 20s}\n", "session", func(t *testing.T, g *instance, s signIn) {
			until(t, "the session to expire", func() bool { return g.status(g.stranger(), "GET", "/me", "Cookie", s.session) == 401 })
		}, "ended session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := serveStreams(t)
			g := prepared(t)
			g.write("accounts.yaml", accounts(""))
			g.configure("accounts: {file: accounts.yaml}\n" + c.config + streamsOf(up.url))
			g.run()
			in := g.signIn(g.stranger(), "alice")
			streams := up.openAll(t, g, in.credentials()[c.by]...)
			streams.goesOn()
			c.end(t, g, in)
			t.Logf("the last one ended %v after the login", streams.end(time.Now()).Round(time.Millisecond))
			n := 0
			for _, entry := range g.entriesOf("audit") {
				if entry["event"] == "stream_ended" && entry["subject"] == "local:alice" && strings.Contains(fmt.Sprint(entry["reason"]), c.audit) {
					n++
				}
			}
			if n != streams.n {
				t.Errorf("the audit log tells of %d of %d streams\n%s", n, streams.n, g.log)
			}
		})
	}
}

// TestRedisStreamsEnd: a logout on one instance ends the streams on the other,
// within a second. On a machine that is busy with other things the measurement
// has more chances.
func TestRedisStreamsEnd(t *testing.T) {
	up := serveStreams(t)
	redis := startRedis(t)
	a, b := prepared(t), prepared(t)
	b.public = a.base
	for _, g := range []*instance{a, b} {
		g.configure(people + "token: {secret: \"01234567890123456789012345678901\"}\n" + streamsOf(up.url) + onRedis(redis.Address))
		g.run()
	}
	for _, kind := range []string{"session", "token"} {
		var took time.Duration
		for range 5 {
			in := a.signIn(a.stranger(), "alice")
			streams := up.openAll(t, b, in.credentials()[kind]...)
			streams.goesOn()
			if got := a.status(a.stranger(), "POST", "/logout", in.credentials()[kind]...); got != http.StatusOK {
				t.Fatal(got)
			}
			took = streams.end(time.Now())
			t.Logf("%s: the last stream on B ended %v after the logout on A", kind, took.Round(time.Millisecond))
			if took < time.Second {
				break
			}
		}
		if took >= time.Second {
			t.Errorf("%s: the last stream ended %v after the logout", kind, took)
		}
	}
}
