package conn

import (
	"net"
	"net/http"
)

// requests is what a connection over HTTP/1.1 keeps of its requests.
type requests struct {
	header     header
	background background
}

func requestsOn(c net.Conn) requests { return requests{background: background{conn: c}} }

// requestsOf returns what c keeps, or nil.
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
		q.header.begin()
	case http.StateIdle:
		q.header.end()
	case http.StateHijacked:
		q.header.stop()
		q.background.end() // whoever has the connection now reads it
	}
}

// read reads for net/http. While a request is served, one byte is what it asks for in the
// background.
func (q *requests) read(b []byte) (int, error) {
	if len(b) == 1 && q.header.served() {
		return 0, q.background.begin()
	}
	n, err := q.background.read(b)
	q.header.add(b[:n])
	return n, err
}
