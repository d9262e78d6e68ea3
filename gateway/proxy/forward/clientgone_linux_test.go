package forward

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"authgate/gateway/wire/conn"
)

// A client that has begun its next request leaves in the middle of an answer that goes
// on in silence. net/http does not notice.
func TestClientGoneAfterAByte(t *testing.T) {
	t.Parallel()
	over, open := make(chan struct{}, 1), make(chan *Request, 1)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-q.Context().Done():
			over <- struct{}{}
		case <-t.Context().Done(): // for a test that fails
		}
	}))
	t.Cleanup(app.Close)
	r := newRig(t, urlKey(app.URL))
	r.sent = func(q *Request) { open <- q }
	server := httptest.NewUnstartedServer(r)
	connections := conn.NewSet(conn.Options{Logger: slog.New(slog.DiscardHandler)})
	server.Listener = connections.Listener(server.Listener)
	server.Config.ConnContext, server.Config.ConnState = conn.Context, connections.State
	server.Start()
	t.Cleanup(server.Close)
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(client, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil { // all that comes, so that no write fails
		t.Fatal(err)
	}
	_, _ = io.WriteString(client, "G")     // net/http reads it, and then no more
	look := (*stream)(<-open).CancelIfGone // as a Set does once a minute
	if look(); len(over) > 0 {
		t.Fatal("the answer ends while its client is there")
	}
	client.Close()
	for until := time.Now().Add(hangs); time.Now().Before(until); look() {
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the answer goes on")
}
