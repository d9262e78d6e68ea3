package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// These tests stop a gateway that WebSockets pass through. What the ends of
// each see is judged by a library, on both sides.

// socketUpstream accepts WebSockets and tells how each of them ended.
type socketUpstream struct {
	url   string
	ended chan error // what reading ended with
}

// acceptSockets is an upstream that does with each WebSocket what serve does,
// until that ends with the error of a Read.
func acceptSockets(t *testing.T, serve func(context.Context, *websocket.Conn) error) *socketUpstream {
	t.Helper()
	up := &socketUpstream{ended: make(chan error, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		conn.SetReadLimit(-1)
		up.ended <- serve(r.Context(), conn)
		_ = conn.CloseNow() // after the answer that the library gave
	}))
	t.Cleanup(server.Close)
	up.url = server.URL
	return up
}

// echo sends back what comes.
func echo(ctx context.Context, conn *websocket.Conn) error {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if err := conn.Write(ctx, kind, message); err != nil {
			return err
		}
	}
}

// stopWithin is a configuration of sockets with these times for a stop.
func stopWithin(url string, delay, timeout time.Duration) string {
	return app(url) + fmt.Sprintf("routes: [{match: /socket, upstream: app, auth: [none]}]\nshutdown_delay: %v\nshutdown_timeout: %v\n", delay, timeout)
}

// socket opens a WebSocket through the gateway.
func (g *instance) socket(ctx context.Context) *websocket.Conn {
	g.t.Helper()
	conn, _, err := websocket.Dial(ctx, g.base+"/socket", &websocket.DialOptions{HTTPClient: g.stranger11()})
	if err != nil {
		g.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	g.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// wentAway fails the test unless so many ends of WebSockets were told 1001.
func wentAway(t *testing.T, who string, ended <-chan error, n int) {
	t.Helper()
	for i := range n {
		select {
		case err := <-ended:
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("%s %d ended with %v, expected status 1001", who, i, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s %d was not ended", who, i)
		}
	}
}

// TestStopWebSockets: WebSockets live on until shutdown_delay is over, new ones
// too, and are then told on both sides that the gateway goes away.
func TestStopWebSockets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	up := acceptSockets(t, echo)
	g := start(t, stopWithin(up.url, 2*time.Second, 20*time.Second))
	conns := []*websocket.Conn{g.socket(ctx), g.socket(ctx), g.socket(ctx)}
	stopped := time.Now()
	g.signal(syscall.SIGTERM)
	g.unready()
	conns = append(conns, g.socket(ctx), g.socket(ctx))
	ended := make(chan error, len(conns))
	for _, conn := range conns {
		message := []byte("still there?")
		if err := conn.Write(ctx, websocket.MessageText, message); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.Read(ctx); err != nil || !bytes.Equal(got, message) {
			t.Fatalf("during the delay: %q, %v", got, err)
		}
		go func() {
			_, _, err := conn.Read(ctx)
			ended <- err
		}()
	}
	wentAway(t, "client", ended, len(conns))
	if after := time.Since(stopped); after < 2*time.Second {
		t.Errorf("the clients were told after %v, within shutdown_delay", after)
	}
	wentAway(t, "upstream", up.ended, len(conns))
	g.ends(5 * time.Second) // nobody has to be waited for
	if n := strings.Count(g.log.String(), `"status":101`); n != len(conns) {
		t.Errorf("the access log has %d WebSockets of %d\n%s", n, len(conns), g.log)
	}
	if strings.Contains(g.log.String(), "cut off") {
		t.Errorf("something was cut off:\n%s", g.log)
	}
}

// stream sends large messages in many fragments until that fails, and counts
// those that were sent.
func stream(ctx context.Context, conn *websocket.Conn) int {
	for n := 0; ; n++ {
		w, err := conn.Writer(ctx, websocket.MessageBinary)
		if err != nil {
			return n
		}
		for part := range 64 {
			if _, err := w.Write(bytes.Repeat([]byte{byte(part)}, 5000+part)); err != nil {
				return n
			}
		}
		if w.Close() != nil {
			return n
		}
	}
}

// receive reads messages of stream until there is an error, and counts those
// that came whole.
func receive(ctx context.Context, t *testing.T, conn *websocket.Conn) (int, error) {
	for n := 0; ; n++ {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return n, err
		}
		for part := range 64 {
			want := bytes.Repeat([]byte{byte(part)}, 5000+part)
			if !bytes.HasPrefix(message, want) {
				t.Errorf("message %d is not as it was sent", n)
				break
			}
			message = message[len(want):]
		}
	}
}

// TestStopBusyWebSockets: in the middle of a flow in both directions nothing is
// garbled: the Close frame comes between two frames.
func TestStopBusyWebSockets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	busy := func(ctx context.Context, conn *websocket.Conn) (int, error) {
		var sending sync.WaitGroup
		sending.Go(func() { stream(ctx, conn) })
		n, err := receive(ctx, t, conn)
		sending.Wait()
		return n, err
	}
	received := make(chan int, 100)
	up := acceptSockets(t, func(ctx context.Context, conn *websocket.Conn) error {
		n, err := busy(ctx, conn)
		received <- n
		return err
	})
	g := start(t, stopWithin(up.url, time.Second, 20*time.Second))
	const clients = 4
	ended := make(chan error, clients)
	for range clients {
		conn := g.socket(ctx)
		go func() {
			n, err := busy(ctx, conn)
			received <- n
			ended <- err
		}()
	}
	g.signal(syscall.SIGTERM)
	wentAway(t, "client", ended, clients)
	wentAway(t, "upstream", up.ended, clients)
	g.ends(10 * time.Second)
	whole := 0
	for range 2 * clients {
		whole += <-received
	}
	if whole < 2*clients {
		t.Errorf("%d messages were received in all: not busy enough", whole)
	}
	t.Logf("%d messages of 322 kB had come by when %d WebSockets were closed", whole, clients)
}

// TestStopRudeWebSockets: a client that does not answer, and one that does not
// even read, are waited for until shutdown_timeout is over, and no longer.
func TestStopRudeWebSockets(t *testing.T) {
	t.Parallel()
	up := acceptSockets(t, func(ctx context.Context, conn *websocket.Conn) error {
		go stream(ctx, conn)
		_, _, err := conn.Read(ctx)
		return err
	})
	g := start(t, stopWithin(up.url, 0, 3*time.Second))
	deaf, mute := g.upgraded(t), g.upgraded(t)
	first := make([]byte, 1)
	if _, err := deaf.Read(first); err != nil { // the flow has begun
		t.Fatal(err)
	}
	heard := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(mute) // it is cut off
		heard <- all
	}()
	stopped := time.Now()
	g.signal(syscall.SIGTERM)
	g.ends(10 * time.Second)
	if took := time.Since(stopped); took < 3*time.Second {
		t.Errorf("the process ended after %v, within shutdown_timeout", took)
	}
	if all := <-heard; !bytes.HasSuffix(all, []byte{0x88, 2, 0x03, 0xe9}) {
		t.Errorf("the last of %d bytes that the mute client got are %x", len(all), all[max(0, len(all)-8):])
	}
	if !strings.Contains(g.log.String(), `"msg":"WebSockets were cut off","count":2`) {
		t.Errorf("that they were cut off is not logged:\n%s", g.log)
	}
	for range 2 {
		if err := <-up.ended; websocket.CloseStatus(err) != -1 {
			t.Errorf("the upstream got a Close frame that nobody has sent: %v", err)
		}
	}
}

// upgraded is a WebSocket by hand, behind the answer to the upgrade.
func (g *instance) upgraded(t *testing.T) io.Reader {
	t.Helper()
	conn := g.dial(t, "http/1.1")
	request := "GET /socket HTTP/1.1\nHost: localhost\nConnection: Upgrade\nUpgrade: websocket\n" +
		"Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"
	if _, err := io.WriteString(conn, crlf(request)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", answer, err)
	}
	return in
}
