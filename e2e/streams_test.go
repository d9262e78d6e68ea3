package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// streamUpstream serves WebSockets, whose messages it notes and echoes, and endless
// downloads.
type streamUpstream struct {
	url      string
	messages sync.Map
	inFlight atomic.Int64
}

func serveStreams(t *testing.T) *streamUpstream {
	t.Helper()
	up := &streamUpstream{}
	up.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		up.inFlight.Add(1)
		defer up.inFlight.Add(-1)
		if r.Header.Get("Upgrade") == "" {
			for err := error(nil); err == nil; _, err = w.Write(make([]byte, 32<<10)) {
			}
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		for {
			_, message, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			up.messages.Store(string(message), true)
			_ = conn.Write(r.Context(), websocket.MessageText, message) // Read reports the end
		}
	})
	return up
}

// end opens a WebSocket and downloads over both protocols with a header, calls logout,
// and returns how long after that the last stream ended. Each client must see that its
// stream was cut off, and nothing may reach the upstream any more.
func (up *streamUpstream) end(t *testing.T, g *instance, name, value string, logout func()) (last time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	clients := map[string]*http.Client{"HTTP/1.1": g.stranger11(), "HTTP/2": g.stranger()}
	ended := make(chan error, streamsOpened) // nil if the stream ended as it should
	for protocol, c := range clients {
		c.Timeout = 0
		q := must(http.NewRequestWithContext(ctx, "GET", g.base+"/download", nil))(t)
		q.Header.Set(name, value)
		answer := must(c.Do(q))(t)
		defer answer.Body.Close()
		if n, err := io.CopyN(io.Discard, answer.Body, 10); answer.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("%s: %d, %d bytes, %v", protocol, answer.StatusCode, n, err)
		}
		go func() {
			if _, err := io.Copy(io.Discard, answer.Body); err == nil {
				ended <- fmt.Errorf("%s: the response looks complete", protocol)
				return
			}
			ended <- nil
		}()
	}
	socket, _, err := websocket.Dial(ctx, g.base+"/socket", &websocket.DialOptions{HTTPClient: clients["HTTP/1.1"], HTTPHeader: http.Header{name: {value}}})
	if err != nil {
		t.Fatalf("%v\n%s", err, g.log)
	}
	defer socket.CloseNow()
	early, late := "early "+value, "late "+value
	noError(t, socket.Write(ctx, websocket.MessageText, []byte(early)))
	if _, echoed, err := socket.Read(ctx); err != nil || string(echoed) != early {
		t.Fatalf("%q, %v", echoed, err)
	}
	go func() {
		_, _, err := socket.Read(ctx)
		var closed websocket.CloseError
		if errors.As(err, &closed) && closed.Code == websocket.StatusPolicyViolation && closed.Reason == "signed out" {
			err = nil
		}
		ended <- err
	}()
	if n := len(ended); n > 0 {
		t.Fatalf("%d streams ended too soon", n)
	}
	logout()
	since := time.Now()
	for range streamsOpened {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	last = time.Since(since)
	_ = socket.Write(ctx, websocket.MessageText, []byte(late)) // it may be closed
	until(t, "the end of all requests to the upstream", func() bool { return up.inFlight.Load() == 0 })
	if _, got := up.messages.Load(late); got {
		t.Error("a message reached the upstream after the end")
	}
	return last
}

// streamsOpened is how many streams end opens.
const streamsOpened = 3

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
			"routes: [{match: /, upstream: app, auth: [session, bearer]}]\n")
		g.run()
	}
	opened := 0
	for _, name := range []string{"Cookie", "Authorization"} {
		took := time.Hour
		for try := 0; try < 5 && took >= time.Second; try++ {
			in := a.signIn(a.stranger(), "alice")
			credential := map[string]string{"Cookie": in.session, "Authorization": in.access}[name]
			took = up.end(t, b, name, credential, func() {
				wantStatus(t, "logout", a.do(a.stranger(), "POST", "/logout", "", name, credential), http.StatusOK)
			})
			opened += streamsOpened
			t.Logf("%s: the last stream on B ended %v after the logout on A", name, took.Round(time.Millisecond))
		}
		if took >= time.Second {
			t.Errorf("%s: the last stream ended %v after the logout", name, took)
		}
	}
	until(t, "all streams in the audit log", func() bool {
		ended := 0
		for _, entry := range b.entriesOf("audit") {
			if entry["event"] == "stream_ended" && entry["subject"] == "local:alice" {
				ended++
			}
		}
		return ended == opened
	})
}
