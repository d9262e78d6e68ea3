package conn

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// closeTime is how long a WebSocket has to end once it must.
const closeTime = 5 * time.Second

// WebSockets are the WebSockets that pass through the gateway. A server does not
// know of them: their connections were hijacked.
type WebSockets struct {
	mu       sync.Mutex
	taking   int // connections that are being taken over
	open     map[*WebSocket]bool
	deadline time.Time  // when those that are open are cut off; zero while they may stay
	removed  *sync.Cond // tells who waits for the last one
	cut      int        // how many were cut off

	unsent func(net.Conn) int // default Unsent
}

// Hijack makes a WebSocket of the connection that take takes over. It is
// counted before: a server that shuts down does not forget the connection
// before it is known here. It is not locked meanwhile: take waits for what TLS
// is writing, which a client can hold up that does not read. Once it is cut
// off, cancelUpstream ends what goes on beside the client's connection.
func (w *WebSockets) Hijack(take func() (net.Conn, *bufio.ReadWriter, error), cancelUpstream func()) (*WebSocket, *bufio.ReadWriter, error) {
	w.mu.Lock()
	w.taking++
	w.mu.Unlock()
	client, rw, err := take()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taking--
	if err != nil {
		w.signal()
		return nil, nil, err
	}
	s := &WebSocket{Conn: client, cancelUpstream: cancelUpstream, begun: make(chan struct{}), ended: make(chan struct{})}
	if w.open == nil {
		w.open = map[*WebSocket]bool{}
	}
	w.open[s] = true
	if !w.deadline.IsZero() {
		w.end(s)
	}
	return s, rw, nil
}

// SignOut makes a WebSocket end whose login has ended. It has limit for it.
func (w *WebSockets) SignOut(s *WebSocket, limit time.Duration) {
	s.signedOut.Store(true)
	go s.leave(closePolicy, "signed out")
	time.AfterFunc(limit, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.open[s] {
			go s.cut()
		}
	})
}

// Remove forgets a WebSocket whose request is done.
func (w *WebSockets) Remove(s *WebSocket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, s)
	w.signal()
}

// signal tells who waits that there is one less. The caller holds the lock.
func (w *WebSockets) signal() {
	if w.removed != nil {
		w.removed.Signal()
	}
}

// Leave makes all WebSockets end, and those that are yet to come. Each has
// closeTime for it, but none is left after the deadline.
func (w *WebSockets) Leave(deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = deadline
	for s := range w.open {
		w.end(s)
	}
}

// end makes a WebSocket end. The caller holds the lock.
func (w *WebSockets) end(s *WebSocket) {
	go s.leave(closeGoingAway, "")
	w.limit(s, w.rest(s))
}

// limit cuts a WebSocket off when its time is over. A client that has taken
// some of what was unsent before has that time anew: the Close frame comes
// behind it. The caller holds the lock.
func (w *WebSockets) limit(s *WebSocket, before int) {
	time.AfterFunc(min(closeTime, time.Until(w.deadline)), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.open[s] {
			return
		}
		if rest := w.rest(s); rest < before && time.Now().Before(w.deadline) {
			w.limit(s, rest)
			return
		}
		w.cut++
		go s.cut()
	})
}

// rest is how many bytes the client's system has not taken.
func (w *WebSockets) rest(s *WebSocket) int {
	if w.unsent != nil {
		return w.unsent(s.Conn)
	}
	return Unsent(s.Conn)
}

// Wait returns when none is open, and how many had to be cut off.
func (w *WebSockets) Wait() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = sync.NewCond(&w.mu)
	for w.taking+len(w.open) > 0 {
		w.removed.Wait()
	}
	return w.cut
}

// WebSocket is the client's connection of a WebSocket as httputil.ReverseProxy
// uses it: what is written comes from the upstream, what is read goes there.
//
// Once it must end, its client gets a Close frame with the status 1001, or 1008
// if its login has ended, behind a whole frame of the upstream, and nothing
// after it (RFC 6455, section 5.5.1). The client's answer goes to the upstream,
// which so learns the same; of a client that is signed out nothing else does.
type WebSocket struct {
	net.Conn
	cancelUpstream func() // closes the upstream's connection
	begin          sync.Once
	begun          chan struct{} // closed when the header of the 101 was sent, or never will be
	end            sync.Once
	ended          chan struct{} // closed when nothing more comes from the upstream

	mu       sync.Mutex // held while something is written
	toClient frames
	leaving  bool        // it is over behind the frame under way
	farewell []byte      // the Close frame for it
	over     atomic.Bool // the client gets a Close frame, and nothing after it

	toUpstream frames
	signedOut  atomic.Bool // no frame but a Close frame goes to the upstream
	answered   atomic.Bool // the client has sent one
}

// Read implements net.Conn.
func (s *WebSocket) Read(b []byte) (int, error) {
	s.begin.Do(func() { close(s.begun) }) // nothing is copied before the header is sent
	if s.done() {
		return 0, io.EOF
	}
	n, err := s.receive(b)
	if s.toUpstream.closed {
		s.answered.Store(true)
	}
	if err == nil || !s.over.Load() || !s.answered.Load() {
		return n, err
	}
	if n > 0 {
		return n, nil // and the error next time
	}
	// The error ends the upstream's connection too, maybe before it has read
	// what the client said last.
	<-s.ended
	return 0, err
}

// receive reads what may go to the upstream.
func (s *WebSocket) receive(b []byte) (int, error) {
	for {
		n, err := s.Conn.Read(b)
		if !s.signedOut.Load() {
			s.toUpstream.follow(b[:n])
			return n, err
		}
		if n = len(s.toUpstream.onlyClose(b[:n])); n > 0 || err != nil {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (s *WebSocket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over.Load():
		return len(b), nil // an error would cut off the client's answer
	case !s.leaving:
		s.toClient.follow(b)
		return s.Conn.Write(b)
	}
	n, err := s.Conn.Write(b[:s.toClient.next(b)])
	if err != nil {
		return n, err
	}
	s.goodbye()
	return len(b), nil
}

// CloseWrite tells the client that nothing more comes from the upstream.
func (s *WebSocket) CloseWrite() error {
	s.end.Do(func() { close(s.ended) })
	if s.done() {
		return net.ErrClosed // both sides have said goodbye
	}
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// Close implements net.Conn.
func (s *WebSocket) Close() error {
	s.begin.Do(func() { close(s.begun) })
	s.end.Do(func() { close(s.ended) })
	return s.Conn.Close()
}

// cut closes the connection at once. TLS would try for seconds to say so to a
// client that does not read. The upstream's goes too: nobody may look at the
// client's while it does not read.
func (s *WebSocket) cut() {
	s.cancelUpstream()
	Cut(s.Conn)
	s.Close()
}

// done reports whether the handshake of closing is over and the upstream gone.
func (s *WebSocket) done() bool {
	select {
	case <-s.ended:
		return s.over.Load() && s.answered.Load()
	default:
		return false
	}
}

// leave makes it end as soon as the upstream is between two frames, with a
// Close frame of that status and reason.
func (s *WebSocket) leave(status uint16, reason string) {
	<-s.begun
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return
	}
	s.leaving, s.farewell = true, closeFrame(status, reason)
	s.goodbye()
}

// goodbye sends the Close frame if it is time for it. The caller holds the
// lock.
func (s *WebSocket) goodbye() {
	if !s.toClient.between() {
		return
	}
	s.over.Store(true)      // before the client can answer
	if !s.toClient.closed { // by the upstream itself
		// A client that cannot be written to is gone.
		_, _ = s.Conn.Write(s.farewell)
	}
}
