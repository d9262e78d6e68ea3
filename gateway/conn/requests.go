package conn

import "net"

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

// read reads for net/http. While a request is served, one byte is what it asks for in the
// background.
func (q *requests) read(b []byte) (int, error) {
	if len(b) == 1 && q.header.served() {
		q.background.begin()
		return 0, nil
	}
	n, err := q.background.read(b)
	q.header.add(b[:n])
	return n, err
}
