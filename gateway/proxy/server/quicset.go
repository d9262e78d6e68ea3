package server

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/time/rate"
)

const (
	// sparedQUIC is how long a connection is not displaced after it began to wait
	// for a request: the last answer may be on its way.
	sparedQUIC = time.Second
	// quietTime is how long nothing moves on a connection of which the client has
	// everything, at least.
	quietTime = 250 * time.Millisecond
	// lingerTime is how long a connection without requests may take to get there.
	lingerTime = 5 * time.Second
)

// quicSet has the connections over QUIC. It bounds how many there are, and for
// how long they serve nothing: these have no file descriptors, and http3.Server
// does not notice a client that begins a request and never ends its header. It
// is safe for concurrent use.
type quicSet struct {
	limit    int
	idleTime time.Duration // how long a connection may serve no request
	logger   *slog.Logger
	full     rate.Sometimes // to warn that limit is reached

	mu        sync.Mutex
	open      int
	displaced int
	waiting   list.List       // of *quicClient that serve no request, longest first
	leaving   context.Context // nil before leave
}

// quicConn has the methods of a *quic.Conn that a quicSet needs.
type quicConn interface {
	Context() context.Context // ends with the connection
	CloseWithError(quic.ApplicationErrorCode, string) error
	ConnectionStats() quic.ConnectionStats
}

// quicClient is one connection, or the attempt of a client to open one.
type quicClient struct {
	conn   quicConn  // nil until accepted
	active int       // requests in flight
	since  time.Time // when it began to wait
	place  *list.Element
	idle   *time.Timer // closes it if it waits for too long
}

func newQUICSet(limit int, idleTime time.Duration, logger *slog.Logger) *quicSet {
	return &quicSet{limit: limit, idleTime: idleTime, logger: logger, full: rate.Sometimes{Interval: time.Minute}}
}

// Open returns how many connections there are, handshakes included.
func (s *quicSet) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Displaced returns how many were closed to make room, or refused because there
// was none.
func (s *quicSet) Displaced() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.displaced
}

var errTooManyClients = errors.New("there are too many connections")

// clientKey is the key of a *quicClient in the context of its connection.
type clientKey struct{}

// attempt is for quic.Transport.ConnContext: a client wants to connect. ctx ends
// with the connection.
func (s *quicSet) attempt(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && s.open >= s.limit {
		s.full.Do(func() {
			s.logger.Warn("the limit of connections over QUIC is reached: idle ones are closed to make room",
				"limit", s.limit)
		})
		s.displaced++
		if !s.displace() {
			return nil, errTooManyClients
		}
	}
	s.open++
	c := &quicClient{}
	context.AfterFunc(ctx, func() { s.remove(c) })
	return context.WithValue(ctx, clientKey{}, c), nil
}

// displace closes the connection that has waited longest, if one has waited for
// long enough. The caller holds the lock.
func (s *quicSet) displace() bool {
	first := s.waiting.Front()
	if first == nil {
		return false
	}
	c := first.Value.(*quicClient)
	if time.Since(c.since) < sparedQUIC {
		return false
	}
	s.unlist(c)
	go c.close()
	return true
}

// accept notes that a connection is ready for requests.
func (s *quicSet) accept(accepted quicConn) {
	c := clientOf(accepted.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	c.conn = accepted
	c.idle = time.AfterFunc(s.idleTime, func() { s.expire(c) })
	s.wait(c)
}

// beginRequest notes a request, and endRequest its end.
func (s *quicSet) beginRequest(c *quicClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.active++
	s.unlist(c)
}

func (s *quicSet) endRequest(c *quicClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.active--; c.active == 0 {
		s.wait(c)
	}
}

// wait adds a connection that serves no request to the list. The caller holds the
// lock.
func (s *quicSet) wait(c *quicClient) {
	if c.conn.Context().Err() != nil {
		return
	}
	c.since, c.place = time.Now(), s.waiting.PushBack(c)
	c.idle.Reset(s.idleTime)
	if s.leaving != nil {
		go s.dismiss(s.leaving, c)
	}
}

// unlist removes a connection from the list. The caller holds the lock.
func (s *quicSet) unlist(c *quicClient) {
	if c.place != nil {
		s.waiting.Remove(c.place)
		c.place = nil
	}
}

// remove removes a closed connection from the set.
func (s *quicSet) remove(c *quicClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.unlist(c)
	if c.idle != nil {
		c.idle.Stop()
	}
}

// waits reports whether a connection serves no request.
func (s *quicSet) waits(c *quicClient) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.place != nil
}

// expire closes a connection that has waited for s.idleTime.
func (s *quicSet) expire(c *quicClient) {
	s.mu.Lock()
	over := c.place != nil && time.Since(c.since) >= s.idleTime
	s.mu.Unlock()
	if over {
		c.close()
	}
}

// leave closes the connections that serve no request now or later, until ctx
// ends.
func (s *quicSet) leave(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = ctx
	for e := s.waiting.Front(); e != nil; e = e.Next() {
		go s.dismiss(ctx, e.Value.(*quicClient))
	}
}

// dismiss closes a connection that serves no request once nothing moves on it:
// then its client has the last answer and the GOAWAY. Bytes that are unsent or
// lost when a connection over QUIC is closed never arrive.
func (s *quicSet) dismiss(ctx context.Context, c *quicClient) {
	ctx, cancel := context.WithTimeout(ctx, lingerTime)
	defer cancel()
	before := c.conn.ConnectionStats()
	for {
		select {
		case <-c.conn.Context().Done(): // the client has closed it
			return
		case <-ctx.Done():
			if s.waits(c) {
				c.close()
			}
			return
		case <-time.After(max(quietTime, 4*before.SmoothedRTT)): // a lost packet is sent again before
		}
		if !s.waits(c) {
			return // until its next request ends
		}
		now := c.conn.ConnectionStats()
		if now.PacketsSent == before.PacketsSent && now.PacketsReceived == before.PacketsReceived {
			c.close()
			return
		}
		before = now
	}
}

// close closes the connection, and waits for that.
func (c *quicClient) close() {
	// It fails if the connection has gone.
	_ = c.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

func clientOf(ctx context.Context) *quicClient {
	c, _ := ctx.Value(clientKey{}).(*quicClient)
	return c
}

// http3Handler serves requests over HTTP/3 with the handler of the others.
type http3Handler struct {
	next    http.Handler
	clients *quicSet
}

// ServeHTTP implements http.Handler.
func (h *http3Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client := clientOf(r.Context())
	h.clients.beginRequest(client)
	defer h.clients.endRequest(client)
	answer := &http3Answer{ResponseWriter: w, header: http.Header{}}
	if err := answer.receive(r); err != nil {
		panic(http.ErrAbortHandler) // the stream is reset, as after half a header
	}
	h.next.ServeHTTP(answer, r)
	answer.finish(r)
}
