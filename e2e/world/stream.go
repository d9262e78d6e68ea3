package world

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

// Streams serves WebSockets, whose messages it notes and echoes, and endless
// downloads.
type Streams struct {
	URL      string
	messages sync.Map
	InFlight atomic.Int64
}

// ServeStreams starts such an upstream.
func ServeStreams(t testing.TB) *Streams {
	t.Helper()
	up := &Streams{}
	up.URL = Serve(t, func(w http.ResponseWriter, r *http.Request) {
		up.InFlight.Add(1)
		defer up.InFlight.Add(-1)
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

// End opens a WebSocket and downloads over both protocols with a header, calls logout,
// and returns how long after that the last stream ended. Each client must see that its
// stream was cut off, and nothing may reach the upstream any more.
func (up *Streams) End(t testing.TB, g *Instance, name, value string, logout func()) (last time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	clients := map[string]*http.Client{"HTTP/1.1": g.Stranger11(), "HTTP/2": g.Stranger()}
	ended := make(chan error, StreamsOpened) // nil if the stream ended as it should
	for protocol, c := range clients {
		c.Timeout = 0
		q := Must(http.NewRequestWithContext(ctx, "GET", g.Base+"/download", nil))(t)
		q.Header.Set(name, value)
		answer := Must(c.Do(q))(t)
		defer answer.Body.Close()
		if n, err := io.CopyN(io.Discard, answer.Body, 10); answer.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("%s: %d, %d bytes, %v", protocol, answer.StatusCode, n, err)
		}
		go func() { ended <- cutOff(protocol, answer.Body) }()
	}
	socket, _, err := websocket.Dial(ctx, g.Base+"/socket",
		&websocket.DialOptions{HTTPClient: clients["HTTP/1.1"], HTTPHeader: http.Header{name: {value}}})
	if err != nil {
		t.Fatalf("%v\n%s", err, g.Log)
	}
	defer socket.CloseNow()
	early, late := "early "+value, "late "+value
	NoError(t, socket.Write(ctx, websocket.MessageText, []byte(early)))
	if _, echoed, err := socket.Read(ctx); err != nil || string(echoed) != early {
		t.Fatalf("%q, %v", echoed, err)
	}
	go func() { ended <- signedOut(ctx, socket) }()
	if n := len(ended); n > 0 {
		t.Fatalf("%d streams ended too soon", n)
	}
	logout()
	since := time.Now()
	for range StreamsOpened {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	last = time.Since(since)
	_ = socket.Write(ctx, websocket.MessageText, []byte(late)) // it may be closed
	Until(t, "the end of all requests to the upstream", func() bool { return up.InFlight.Load() == 0 })
	if _, got := up.messages.Load(late); got {
		t.Error("a message reached the upstream after the end")
	}
	return last
}

// cutOff waits for the end of a response. It returns an error if the response is whole.
func cutOff(protocol string, body io.Reader) error {
	if _, err := io.Copy(io.Discard, body); err == nil {
		return fmt.Errorf("%s: the response looks complete", protocol)
	}
	return nil
}

// signedOut waits for the end of a WebSocket. It returns an error if the end does not say why.
func signedOut(ctx context.Context, socket *websocket.Conn) error {
	_, _, err := socket.Read(ctx)
	var closed websocket.CloseError
	if errors.As(err, &closed) && closed.Code == websocket.StatusPolicyViolation && closed.Reason == "signed out" {
		return nil
	}
	return err
}

// StreamsOpened is how many streams End opens.
const StreamsOpened = 3
