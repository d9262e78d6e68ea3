package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// pair returns the two ends of a TCP connection.
func pair(t testing.TB) (here, there *net.TCPConn) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	dialed := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	accepted := must.Get(listener.Accept())(t)
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// told returns all that an error tells its readers.
func told(err error) string {
	if err == nil {
		return "no error"
	}
	var network net.Error
	return fmt.Sprintf("%s; end %v, deadline %v, closed %v, reset %v, timeout %v",
		port.ReplaceAllString(err.Error(), "ADDRESS"), err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.As(err, &network) && network.Timeout())
}

// The result of each Read and Write is that of package net.
func TestAsPackageNet(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("0123456789"), 1<<20)
	past := time.Unix(1, 0)
	for name, use := range map[string]func(t *testing.T, here net.Conn, there *net.TCPConn) (n int, err error){
		"Read": func(t *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			must.Get(there.Write([]byte("bytes")))(t)
			return here.Read(make([]byte, 9))
		},
		"Read part": func(t *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			must.Get(there.Write([]byte("bytes")))(t)
			return here.Read(make([]byte, 2))
		},
		"Read of no bytes": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) { return here.Read(nil) },
		"Read that waits": func(_ *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			time.AfterFunc(time.Millisecond, func() { _, _ = there.Write([]byte("bytes")) })
			return here.Read(make([]byte, 9))
		},
		"Read of all": func(_ *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			go func() {
				_, _ = there.Write(long)
				there.Close()
			}()
			all, err := io.ReadAll(here)
			if !bytes.Equal(all, long) {
				err = errors.New("not what was written")
			}
			return len(all), err
		},
		"Read at the end": func(_ *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			there.Close()
			return here.Read(make([]byte, 9))
		},
		"Read after a deadline": func(t *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			must.Do(t, here.SetReadDeadline(past))
			return here.Read(make([]byte, 9))
		},
		"Read until a deadline": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			time.AfterFunc(time.Millisecond, func() { _ = here.SetReadDeadline(past) })
			return here.Read(make([]byte, 9))
		},
		"Read after Close": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			here.Close()
			return here.Read(make([]byte, 9))
		},
		"Read until Close": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			time.AfterFunc(time.Millisecond, func() { here.Close() })
			return here.Read(make([]byte, 9))
		},
		"Read after a reset": func(t *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			must.Do(t, there.SetLinger(0))
			there.Close()
			return here.Read(make([]byte, 9))
		},
		"Read of no bytes after a deadline": func(t *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			must.Do(t, here.SetReadDeadline(past))
			return here.Read(nil)
		},
		"Read of no bytes after Close": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			here.Close()
			return here.Read(nil)
		},
		"Write": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) { return here.Write([]byte("bytes")) },
		"Write of no bytes": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			return here.Write(nil)
		},
		"Write of no bytes after Close": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			here.Close()
			return here.Write(nil)
		},
		"Write of more than there is room for": func(t *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			read := make(chan []byte, 1)
			go func() {
				all, _ := io.ReadAll(there)
				read <- all
			}()
			n, err := here.Write(long)
			here.Close()
			if !bytes.Equal(<-read, long) {
				t.Error("the other side has read something else")
			}
			return n, err
		},
		"Write after a deadline": func(t *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			must.Do(t, here.SetWriteDeadline(past))
			return here.Write([]byte("bytes"))
		},
		"Write until a deadline": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			time.AfterFunc(10*time.Millisecond, func() { _ = here.SetWriteDeadline(past) })
			n, err := here.Write(long)
			return min(n, 1), err // the system decides how much it takes
		},
		"Write until Close": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			time.AfterFunc(10*time.Millisecond, func() { here.Close() })
			n, err := here.Write(long)
			return min(n, 1), err
		},
		"Write after Close": func(_ *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			here.Close()
			return here.Write([]byte("bytes"))
		},
		"Write after CloseWrite": func(t *testing.T, here net.Conn, _ *net.TCPConn) (int, error) {
			must.Do(t, here.(interface{ CloseWrite() error }).CloseWrite())
			return here.Write([]byte("bytes"))
		},
		"Write after a reset": func(t *testing.T, here net.Conn, there *net.TCPConn) (int, error) {
			must.Do(t, there.SetLinger(0))
			there.Close()
			_, _ = here.Read(make([]byte, 9))
			return here.Write([]byte("bytes"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := pair(t)
			wantN, wantErr := use(t, here, there)
			here, there = pair(t)
			n, err := use(t, Wrap(here), there)
			if n != wantN || told(err) != told(wantErr) {
				t.Errorf("%d bytes, %s; want %d bytes, %s", n, told(err), wantN, told(wantErr))
			}
		})
	}
}

// Writes of several goroutines do not mix.
func TestWritesTakeTurns(t *testing.T) {
	t.Parallel()
	const writers, length = 4, 1 << 20
	here, there := pair(t)
	c := Wrap(here)
	var group sync.WaitGroup
	for letter := range byte(writers) {
		group.Go(func() { must.Get(c.Write(bytes.Repeat([]byte{letter}, length)))(t) })
	}
	go func() {
		group.Wait()
		c.Close()
	}()
	all := must.Get(io.ReadAll(there))(t)
	if len(all) != writers*length {
		t.Fatalf("%d bytes, want %d", len(all), writers*length)
	}
	for ; len(all) > 0; all = all[length:] {
		if want := bytes.Repeat(all[:1], length); !bytes.Equal(all[:length], want) {
			t.Fatal("the other side has read a mixture")
		}
	}
}

// Read and Write allocate nothing: there is one of each for a request.
func TestAllocations(t *testing.T) {
	here, there := pair(t)
	c, echo := Wrap(here), Wrap(there)
	b := make([]byte, 100)
	if got := testing.AllocsPerRun(100, func() { roundTrip(t, c, echo, b) }); got > 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// roundTrip writes b on one end and reads as much on the other.
func roundTrip(tb testing.TB, here, there net.Conn, b []byte) {
	tb.Helper()
	if _, err := here.Write(b); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.ReadFull(there, b); err != nil {
		tb.Fatal(err)
	}
}

// Only TCP connections are wrapped.
func TestWrapOther(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if got := Wrap(here); got != here {
		t.Errorf("a pipe became %T", got)
	}
}

// A connection is quiet while it is open and has nothing to read.
func TestQuiet(t *testing.T) {
	t.Parallel()
	here, there := pair(t)
	raw := must.Get(here.SyscallConn())(t)
	want := func(state string, want bool) {
		t.Helper()
		var quiet bool
		must.Do(t, raw.Control(func(fd uintptr) { quiet = Quiet(fd) }))
		if quiet != want {
			t.Errorf("%s: quiet is %v, want %v", state, quiet, want)
		}
	}
	// come waits until the other side has done something.
	come := func() {
		must.Do(t, raw.Read(func(fd uintptr) bool { return !Quiet(fd) }))
	}
	want("a new connection", true)
	must.Get(there.Write([]byte("x")))(t)
	come()
	want("a byte has come", false)
	want("the byte is still there", false)
	must.Get(here.Read(make([]byte, 9)))(t)
	want("the byte is read", true)
	there.Close()
	come()
	want("the other side is closed", false)
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"unwatched": Wrap, "package net": func(c net.Conn) net.Conn { return c },
	} {
		b.Run(name, func(b *testing.B) {
			here, there := pair(b)
			c, echo, buffer := wrap(here), wrap(there), make([]byte, 100)
			for b.Loop() {
				roundTrip(b, c, echo, buffer)
			}
		})
	}
}
