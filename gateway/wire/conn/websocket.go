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

// closeTime is how long a WebSocket may take to end after its Close frame.
const closeTime = 5 * time.Second

// WebSockets are the WebSockets that pass through the gateway. http.Server does
// not know their connections, because they are hijacked. The zero value is ready
// to use. It is safe for concurrent use.
type WebSockets struct {
	mu        sync.Mutex
	hijacking int // connections that are being hijacked
	open      map[*WebSocket]bool
	deadline  time.Time  // after Leave: when WebSockets are cut off at the latest
	removed   *sync.Cond // for Wait: a WebSocket is gone
	cut       int        // how many were cut off

	buffers sync.Pool // of *[carried]byte, for WebSockets that are busy

	unsent func(net.Conn) int // default unsentBytes
}

// Hijack makes a WebSocket of the connection that hijack returns. Wait waits for
// the WebSocket from the beginning of Hijack on, because http.Server forgets the
// connection within hijack. The caller must call Remove when the request is
// done. cancelUpstream is called when the WebSocket is cut off.
//
// opaque says that the protocol is not that of WebSockets, so nothing can be said in it.
func (w *WebSockets) Hijack(
	hijack func() (net.Conn, *bufio.ReadWriter, error), opaque bool, cancelUpstream func(),
) (*WebSocket, *bufio.ReadWriter, error) {
	w.mu.Lock()
	w.hijacking++
	w.mu.Unlock()
	// Not under the lock: it waits for a write of TLS, which a client that does
	// not read can hold up.
	client, rw, err := hijack()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hijacking--
	if err != nil {
		w.signal()
		return nil, nil, err
	}
	s := &WebSocket{Conn: client, early: buffered(rw.Reader), opaque: opaque, cancelUpstream: cancelUpstream,
		buffers: &w.buffers, begun: make(chan struct{}), ended: make(chan struct{})}
	if w.open == nil {
		w.open = map[*WebSocket]bool{}
	}
	w.open[s] = true
	if !w.deadline.IsZero() {
		w.endWebSocket(s)
	}
	return s, rw, nil
}

// SignOut ends a WebSocket whose login has ended. It cuts the WebSocket off if
// it takes longer than limit.
func (w *WebSockets) SignOut(s *WebSocket, limit time.Duration) {
	s.signedOut.Store(true)
	if s.opaque {
		go s.cut()
		return
	}
	go s.leave(closePolicy, "signed out")
	time.AfterFunc(limit, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.open[s] {
			go s.cut()
		}
	})
}

// Remove removes a WebSocket whose request is done.
func (w *WebSockets) Remove(s *WebSocket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, s)
	w.signal()
}

// signal wakes Wait. The caller holds the lock.
func (w *WebSockets) signal() {
	if w.removed != nil {
		w.removed.Signal()
	}
}

// Leave ends all WebSockets, and those that open later. Each one has closeTime
// for it, but is cut off at the deadline.
func (w *WebSockets) Leave(deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = deadline
	for s := range w.open {
		w.endWebSocket(s)
	}
}

// endWebSocket ends a WebSocket. Another protocol has the time until the deadline. The caller holds the
// lock.
func (w *WebSockets) endWebSocket(s *WebSocket) {
	if s.opaque {
		w.limitUntil(s, 0, time.Until(w.deadline))
		return
	}
	go s.leave(closeGoingAway, "")
	w.limit(s, w.rest(s))
}

// limit cuts a WebSocket off after closeTime, or at the deadline. If the client
// has read some of the unsent bytes by then, closeTime begins anew: the Close
// frame comes after those bytes. The caller holds the lock.
func (w *WebSockets) limit(s *WebSocket, unsent int) {
	w.limitUntil(s, unsent, min(closeTime, time.Until(w.deadline)))
}

func (w *WebSockets) limitUntil(s *WebSocket, unsent int, limit time.Duration) {
	time.AfterFunc(limit, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.open[s] {
			return
		}
		if rest := w.rest(s); rest < unsent && time.Now().Before(w.deadline) {
			w.limit(s, rest)
			return
		}
		w.cut++
		go s.cut()
	})
}

// rest returns the number of unsent bytes.
func (w *WebSockets) rest(s *WebSocket) int {
	if w.unsent != nil {
		return w.unsent(s.Conn)
	}
	return unsentBytes(s.Conn)
}

// Wait waits until no WebSocket is open. It returns how many Leave has cut off.
func (w *WebSockets) Wait() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = sync.NewCond(&w.mu)
	for w.hijacking+len(w.open) > 0 {
		w.removed.Wait()
	}
	return w.cut
}

// WebSocket is the connection of a client that became a WebSocket, for
// httputil.ReverseProxy, which copies from here to the upstream and from the
// upstream to here.
//
// To end it, the gateway sends the client a Close frame after a complete frame
// of the upstream, and nothing after that (RFC 6455, section 5.5.1). The status
// is 1001, or 1008 if the login has ended. The answer of the client goes to the
// upstream, so that it ends too. After the end of the login nothing else of the
// client reaches the upstream.
type WebSocket struct {
	net.Conn
	early          []byte // bytes that the client sent with the request, for the upstream
	opaque         bool   // its protocol is not that of WebSockets
	cancelUpstream func() // closes the upstream's connection
	buffers        *sync.Pool

	begin sync.Once
	begun chan struct{} // closed when the header of the 101 was sent, or never will be
	end   sync.Once
	ended chan struct{} // closed when nothing more comes from the upstream

	mu       sync.Mutex // held during writes
	toClient frames
	leaving  bool        // the Close frame comes after the present frame
	farewell []byte      // the Close frame
	over     atomic.Bool // the Close frame was sent, and nothing comes after it

	toUpstream frames
	signedOut  atomic.Bool // only Close frames go to the upstream
	answered   atomic.Bool // the client has sent a Close frame
}

// Read implements net.Conn.
func (s *WebSocket) Read(b []byte) (int, error) {
	s.begin.Do(func() { close(s.begun) }) // the proxy reads only after it has sent the header
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
		return n, nil // the next Read returns the error
	}
	// After an error the proxy closes the upstream's connection, perhaps before
	// the upstream has read the last frame of the client.
	<-s.ended
	return 0, err
}

// receive reads the bytes that may go to the upstream.
func (s *WebSocket) receive(b []byte) (int, error) {
	for {
		n, err := s.readClient(b)
		if !s.signedOut.Load() {
			if !s.opaque {
				s.toUpstream.follow(b[:n])
			}
			return n, err
		}
		if s.opaque {
			return 0, io.EOF
		}
		if n = len(s.toUpstream.onlyClose(b[:n])); n > 0 || err != nil {
			return n, err
		}
	}
}

// readClient reads from the client. It begins with the bytes that came with the request, which the proxy
// would drop.
func (s *WebSocket) readClient(b []byte) (int, error) {
	if len(s.early) > 0 {
		n := copy(b, s.early)
		s.early = s.early[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}

// buffered takes the bytes that a reader has read ahead.
func buffered(r *bufio.Reader) []byte {
	ahead := make([]byte, r.Buffered())
	_, _ = io.ReadFull(r, ahead) // cannot fail
	return ahead
}

// Write implements net.Conn.
func (s *WebSocket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over.Load():
		return len(b), nil // after an error the proxy would drop the client's answer
	case s.opaque:
		return s.Conn.Write(b)
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

// WriteTo implements io.WriterTo, for bytes of the client.
func (s *WebSocket) WriteTo(upstream io.Writer) (int64, error) { return s.carry(upstream, s) }

// ReadFrom implements io.ReaderFrom, for bytes of the upstream.
func (s *WebSocket) ReadFrom(upstream io.Reader) (int64, error) { return s.carry(s, upstream) }

const (
	// atRest is the length of the buffer with which a WebSocket waits. Most messages fit.
	atRest = 1 << 10
	// carried is the length of the buffer for longer ones.
	carried = 32 << 10
	// busy is how much a read brings while the large buffer pays: with the small one, each record of
	// TLS would be two writes.
	busy = 4 << 10
)

// carry copies from one side to the other until the end, which is no error. Most WebSockets wait most
// of the time, so only one that has more to copy holds a large buffer.
func (s *WebSocket) carry(to io.Writer, from io.Reader) (total int64, err error) {
	small := make([]byte, atRest)
	for err == nil {
		var n int
		n, err = carryOnce(to, from, small)
		total += int64(n)
		if err == nil && n == len(small) {
			var rest int64
			rest, err = s.carryBusy(to, from)
			total += rest
		}
	}
	if err == io.EOF {
		err = nil
	}
	return total, err
}

// carryBusy copies with a large buffer for as long as each read brings much.
func (s *WebSocket) carryBusy(to io.Writer, from io.Reader) (total int64, err error) {
	large, ok := s.buffers.Get().(*[carried]byte)
	if !ok {
		large = new([carried]byte)
	}
	defer s.buffers.Put(large)
	for n := busy; n >= busy && err == nil; {
		n, err = carryOnce(to, from, large[:])
		total += int64(n)
	}
	return total, err
}

// carryOnce copies the bytes of one read. An error of the writer comes before one of the reader.
func carryOnce(to io.Writer, from io.Reader, buffer []byte) (int, error) {
	n, err := from.Read(buffer)
	if n > 0 {
		if written, failed := to.Write(buffer[:n]); failed != nil {
			return written, failed
		}
	}
	return n, err
}

// CloseWrite tells the client that nothing more comes from the upstream.
func (s *WebSocket) CloseWrite() error {
	s.end.Do(func() { close(s.ended) })
	if s.done() {
		return net.ErrClosed
	}
	if half, ok := s.Conn.(halfConn); ok {
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

// cut closes both connections at once. Without cancelUpstream the proxy could
// wait for an upstream that does not read.
func (s *WebSocket) cut() {
	s.cancelUpstream()
	cut(s.Conn)
	s.Close()
}

// done reports whether both sides have sent a Close frame and the upstream has
// gone.
func (s *WebSocket) done() bool {
	select {
	case <-s.ended:
		return s.over.Load() && s.answered.Load()
	default:
		return false
	}
}

// leave ends the WebSocket with a Close frame after the present frame of the
// upstream.
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

// goodbye sends the Close frame if the last frame of the upstream is complete,
// unless that is a Close frame itself. The caller holds the lock.
func (s *WebSocket) goodbye() {
	if !s.toClient.between() {
		return
	}
	s.over.Store(true) // before the client can answer
	if !s.toClient.closed {
		_, _ = s.Conn.Write(s.farewell) // fails if the client has gone
	}
}
