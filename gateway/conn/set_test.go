package conn

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"authgate/gateway/must"
)

// The connection that has waited longest is displaced, and busy ones never are.
// If all are busy, a new one is closed after admitTime.
func TestDisplaced(t *testing.T) {
	t.Parallel()
	onBench(t, Options{Limit: 3}, true, func(b *bench) {
		idle, silent := b.dial(), b.dial()
		must.Do(t, b.get(idle, "/")) // it has waited less long than the silent one since
		busy := func() {
			c := b.dial()
			go func() { _ = b.get(c, "/slow") }()
			time.Sleep(spared)
			synctest.Wait()
		}
		busy()
		busy()
		wantClosed(t, "the silent one", silent, true)
		wantClosed(t, "the idle one", idle, false)
		busy()
		wantClosed(t, "the idle one", idle, true)
		began := time.Now()
		wantClosed(t, "one too many", b.dial(), true)
		if took := time.Since(began); took < admitTime || took > admitTime+retryPause {
			t.Errorf("it was closed after %v", took)
		}
		if n := b.set.open; n != 3 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// A displaced connection with unsent bytes is closed without the closing message
// of TLS, which would wait for the client.
func TestDisplacedUnsent(t *testing.T) {
	t.Parallel()
	onBench(t, Options{Limit: 1}, false, func(b *bench) {
		must.Do(t, b.get(b.secure("http/1.1"), "/"))
		b.set.unsent = func(net.Conn) (int, bool) { return 1000, true }
		time.Sleep(spared)
		b.dial()
		synctest.Wait()
		if b.set.open != 1 {
			t.Errorf("%d connections are open, want the new one only", b.set.open)
		}
	})
}

// wantClosed fails the test unless a connection is closed, or is not, within
// two seconds.
func wantClosed(t *testing.T, name string, c net.Conn, want bool) {
	t.Helper()
	err := c.SetReadDeadline(time.Now().Add(2 * time.Second)) // fails on a pipe that is closed
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if got := !errors.Is(err, os.ErrDeadlineExceeded); got != want {
		t.Errorf("%s: closed: %t, %v", name, got, err)
	}
}

// failing is a listener that fails before it accepts.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	return f.Listener.Accept()
}

// After a passing error a listener pauses and accepts again. Another error ends
// it.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short := 0
		s := NewSet(Options{Logger: slog.New(slog.DiscardHandler), FreeDescriptors: func() { short++ }})
		p := &pipes{make(chan net.Conn, 1), make(chan struct{})}
		here, there := net.Pipe()
		defer here.Close()
		p.conns <- there
		f := &failing{p, []error{
			&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}, syscall.ENFILE, syscall.ENOBUFS, syscall.ECONNABORTED,
		}}
		began := time.Now()
		c, err := s.Listener(f).Accept()
		if err != nil || time.Since(began) != 4*retryPause || short != 2 {
			t.Fatalf("%v after %v, short %d times", err, time.Since(began), short)
		}
		defer c.Close()
		f.errs = []error{net.ErrClosed}
		if _, err := NewProxyProtocol(f, nil, time.Second, nil).Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("behind the PROXY protocol: %v", err)
		}
		for _, want := range []error{net.ErrClosed, syscall.EBADF, syscall.EINVAL, errors.New("unknown")} {
			f.errs = []error{want}
			if _, err := s.Listener(f).Accept(); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
}

// Clients may have more connections than requests, and both halves fit into the
// file descriptors.
func TestDivide(t *testing.T) {
	t.Parallel()
	for _, files := range []int{64, 200, 256, 1024, 65536, 1 << 20} {
		b := Divide(files)
		if b.Requests >= b.Clients || b.Requests < 1 || 2*b.Clients > files-min(reserved, files/4) {
			t.Errorf("%d: %+v", files, b)
		}
	}
	if n := Files(); n < 64 {
		t.Errorf("%d file descriptors", n)
	}
}

// pipes is a listener that accepts the ends of pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// bench is an http.Server whose connections are in a Set, on the clock of a
// bubble. It answers /slow after a minute, and hijacks the connection of /hijack.
type bench struct {
	t        *testing.T
	set      *Set
	server   *http.Server
	pipes    *pipes
	served   chan string // paths of requests
	hijacked chan net.Conn
}

// onBench runs f with a server, without TLS if plain.
func onBench(t *testing.T, o Options, plain bool, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Logger = slog.New(slog.DiscardHandler)
		b := &bench{
			t: t, set: NewSet(o), pipes: &pipes{make(chan net.Conn), make(chan struct{})},
			served: make(chan string, 1000), hijacked: make(chan net.Conn),
		}
		b.server = &http.Server{ConnState: b.set.State, ErrorLog: log.New(io.Discard, "", 0), Handler: b}
		var listener net.Listener = b.set.Listener(b.pipes)
		if !plain {
			b.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, NextProtos: []string{"h2", "http/1.1"},
				SessionTicketsDisabled: true} // clients would have to read them
			listener = tls.NewListener(listener, b.server.TLSConfig)
		}
		ended := make(chan error)
		go func() { ended <- b.server.Serve(listener) }()
		synctest.Wait()
		f(b)
		b.server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // for handlers and clients to end
	})
}

// ServeHTTP implements http.Handler.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.served <- r.URL.Path
	switch r.URL.Path {
	case "/slow":
		time.Sleep(time.Minute)
	case "/hijack":
		c, _, _ := http.NewResponseController(w).Hijack()
		b.hijacked <- c
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// dial opens a connection.
func (b *bench) dial() net.Conn {
	here, there := net.Pipe()
	b.t.Cleanup(func() { here.Close() })
	b.pipes.conns <- there
	return here
}

// secure opens a connection over TLS.
func (b *bench) secure(protocol string) *tls.Conn {
	c := tls.Client(b.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	go func() { _ = c.Handshake() }()
	synctest.Wait()
	return c
}

// get sends a request and reads the answer.
func (b *bench) get(c net.Conn, path string) error {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}

// greet begins HTTP/2. The server must send GOAWAY once before it closes the
// connection.
func (b *bench) greet() {
	c := b.secure("h2")
	framer, away := http2.NewFramer(c, c), []uint32{} // the last streams
	go func() {
		for f, err := framer.ReadFrame(); err == nil; f, err = framer.ReadFrame() {
			if f, ok := f.(*http2.GoAwayFrame); ok {
				away = append(away, f.LastStreamID)
			}
		}
		if !slices.Equal(away, []uint32{0}) {
			b.t.Errorf("the connection is closed after GOAWAY %d, want one, with the stream 0", away)
		}
	}()
	must.Get(io.WriteString(c, http2.ClientPreface))(b.t)
	must.Do(b.t, framer.WriteSettings())
	synctest.Wait()
}

// stop leaves, shuts the server down and returns how long that took.
func (b *bench) stop() time.Duration {
	began := time.Now()
	b.set.Leave()
	for err := context.DeadlineExceeded; errors.Is(err, context.DeadlineExceeded) && time.Since(began) < time.Hour; {
		step, cancel := context.WithTimeout(b.t.Context(), 100*time.Millisecond)
		err = b.server.Shutdown(step)
		cancel()
	}
	b.set.Wait()
	return time.Since(began)
}

// Leave closes connections without a whole request header at once, those of HTTP/2
// after GOAWAY. The rest of the time is what http.Server takes to notice.
func TestLeave(t *testing.T) {
	t.Parallel()
	const look = 70 * time.Millisecond
	for name, c := range map[string]struct {
		plain bool
		open  func(b *bench)
		took  time.Duration
	}{
		"nothing sent":            {true, func(b *bench) { b.dial() }, 0},
		"idle after a request":    {true, func(b *bench) { _ = b.get(b.dial(), "/") }, 0},
		"a byte each second":      {true, func(b *bench) { go drip(b.dial(), "GET / HTTP/1.1\r\n") }, 0},
		"TLS, nothing sent":       {false, func(b *bench) { b.dial() }, 0},
		"TLS, a byte each second": {false, func(b *bench) { go drip(b.dial(), "\x16\x03\x01\x02\x00") }, 0},
		"TLS, no request":         {false, func(b *bench) { go discard(b.secure("http/1.1")) }, 0},
		"TLS, idle":               {false, func(b *bench) { c := b.secure("http/1.1"); _ = b.get(c, "/"); go discard(c) }, 0},
		"TLS, it does not read":   {false, func(b *bench) { _ = b.get(b.secure("http/1.1"), "/") }, goodbyeTime},
		"HTTP/2, no preface":      {false, func(b *bench) { go discard(b.secure("h2")) }, 0},
		"HTTP/2, no request":      {false, func(b *bench) { b.greet() }, goodbyeTime},
		"a request that goes on":  {true, func(b *bench) { go func() { _ = b.get(b.dial(), "/slow") }() }, time.Minute},
		"one over TLS that does":  {false, func(b *bench) { c := b.secure("http/1.1"); go func() { _ = b.get(c, "/slow"); discard(c) }() }, time.Minute},
	} {
		onBench(t, Options{}, c.plain, func(b *bench) {
			for range 3 {
				c.open(b)
			}
			synctest.Wait()
			if took := b.stop(); took < c.took || took > c.took+look {
				t.Errorf("%s: the stop took %v, want %v", name, took, c.took)
			}
		})
	}
}

// drip sends something and then its last byte once a second.
func drip(c net.Conn, text string) {
	_, err := io.WriteString(c, text)
	for ; err == nil; _, err = c.Write([]byte{'a'}) {
		time.Sleep(time.Second)
	}
}

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// A displaced connection serves no request, even if the header has come by then.
func TestDismissedServesNothing(t *testing.T) {
	t.Parallel()
	onBench(t, Options{}, true, func(b *bench) {
		c := b.dial()
		go discard(c)
		synctest.Wait()
		b.set.mu.Lock()
		accepted := b.set.first
		b.set.dismiss(accepted)
		b.set.mu.Unlock()
		defer func() {
			if got := recover(); got != http.ErrAbortHandler || len(b.served) > 0 {
				t.Errorf("a request on a connection that is being closed: %v, %d were served", got, len(b.served))
			}
		}()
		b.set.State(accepted, http.StateActive)
	})
}

// halfClosing is a connection one direction of which can be closed, unless its
// client has gone.
type halfClosing struct {
	net.Conn
	half, gone bool
}

func (c *halfClosing) CloseWrite() error {
	if c.gone {
		return io.ErrClosedPipe
	}
	c.half = true
	return nil
}

// ending is a connection that lingers, and its client.
type ending struct {
	*Conn
	half   *halfClosing
	client net.Conn
	began  time.Time
}

// newEnding returns a connection. rest returns how much is unsent after a time.
func newEnding(rest func(after time.Duration) int, until time.Duration) *ending {
	client, server := net.Pipe()
	half := &halfClosing{Conn: server}
	s := NewSet(Options{Logger: slog.New(slog.DiscardHandler)})
	e := &ending{half: half, client: client, began: time.Now()}
	s.unsent = func(net.Conn) (int, bool) { return rest(time.Since(e.began)), true }
	s.Linger(e.began.Add(until))
	s.open = 1
	e.Conn = &Conn{Conn: half, set: s, listener: s.Listener(nil), told: -1, counted: true}
	return e
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

// always returns a rest that stays.
func always(rest int) func(time.Duration) int {
	return func(time.Duration) int { return rest }
}

// A connection lingers only after Linger, until its deadline, and as long as bytes
// are unsent and its client reads. What the client sends does not matter.
func TestLinger(t *testing.T) {
	t.Parallel()
	halts := func(after time.Duration) int { return int(10*time.Second - min(after, 7*time.Second)) }
	closes := func(e *ending) { _ = e.Close() }
	for name, c := range map[string]struct {
		rest  func(time.Duration) int
		until time.Duration
		sends bool
		end   func(e *ending)
		after time.Duration
		cut   int
		half  bool // the client was told that nothing more comes
	}{
		"no stop":                  {always(1000), -100 * time.Hour, false, closes, 0, 0, false},
		"too late":                 {always(1000), 0, false, closes, 0, 0, false},
		"all is sent":              {always(0), time.Minute, false, closes, 0, 0, false},
		"TLS says goodbye":         {always(lastWords), time.Minute, false, closes, 0, 0, false},
		"gets all of it":           {steady(20 * time.Second), time.Minute, false, closes, 20 * time.Second, 0, true},
		"sends while it reads":     {steady(20 * time.Second), time.Minute, true, closes, 20 * time.Second, 0, true},
		"does not read":            {always(1000), time.Minute, false, closes, lingerPause, 0, true},
		"sends instead of reading": {always(1000), time.Minute, true, closes, lingerPause, 0, true},
		"stops reading":            {halts, time.Minute, true, closes, 7*time.Second + lingerPause, 0, true},
		"takes too long":           {steady(time.Hour), time.Minute, true, closes, time.Minute, 1, true},
		"gone":                     {always(1000), time.Minute, false, func(e *ending) { e.half.gone = true; closes(e) }, 0, 0, false},
		"cut off":                  {always(1000), time.Minute, false, func(e *ending) { Cut(e.Conn) }, 0, 0, false},
		"cut off as it closes":     {always(1000), time.Minute, false, func(e *ending) { closes(e); Cut(e.Conn) }, 0, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding(c.rest, c.until)
			defer e.client.Close()
			c.end(e)
			if took := time.Since(e.began); took > 0 || e.half.half != c.half {
				t.Errorf("%s: Close takes %v; the client was told that nothing more comes: %t, want %t", name, took, e.half.half, c.half)
			}
			var sending sync.WaitGroup
			if c.sends {
				sending.Go(func() {
					for err := error(nil); err == nil; _, err = e.client.Write([]byte("I have read so much")) {
						time.Sleep(time.Second)
					}
				})
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
		"nothing can be known":  {always(0), false, true, time.Hour, blindPause},
		"nor whether all is in": {always(0), false, false, time.Hour, blindPause},
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
		e := newEnding(steady(10*time.Second), time.Minute)
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
		_, read := e.Read(make([]byte, 1))
		for name, err := range map[string]error{
			"the Read that was in progress": <-reading, "a Read": read,
			"SetReadDeadline": e.SetReadDeadline(time.Now().Add(time.Hour)), "Close again": e.Close(),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, want net.ErrClosed", name, err)
			}
		}
		e.gone(t, "closed", 10*time.Second, 0)
	})
}
