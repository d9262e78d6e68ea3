package http2

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// closeAfter is how long the closing message of TLS may take.
const closeAfter = 250 * time.Millisecond

// greeted is a connection that net/http reads. It tells when net/http knows the first frame of the upstream, which
// says how many requests the upstream takes at once (RFC 9113, section 3.4). Until then net/http would take a
// hundred of them. If the upstream takes fewer, these would wait for each other's places until all of them time out.
type greeted struct {
	net.Conn
	below  net.Conn // what carries it: below TLS
	header [9]byte  // of the first frame
	have   int      // bytes of header that have come
	left   int      // bytes of the frame that have not come yet

	once  sync.Once
	done  chan struct{} // closed when known is
	known bool          // the frame is known; else the connection ended first
}

func newGreeted(c, below net.Conn) *greeted {
	return &greeted{Conn: c, below: below, done: make(chan struct{})}
}

// Read implements net.Conn. net/http reads again only when it has acted on the frames that have come.
func (g *greeted) Read(b []byte) (int, error) {
	if g.have == len(g.header) && g.left == 0 {
		g.tell(true)
	}
	n, err := g.Conn.Read(b)
	g.follow(b[:n])
	return n, err
}

// follow notes how much of the first frame has come.
func (g *greeted) follow(b []byte) {
	if g.have < len(g.header) {
		n := copy(g.header[g.have:], b)
		g.have += n
		b = b[n:]
		if g.have < len(g.header) {
			return
		}
		g.left = int(binary.BigEndian.Uint32(g.header[:4]) >> 8)
	}
	g.left -= min(g.left, len(b))
}

func (g *greeted) tell(known bool) {
	g.once.Do(func() {
		g.known = known
		close(g.done)
	})
}

// Close implements net.Conn. An upstream that does not read does not delay it.
func (g *greeted) Close() error {
	defer g.tell(false)
	late := time.AfterFunc(closeAfter, func() { g.below.Close() })
	defer late.Stop()
	return g.Conn.Close()
}
