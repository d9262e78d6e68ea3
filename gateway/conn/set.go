package conn

import (
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
	// goodbyeTime is for what TLS and HTTP/2 have to say to a client that waits,
	// and for the client to heed a GOAWAY.
	goodbyeTime = 250 * time.Millisecond
	// retryPause is how long a listener waits before it accepts again after the
	// system failed to.
	retryPause = 100 * time.Millisecond
	// spared is how long a connection may wait for a request before it has to
	// give way: it may just shake hands.
	spared = 100 * time.Millisecond
	// admitTime is how long a connection waits for one to give way.
	admitTime = time.Second
	// warnEvery is how often at most the log says the same of connections.
	warnEvery = time.Minute
)

// Options are the parts of a Set.
type Options struct {
	// Limit is how many connections there may be at once. To make room for
	// another one, the Set closes the one that has waited for a request longest.
	// 0: no limit.
	Limit  int
	Logger *slog.Logger
	// Short is called when the system has no file descriptor for a connection,
	// and frees those that are not needed; nil: nothing.
	Short func()
}

// Set are the connections of clients. It is safe for concurrent use.
type Set struct {
	options Options
	full    rate.Sometimes // warnings that Limit is reached
	failing rate.Sometimes // warnings that accepting fails
	unsent  func(net.Conn) (n int, known bool)

	mu          sync.Mutex
	open        int
	first, last *Conn // those that wait for a request, longest first
	leaving     bool
	until       time.Time  // when connections stop lingering; zero: they don't linger
	ending      int        // connections that linger, or that Leave closes
	left        *sync.Cond // tells that there is one less
	cut         int        // how many had something to send at the end
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

// Listener is a listener whose connections are in a Set.
type Listener struct {
	net.Listener
	set    *Set
	open   atomic.Int64
	closed atomic.Int64
}

// Listener returns l with its connections in the Set. The listeners of other
// layers go around it, not under it.
func (s *Set) Listener(l net.Listener) *Listener { return &Listener{Listener: l, set: s} }

// Open returns how many connections of the listener are open.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Displaced returns how many connections were closed because there were too
// many.
func (l *Listener) Displaced() int { return int(l.closed.Load()) }

// Accept implements net.Listener. Where the system fails for the moment, it
// tries again.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		switch {
		case err == nil:
			c := &Conn{Conn: accepted, set: l.set, listener: l, told: -1}
			l.open.Add(1)
			if l.set.admit(c) {
				return c, nil
			}
			l.closed.Add(1)
			c.end()
		case passing(err):
			l.set.fail(err)
			time.Sleep(retryPause)
		default:
			return nil, err
		}
	}
}

// passing reports whether accepting a connection may succeed later. What is
// not known to pass is an end.
func passing(err error) bool {
	var number syscall.Errno
	if errors.Is(err, net.ErrClosed) || !errors.As(err, &number) {
		return false
	}
	return number != syscall.EBADF && number != syscall.EINVAL && number != syscall.ENOTSOCK
}

// fail makes room where there were no file descriptors, and says so.
func (s *Set) fail(err error) {
	s.failing.Do(func() {
		s.options.Logger.Warn("the system cannot accept connections for the moment", "error", err.Error())
	})
	if Short(err) {
		s.mu.Lock()
		closeIt := s.displace()
		s.mu.Unlock()
		if closeIt != nil {
			closeIt()
		}
		if s.options.Short != nil {
			s.options.Short()
		}
	}
}

// admit puts a connection into the Set. It reports false if there is no room
// for it within admitTime. Those that come behind it wait in the system's queue.
func (s *Set) admit(c *Conn) bool {
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

// enter puts a connection into the Set, or says when to try again. What it
// returns besides closes the one that gives way.
func (s *Set) enter(c *Conn) (pause time.Duration, closeOther func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.options.Limit; limit > 0 && s.open >= limit && !s.leaving {
		s.full.Do(func() {
			s.options.Logger.Warn("there are as many connections as file descriptors allow: those that wait longest are closed to make room",
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

// displace takes out the connection that has waited for a request longest. It
// returns what closes it, nil if there is none. The caller holds the lock.
func (s *Set) displace() (closeIt func()) {
	c := s.first
	if c == nil {
		return nil
	}
	c.listener.closed.Add(1)
	return s.dismissal(c)
}

// State is the ConnState of the http.Server that has the connections.
//
// It panics with http.ErrAbortHandler if a request comes over a connection
// that is being closed. The server ends the connection then without serving
// the request, which its client may send again.
func (s *Set) State(outer net.Conn, state http.ConnState) {
	c := under(outer)
	if c == nil {
		return
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
		c.served = true
		if c.dismissed {
			return
		}
		s.push(c)
		if s.leaving && !c.http2() {
			s.dismiss(c)
		}
	case http.StateHijacked, http.StateClosed:
		s.unlist(c)
	}
}

// dismiss closes a connection that waits for a request. The caller holds the
// lock.
func (s *Set) dismiss(c *Conn) {
	closeIt := s.dismissal(c)
	s.ending++
	go func() {
		closeIt()
		s.leave(false)
	}()
}

// dismissal makes a connection that waits for a request serve none. It returns
// what closes it. The caller holds the lock, but not for that.
func (s *Set) dismissal(c *Conn) (closeIt func()) {
	s.unlist(c)
	c.dismissed = true
	n, _ := s.unsent(c.Conn)
	c.settled = n == 0
	outer := c.outer
	if outer == nil || !c.settled && !s.leaving { // nothing to say, or it would have to wait for the client
		c.closed.Store(true)
		return func() { c.end() }
	}
	bound := time.Now().Add(goodbyeTime)
	c.bound.Store(bound.UnixNano())
	_ = c.Conn.SetWriteDeadline(bound) // one that is gone needs none
	return func() { outer.Close() }
}

// push puts a connection at the end of the list. The caller holds the lock.
func (s *Set) push(c *Conn) {
	s.unlist(c)
	c.waits, c.since, c.prev = true, time.Now(), s.last
	if s.last != nil {
		s.last.next = c
	} else {
		s.first = c
	}
	s.last = c
}

// unlist takes a connection out of the list. The caller holds the lock.
func (s *Set) unlist(c *Conn) {
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

// remove forgets a connection that is closed.
func (s *Set) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(c)
	if c.counted {
		s.open--
	}
}
