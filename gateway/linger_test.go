package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// endingConn is a lingering connection, and its client.
type endingConn struct {
	*lingeringConn
	half   *halfClosing
	client net.Conn
	began  time.Time
}

// ending runs f on connections in a stop with a deadline in a minute.
func ending(t *testing.T, f func(t *testing.T, l *lingering, c *endingConn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lingering{}
		l.begin(time.Now().Add(time.Minute))
		c := endingOn(l)
		defer c.client.Close()
		f(t, l, c)
	})
}

func endingOn(l *lingering) *endingConn {
	client, conn := net.Pipe()
	half := &halfClosing{Conn: conn}
	c := &lingeringConn{halfConn: half, lingering: l, unsent: func(net.Conn) int { return 0 }}
	return &endingConn{c, half, client, time.Now()}
}

// close closes the connection, which does not wait for the client.
func (c *endingConn) close(t *testing.T) {
	t.Helper()
	if err := c.Close(); err != nil || time.Since(c.began) > 0 {
		t.Errorf("Close: %v after %v", err, time.Since(c.began))
	}
}

// sends lets the client send again and again for some time, and reports
// whether all of it was taken.
func (c *endingConn) sends(every, lasting time.Duration) error {
	for time.Since(c.began) < lasting {
		time.Sleep(every)
		if _, err := c.client.Write([]byte("I have read so much")); err != nil {
			return err
		}
	}
	return nil
}

// gone fails the test unless the connection is closed so long after its Close,
// with so many cut off.
func (c *endingConn) gone(t *testing.T, l *lingering, after time.Duration, cut int) {
	t.Helper()
	if got := l.wait(); got != cut || time.Since(c.began) != after {
		t.Errorf("it is gone after %v, %d cut off; want %v, %d", time.Since(c.began), got, after, cut)
	}
	if _, err := c.client.Write([]byte("anybody there?")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is still open: %v", err)
	}
}

// Outside of a stop, and after its deadline, nothing lingers.
func TestLingerNot(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(l *lingering){
		"no stop":  func(*lingering) {},
		"too late": func(l *lingering) { l.begin(time.Now()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &lingering{}
			begin(l)
			c := endingOn(l)
			c.close(t)
			c.gone(t, l, 0, 0)
			if c.half.half {
				t.Errorf("%s: half closed first", name)
			}
		})
	}
}

// A connection stays while its client has something to say, and as long again
// as a silent one.
func TestLinger(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		story func(t *testing.T, c *endingConn)
		after time.Duration
	}{
		"the client closes": {func(t *testing.T, c *endingConn) {
			if err := c.sends(time.Second, 20*time.Second); err != nil {
				t.Errorf("the client is refused: %v", err)
			}
			c.client.Close()
			c.client, _ = net.Pipe() // for gone
			c.client.Close()
		}, 20 * time.Second},
		"it says nothing": {func(*testing.T, *endingConn) {}, lingerPause},
		"net/http sets a deadline": {func(t *testing.T, c *endingConn) {
			synctest.Wait()
			if err := c.SetReadDeadline(time.Now().Add(time.Hour)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("SetReadDeadline: %v", err)
			}
		}, lingerPause},
		"it falls silent": {func(t *testing.T, c *endingConn) {
			if err := c.sends(lingerPause-1, 2*lingerPause-2); err != nil {
				t.Errorf("the client is refused: %v", err)
			}
		}, 3*lingerPause - 2},
		"it never ends": {func(t *testing.T, c *endingConn) {
			if err := c.sends(lingerPause-time.Second, 56*time.Second); err != nil {
				t.Errorf("the client is refused: %v", err)
			}
		}, time.Minute},
	} {
		ending(t, func(t *testing.T, l *lingering, e *endingConn) {
			e.close(t)
			if !e.half.half {
				t.Errorf("%s: the client was not told", name)
			}
			c.story(t, e)
			e.gone(t, l, c.after, 0)
		})
	}
}

// A silent client is waited for while what it has to get goes there, and is
// cut off at the deadline.
func TestLingerSlow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rest  func(look int) int
		after time.Duration
		cut   int
	}{
		"gets all of it":   {func(look int) int { return max(0, 3-look) }, 4 * lingerPause, 0},
		"stops reading":    {func(look int) int { return max(7, 9-look) }, 3 * lingerPause, 0},
		"takes too long":   {func(look int) int { return 100 - look }, time.Minute, 1},
		"is done just now": {func(look int) int { return 12 - look }, time.Minute, 0},
	} {
		ending(t, func(t *testing.T, l *lingering, e *endingConn) {
			l.begin(time.Now().Add(time.Minute - time.Nanosecond)) // no multiple of lingerPause
			c.after = min(c.after, time.Minute-time.Nanosecond)
			looks := 0
			e.unsent = func(conn net.Conn) int {
				if conn != e.half {
					t.Errorf("%s: asked about %v", name, conn)
				}
				looks++
				return c.rest(looks - 1)
			}
			e.close(t)
			e.gone(t, l, c.after, c.cut)
		})
	}
}

// Close ends what goes on on the connection. What comes over it from then on
// is not read, even by who has begun to before.
func TestLingerClosed(t *testing.T) {
	t.Parallel()
	ending(t, func(t *testing.T, l *lingering, e *endingConn) {
		writing, reading := make(chan error), make(chan error)
		go func() {
			_, err := e.Write([]byte("nobody reads this"))
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
		e.close(t)
		if err := <-writing; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the Write that was under way: %v", err)
		}
		if _, err := e.client.Write([]byte("GET / HTTP/1.1")); err != nil {
			t.Errorf("the client is refused: %v", err)
		}
		if err := <-reading; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the Read that was under way: %v", err)
		}
		if _, err := e.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a Read: %v", err)
		}
		if err := e.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close again: %v", err)
		}
		e.gone(t, l, lingerPause, 0)
	})
}

// deadConn is one whose client has gone.
type deadConn struct{ *halfClosing }

func (c deadConn) CloseWrite() error { return errBroken }

// Nobody waits for a client that has gone.
func TestLingerDead(t *testing.T) {
	t.Parallel()
	ending(t, func(t *testing.T, l *lingering, e *endingConn) {
		e.halfConn = deadConn{e.half}
		e.close(t)
		e.gone(t, l, 0, 0)
	})
}

// securely is a lingering connection under TLS, and its client, which reads no
// more.
func securely(t *testing.T, l *lingering) (*tls.Conn, *endingConn) {
	t.Helper()
	e := endingOn(l)
	config := tlsConfig(openCA(t, t.TempDir(), time.Now))
	config.SessionTicketsDisabled = true // the client would have to read them
	conn := tls.Server(e.lingeringConn, config)
	client := tls.Client(e.client, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error)
	go func() { shaken <- client.Handshake() }()
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return conn, e
}

// A WebSocket is cut off at once, though its client takes nothing and TLS wants
// to say goodbye.
func TestSocketCut(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"idle": false, "busy": true} {
		synctest.Test(t, func(t *testing.T) {
			l := &lingering{}
			l.begin(time.Now().Add(time.Minute))
			conn, e := securely(t, l)
			defer e.client.Close()
			gaveUp := false
			s := &socket{Conn: conn, giveUp: func() { gaveUp = true }, begun: make(chan struct{}), ended: make(chan struct{})}
			over := make(chan error, 2)
			go func() {
				_, err := s.Read(make([]byte, 1))
				over <- err
			}()
			if writes {
				go func() {
					_, err := s.Write(text)
					over <- err
				}()
			} else {
				over <- errBroken
			}
			synctest.Wait()
			began := time.Now()
			s.cut()
			for range cap(over) {
				if err := <-over; err == nil {
					t.Errorf("%s: what went on goes on", name)
				}
			}
			l.wait()
			if _, err := e.client.Write([]byte{0}); err == nil || !gaveUp || time.Since(began) != 0 {
				t.Errorf("%s: cut off after %v, %v, given up: %t", name, time.Since(began), err, gaveUp)
			}
		})
	}
}
