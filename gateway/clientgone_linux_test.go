package gateway

import (
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
	over := make(chan struct{})
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		answer := response(q, http.StatusOK, http.Header{}, "")
		body, feed := io.Pipe()
		go func() { _, _ = io.WriteString(feed, "x") }()
		context.AfterFunc(q.Context(), func() {
			feed.CloseWithError(q.Context().Err())
			close(over)
		})
		answer.Body, answer.ContentLength = body, -1
		return answer, nil
	}
	server := httptest.NewUnstartedServer(r.Gateway)
	server.Config.ConnContext = conn.Context
	connections := conn.NewSet(conn.Options{Logger: r.service.Logger})
	server.Listener = connections.Listener(server.Listener)
	server.Config.ConnState = connections.State
	server.Start()
	defer server.Close()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(client, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\nG")
	if _, err := client.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	look := func() {
		for _, ex := range r.streams.all() {
			if ex.stream.checking.CompareAndSwap(false, true) {
				ex.stream.watch = &watch{} // as if goneEvery had passed
				r.streams.checkOne(t.Context(), ex, time.Now())
				ex.stream.checking.Store(false)
			}
		}
	}
	look()
	select {
	case <-over:
		t.Fatal("the answer ends while its client is there")
	default:
	}
	client.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for hang := time.After(hangs); ; {
		select {
		case <-over:
			return
		case <-hang:
			t.Fatal("the answer goes on")
		case <-tick.C:
			look()
		}
	}
}
