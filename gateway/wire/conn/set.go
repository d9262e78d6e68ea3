package conn

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

const (
	// goodbyeTime is how long the closing messages of TLS and HTTP/2 may take, and
	// how long a client has to act on a GOAWAY.
	goodbyeTime = 250 * time.Millisecond
	// retryPause is how long a listener waits after accepting has failed.
	retryPause = 100 * time.Millisecond
	// spared is how long a connection is not displaced after it began to wait: it
	// may be in its TLS handshake.
	spared = 100 * time.Millisecond
	// admitTime is how long a new connection waits for another one to be displaced.
	admitTime = time.Second
	// warnEvery is the shortest time between two log lines of a kind.
	warnEvery = time.Minute
)

// Options are the parts of a Set.
type Options struct {
	// Limit is how many connections may be open. To make room for a new one, the
	// Set displaces the one that has waited longest for a request. 0 means no limit.
	Limit  int
	Logger *slog.Logger
	// FreeDescriptors is called when the system has no file descriptor for a new connection,
	// to free some. It may be nil.
	FreeDescriptors func()
}

// Set has the connections of clients. It is safe for concurrent use.
type Set struct {
	options Options
	full    rate.Sometimes // to warn that Limit is reached
	failing rate.Sometimes // to warn that accepting fails
	unsent  func(net.Conn) (n int, known bool)
	buffers Buffers

	mu          sync.Mutex
	open        int
	first, last *connection // the list of those that wait for a request, longest first
	leaving     bool
	until       time.Time  // the end of lingering; zero if connections do not linger
	ending      int        // connections that Wait waits for
	left        *sync.Cond // for Wait: there is one less
	cut         int        // how many were cut off with unsent bytes
}

// NewSet returns an empty Set.
func NewSet(o Options) *Set {
	s := &Set{
		options: o, unsent: unsent,
		full: rate.Sometimes{Interval: warnEvery}, failing: rate.Sometimes{Interval: warnEvery},
	}
	s.left = sync.NewCond(&s.mu)
	return s
}

// Listener is a listener of a Set.
type Listener struct {
	net.Listener
	set    *Set
	open   atomic.Int64
	closed atomic.Int64
}

// Listener returns a listener on l whose connections are in the Set. Listeners of
// other layers go on top of it.
func (s *Set) Listener(l net.Listener) *Listener { return &Listener{Listener: l, set: s} }

// Open returns how many connections of the listener are open.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Displaced returns how many connections were closed to make room, or because
// there was none.
func (l *Listener) Displaced() int { return int(l.closed.Load()) }

// Accept implements net.Listener. It tries again after an error that may pass.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		switch {
		case err == nil:
			c := &connection{set: l.set, listener: l, told: -1,
				Gatherer: Gatherer{Conn: accepted, Buffers: &l.set.buffers}}
			l.open.Add(1)
			if l.set.admit(c) {
				return c, nil
			}
			l.closed.Add(1)
			c.closeNow()
		case passing(err):
			l.set.fail(err)
			time.Sleep(retryPause)
		default:
			return nil, err
		}
	}
}

// passing reports whether accepting may succeed after err. An unknown error is
// final.
func passing(err error) bool {
	var number syscall.Errno
	if errors.Is(err, net.ErrClosed) || !errors.As(err, &number) {
		return false
	}
	return number != syscall.EBADF && number != syscall.EINVAL && number != syscall.ENOTSOCK
}

// fail logs that accepting failed, and frees file descriptors if there are none.
func (s *Set) fail(err error) {
	s.failing.Do(func() {
		s.options.Logger.Warn("the system cannot accept connections at the moment", "error", err.Error())
	})
	if OutOfDescriptors(err) {
		s.mu.Lock()
		closeIt := s.displace()
		s.mu.Unlock()
		if closeIt != nil {
			closeIt()
		}
		if s.options.FreeDescriptors != nil {
			s.options.FreeDescriptors()
		}
	}
}

// admit adds a connection to the Set. It reports false if there is no room within
// admitTime. Later connections wait in the queue of the system.
func (s *Set) admit(c *connection) bool {
	for began := time.Now(); ; {
		pause, closeOther := s.enter(c)
		if closeOther != nil {
			closeOther()
		}
		switch {
		case pause == 0:
			return true
		case time.Since(began) >= admitTime:
			return false
		}
		time.Sleep(pause)
	}
}

// enter adds a connection to the Set, or returns how long to wait before the next
// attempt. closeOther, if not nil, closes the displaced connection.
func (s *Set) enter(c *connection) (pause time.Duration, closeOther func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.options.Limit; limit > 0 && s.open >= limit && !s.leaving {
		s.full.Do(func() {
			s.options.Logger.Warn("the limit of connections is reached: idle ones are closed to make room",
				"limit", limit)
		})
		if s.first == nil {
			return retryPause / 10, nil
		}
		if left := spared - time.Since(s.first.since); left > 0 {
			return left, nil
		}
		closeOther = s.displace()
	}
	s.open++
	c.counted = true
	s.push(c)
	return 0, closeOther
}

// displace dismisses the connection that has waited longest for a request. It
// returns a function that closes it, or nil if none waits. The caller holds the
// lock, but not while it calls the function.
func (s *Set) displace() (closeIt func()) {
	c := s.first
	if c == nil {
		return nil
	}
	c.listener.closed.Add(1)
	return s.dismissal(c)
}

// State is for http.Server.ConnState.
//
// It panics with http.ErrAbortHandler if a request comes on a dismissed
// connection. http.Server then closes the connection without an answer, so that
// the client can send the request again.
func (s *Set) State(outer net.Conn, state http.ConnState) {
	c := under(outer)
	if c == nil {
		return
	}
	if kept := requestsOf(outer); kept != nil {
		kept.follow(state)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		c.outer = outer
		if s.leaving && !c.dismissed {
			s.dismiss(c)
		}
	case http.StateActive:
		if c.dismissed {
			panic(http.ErrAbortHandler)
		}
		s.unlist(c)
		c.told = -1
	case http.StateIdle:
		if !c.served {
			c.served = true
			if _, secure := c.outer.(*tls.Conn); secure && c.http2() {
				c.KeepAll() // tls.Conn.Close sends the kept bytes
			}
		}
		if c.dismissed {
			return
		}
		s.push(c)
		if s.leaving && !c.http2() {
			s.dismiss(c)
		}
	case http.StateHijacked, http.StateClosed:
		c.keep(keepNothing) // the last bytes of a WebSocket must not be cut off with it
		s.unlist(c)
	}
}

// dismiss closes a waiting connection, without waiting for that. The caller holds
// the lock.
func (s *Set) dismiss(c *connection) {
	closeIt := s.dismissal(c)
	s.ending++
	go func() {
		closeIt()
		s.leave(false)
	}()
}

// dismissal makes sure that a waiting connection serves no request any more. It
// returns a function that closes it. The caller holds the lock, but not while it
// calls the function.
func (s *Set) dismissal(c *connection) (closeIt func()) {
	s.unlist(c)
	c.dismissed = true
	n, _ := c.unsent()
	c.flushed = n == 0
	outer := c.outer
	if outer == nil || !c.flushed && !s.leaving { // no layers, or their closing messages would wait for the client
		c.refuseReads()
		return func() { c.closeNow() }
	}
	bound := time.Now().Add(goodbyeTime)
	c.bound.Store(bound.UnixNano())
	_ = c.Conn.SetWriteDeadline(bound) // fails if the connection has gone
	return func() { outer.Close() }
}

// push moves a connection to the end of the list. The caller holds the lock.
func (s *Set) push(c *connection) {
	s.unlist(c)
	c.waits, c.since, c.prev = true, time.Now(), s.last
	if s.last != nil {
		s.last.next = c
	} else {
		s.first = c
	}
	s.last = c
}

// unlist removes a connection from the list. The caller holds the lock.
func (s *Set) unlist(c *connection) {
	if !c.waits {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		s.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		s.last = c.prev
	}
	c.waits, c.prev, c.next = false, nil, nil
}

// remove removes a closed connection from the Set.
func (s *Set) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(c)
	if c.counted {
		s.open--
	}
}
