package conn

import (
	"net"
	"net/http"
)

// requests is the state that a connection over HTTP/1.1 keeps of its requests.
type requests struct {
	header     header
	background background
}

func requestsOn(c net.Conn) requests { return requests{background: background{conn: c}} }

// requestsOf returns the requests of c, or nil.
func requestsOf(c net.Conn) *requests {
	if k, ok := c.(interface{ kept() *requests }); ok {
		return k.kept()
	}
	return nil
}

func (q *requests) kept() *requests { return q }

// follow is called when net/http goes on to another state.
func (q *requests) follow(state http.ConnState) {
	switch state {
	case http.StateActive:
		q.header.beginRequest()
	case http.StateIdle:
		q.header.endRequest()
	case http.StateHijacked:
		q.header.stop()
		q.background.endWatch() // whoever has the connection now reads it
	}
}

// readAndKeep reads for net/http. While a request is served, net/http asks for one byte
// in the background.
func (q *requests) readAndKeep(b []byte) (int, error) {
	if len(b) == 1 && q.header.served() {
		return 0, q.background.beginWatch()
	}
	n, err := q.background.readAfterWatch(b)
	q.header.add(b[:n])
	return n, err
}
