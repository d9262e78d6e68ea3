package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// longest is how many bytes one system call moves at most.
const longest = 64 << 10

// Wrap returns c with a Read and a Write that are not watched, if it is a TCP connection. Else it returns c.
func Wrap(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c // it is closed, as its own methods tell
	}
	w := &conn{TCPConn: tcp, reading: transfer{ready: raw.Read}, writing: transfer{ready: raw.Write}}
	w.reading.visit, w.writing.visit = w.reading.read, w.writing.write
	return w
}

// conn is a TCP connection. All methods but Read and Write are those of package net.
type conn struct {
	*net.TCPConn
	reading, writing transfer
}

// transfer is a Read or a Write. Two of them take turns, as those of package net do.
type transfer struct {
	ready func(visit func(fd uintptr) (done bool)) error // of the syscall.RawConn
	visit func(fd uintptr) (done bool)                   // read or write, made once because it would escape

	mu  sync.Mutex
	b   []byte
	n   int
	err error
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return c.TCPConn.Read(b) // 0 bytes must not be the end
	}
	n, err := c.reading.run(b)
	return n, c.explained("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.writing.run(b)
	return n, c.explained("write", err)
}

// run moves bytes between b and the socket.
func (t *transfer) run(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.err = b, 0, nil
	err := t.ready(t.visit)
	t.b = nil
	if err == nil {
		err = t.err
	}
	return t.n, err
}

// read reads once.
func (t *transfer) read(fd uintptr) (done bool) {
	t.n, done, t.err = Read(fd, t.b[:min(len(t.b), longest)])
	return done
}

// write writes all of b.
func (t *transfer) write(fd uintptr) (done bool) {
	for t.n < len(t.b) {
		rest := t.b[t.n:]
		n, err := Write(fd, rest[:min(len(rest), longest)])
		if t.n += n; err != nil {
			t.err = err
			return true
		}
		if n == 0 {
			return false
		}
	}
	return true
}

// explained returns the error that package net would return.
func (c *conn) explained(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var number syscall.Errno
	var raw *net.OpError
	if errors.As(err, &number) {
		err = os.NewSyscallError(op, number)
	} else if errors.As(err, &raw) {
		err = raw.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
