package conn

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
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
			&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}, syscall.ENFILE, syscall.ENOBUFS,
			syscall.ECONNABORTED,
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

// All that is written over HTTP/2 is kept, and nothing that is written to a WebSocket.
// Without TLS, nothing sends what is kept before the end of HTTP/2.
func TestKeeps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plain bool
		open  func(b *bench)
		keep  keeping
	}{
		"HTTP/1.1": {false, func(b *bench) { c := b.secure("http/1.1"); _ = b.get(c, "/"); go discard(c) },
			keepLong},
		"HTTP/2":             {false, func(b *bench) { b.greet(b.secure("h2")) }, keepAll},
		"HTTP/2 without TLS": {true, func(b *bench) { b.greet(b.dial()) }, keepLong},
	} {
		onBench(t, Options{}, test.plain, func(b *bench) {
			test.open(b)
			synctest.Wait()
			c := b.set.first
			if got := keeping(c.keeps.Load()); got != test.keep {
				t.Errorf("%s: %d, want %d", name, got, test.keep)
			}
			b.set.State(c.outer, http.StateHijacked)
			if got := keeping(c.keeps.Load()); got != keepNothing {
				t.Errorf("%s, of a WebSocket: %d, want %d", name, got, keepNothing)
			}
			b.stop()
		})
	}
}

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
