package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"authgate/gateway/conn"
)

// A client that has begun its next request leaves in the middle of an answer that goes
// on in silence. net/http does not notice.
func TestClientGoneAfterAByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	over := make(chan struct{}, 1)
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		answer := response(q, http.StatusOK, http.Header{}, "")
		body, feed := io.Pipe()
		go func() { _, _ = io.WriteString(feed, "x") }()
		context.AfterFunc(q.Context(), func() {
			feed.CloseWithError(q.Context().Err())
			over <- struct{}{}
		})
		context.AfterFunc(t.Context(), func() { feed.Close() }) // for a test that fails
		answer.Body, answer.ContentLength = body, -1
		return answer, nil
	}
	open := make(chan *exchange, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ex := r.begin(w, q)
		open <- ex
		defer ex.finish()
		if err := ex.serve(); err != nil {
			ex.fail(err)
		}
	}))
	connections := conn.NewSet(conn.Options{Logger: r.service.Logger})
	server.Listener, server.Config.ConnContext, server.Config.ConnState = connections.Listener(server.Listener), conn.Context, connections.State
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
	_, _ = io.WriteString(client, "G") // net/http reads it, and then no more
	ex := <-open
	if ex.CancelIfGone(); len(over) > 0 {
		t.Fatal("the answer ends while its client is there")
	}
	client.Close()
	for until := time.Now().Add(hangs); time.Now().Before(until); ex.CancelIfGone() {
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the answer goes on")
}
