package conn

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// halfClosing is a connection one direction of which can be closed.
type halfClosing struct {
	net.Conn
	half bool
}

func (c *halfClosing) CloseWrite() error { c.half = true; return nil }

// ending is a connection that lingers for up to a minute, and its client.
type ending struct {
	*Conn
	half   *halfClosing
	client net.Conn
	began  time.Time
}

// newEnding returns a connection. rest returns how much is unsent after a time.
func newEnding(rest func(after time.Duration) int) *ending {
	client, server := net.Pipe()
	half := &halfClosing{Conn: server}
	s := NewSet(Options{Logger: slog.New(slog.DiscardHandler)})
	e := &ending{half: half, client: client, began: time.Now()}
	s.unsent = func(net.Conn) (int, bool) { return rest(time.Since(e.began)), true }
	s.Linger(e.began.Add(time.Minute))
	s.open = 1
	e.Conn = &Conn{Conn: half, set: s, listener: s.Listener(nil), told: -1, counted: true}
	return e
}

// sends makes the client send every second until that fails.
func (e *ending) sends() {
	for err := error(nil); err == nil; _, err = e.client.Write([]byte("I have read so much")) {
		time.Sleep(time.Second)
	}
}

// gone fails the test unless the connection is closed after that time, or a step
// later, with so many cut off.
func (e *ending) gone(t *testing.T, name string, after time.Duration, cut int) {
	t.Helper()
	got := e.set.Wait()
	if took := time.Since(e.began); got != cut || took < after || took > after+lingerStep {
		t.Errorf("%s: closed after %v, %d cut off; want %v, %d", name, took, got, after, cut)
	}
	if _, err := e.client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%s: the connection is open still: %v", name, err)
	}
	if e.set.open != 0 {
		t.Errorf("%s: %d connections are counted", name, e.set.open)
	}
}

// steady returns a rest that shrinks to nothing within that time.
func steady(within time.Duration) func(time.Duration) int {
	return func(after time.Duration) int { return int(max(0, within-after)) }
}

// A connection lingers only after Linger, until its deadline, and while bytes are
// unsent.
func TestLingerNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rest  int
		until time.Duration
	}{
		"no stop":          {1000, -100 * time.Hour},
		"too late":         {1000, 0},
		"all is sent":      {0, time.Minute},
		"TLS says goodbye": {lastWords, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding(func(time.Duration) int { return c.rest })
			defer e.client.Close()
			e.set.Linger(e.began.Add(c.until))
			if err := e.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			e.gone(t, name, 0, 0)
			if e.half.half {
				t.Errorf("%s: half closed first", name)
			}
		})
	}
}

// A connection lingers as long as its client reads. What the client sends does not
// matter.
func TestLinger(t *testing.T) {
	t.Parallel()
	never := func(time.Duration) int { return 1000 }
	for name, c := range map[string]struct {
		rest  func(time.Duration) int
		sends bool
		after time.Duration
		cut   int
	}{
		"gets all of it":           {steady(20 * time.Second), false, 20 * time.Second, 0},
		"sends while it reads":     {steady(20 * time.Second), true, 20 * time.Second, 0},
		"does not read":            {never, false, lingerPause, 0},
		"sends instead of reading": {never, true, lingerPause, 0},
		"stops reading": {func(after time.Duration) int { return int(10*time.Second - min(after, 7*time.Second)) },
			true, 7*time.Second + lingerPause, 0},
		"takes too long": {steady(time.Hour), true, time.Minute, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding(c.rest)
			defer e.client.Close()
			if err := e.Close(); err != nil || time.Since(e.began) > 0 {
				t.Errorf("%s: Close: %v after %v", name, err, time.Since(e.began))
			}
			if !e.half.half {
				t.Errorf("%s: the client was not told that nothing more comes", name)
			}
			var sending sync.WaitGroup
			if c.sends {
				sending.Go(e.sends)
			}
			e.gone(t, name, c.after, c.cut)
			sending.Wait()
		})
	}
}

// A lingering connection ends when its client closes it. With untilRead the client
// has time to read what its system has. On a system that does not tell what is
// unsent, a connection lingers for blindPause.
func TestLingerEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rest      func(time.Duration) int
		known     bool
		untilRead bool
		closes    time.Duration
		after     time.Duration
	}{
		"the client closes":     {steady(time.Hour), true, false, 3 * time.Second, 3 * time.Second},
		"it reads to the end":   {steady(10 * time.Second), true, true, 12 * time.Second, 12 * time.Second},
		"it does not read on":   {steady(10 * time.Second), true, true, time.Hour, 10*time.Second + lingerPause},
		"nothing can be known":  {steady(0), false, true, time.Hour, blindPause},
		"nor whether all is in": {steady(0), false, false, time.Hour, blindPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			time.AfterFunc(c.closes, func() { client.Close() })
			began := time.Now()
			s := stay{conn: server, until: began.Add(time.Minute), untilRead: c.untilRead}
			s.unsent = func(net.Conn) (int, bool) { return c.rest(time.Since(began)), c.known }
			cut := s.over()
			if took := time.Since(began); cut || took < c.after || took > c.after+lingerStep {
				t.Errorf("%s: %v, cut off: %t; want %v", name, took, cut, c.after)
			}
		})
	}
}

// Close ends Reads and Writes. What comes after Close is not read, also by a Read
// that began before.
func TestLingerClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnding(steady(10 * time.Second))
		defer e.client.Close()
		writing, reading := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := e.Write([]byte("no client reads this"))
			writing <- err
		}()
		go func() {
			n, err := e.Read(make([]byte, 1))
			if n > 0 {
				t.Errorf("%d bytes were read", n)
			}
			reading <- err
		}()
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := <-writing; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the Write that was in progress: %v", err)
		}
		if _, err := e.client.Write([]byte("GET / HTTP/1.1")); err != nil {
			t.Errorf("the client is refused: %v", err)
		}
		if err := <-reading; err == nil {
			t.Error("the Read that was in progress succeeds")
		}
		if _, err := e.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a Read: %v", err)
		}
		if err := e.SetReadDeadline(time.Now().Add(time.Hour)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("SetReadDeadline: %v", err)
		}
		if err := e.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close again: %v", err)
		}
		e.gone(t, "closed", 10*time.Second, 0)
	})
}

// deadConn is a connection whose client has gone.
type deadConn struct{ net.Conn }

func (c deadConn) CloseWrite() error { return io.ErrClosedPipe }

// A connection does not linger if its client has gone or it is cut off.
func TestLingerDead(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(e *ending){
		"gone":                 func(e *ending) { e.Conn.Conn = deadConn{e.half}; e.Close() },
		"cut off":              func(e *ending) { Cut(e.Conn) },
		"cut off as it closes": func(e *ending) { e.Close(); Cut(e.Conn) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding(func(time.Duration) int { return 1000 })
			defer e.client.Close()
			end(e)
			e.gone(t, name, 0, 0)
		})
	}
}
