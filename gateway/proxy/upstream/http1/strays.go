package http1

import (
	"bytes"
	"sync/atomic"
	"time"
)

// Strays remembers whether an upstream has sent bytes that belong to no response. The
// clients of an upstream share it. It is safe for concurrent use.
//
// Such an upstream and the gateway disagree about where a request or a response ends. It
// may have read the body of a client's request as a request of the gateway (RFC 9112,
// section 11.2), or its responses may be longer than they say. From then on, each
// connection rests after every response, and each request with a body has a connection of
// its own.
type Strays struct {
	Report func() // called at the first ones; may be nil
	seen   atomic.Bool
}

// Seen reports whether there were such bytes.
func (s *Strays) Seen() bool { return s.seen.Load() }

func (s *Strays) note() {
	if !s.seen.Swap(true) && s.Report != nil {
		s.Report()
	}
}

// strayWait bounds how long discard waits for the rest of bytes that have begun to come.
const strayWait = 10 * time.Millisecond

// discard closes an idle connection that failed its check, and notes why.
func (c *Client) discard(k *conn) {
	if k.strays() {
		c.strays.note()
	}
	k.Close()
}

// strays reports whether bytes of no response have come on an idle connection. A 408 is
// how some servers say that they close it (RFC 9110, section 15.5.9).
func (k *conn) strays() bool {
	const timeout = "HTTP/1.1 408"
	k.limited.N = maxHeader
	if k.SetReadDeadline(time.Now().Add(strayWait)) != nil {
		return false // closed
	}
	come, _ := k.br.Peek(len(timeout)) // fewer if it has ended
	return len(come) > 0 && !bytes.Equal(come, []byte(timeout))
}
