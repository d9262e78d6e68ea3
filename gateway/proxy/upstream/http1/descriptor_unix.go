//go:build unix && !aix

package http1

import (
	"io"
	"net"
	"syscall"
)

// descriptor uses the file descriptor of a connection without the waits of Read
// and Write. One goroutine uses it at a time.
type descriptor struct {
	raw   syscall.RawConn
	look  func(fd uintptr) bool // quiet, made once because it would escape
	visit func(fd uintptr) bool // turn, likewise
	next  [1]byte
	empty bool // the result of look

	// Of an exchange:
	request  []byte // nil once it is sent
	response []byte // where the first bytes of the response go
	sent, n  int
	err      error
}

// newDescriptor returns nil for a connection without a file descriptor.
func newDescriptor(conn net.Conn) *descriptor {
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil
	}
	d := &descriptor{raw: raw}
	d.look, d.visit = d.quiet, d.turn
	return d
}

// isClean reports whether the connection is open and has no unread bytes. It does
// not wait for any. It is false for nil.
func (d *descriptor) isClean() bool {
	return d != nil && d.raw.Read(d.look) == nil && d.empty
}

// quiet looks at the next byte of the connection without reading it.
func (d *descriptor) quiet(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), d.next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	d.empty = err == syscall.EAGAIN
	return true
}

// exchange sends a request if the connection passes its check, and reads the first
// bytes of the response. It is a check, a Write and a Read, but it does not ask
// for bytes that cannot have come yet. sent is how much of the request was written
// without a wait; if that is not all, nothing is read. The error errNotQuiet means
// that nothing was sent.
func (d *descriptor) exchange(request, response []byte) (sent, n int, err error) {
	d.request, d.response = request, response
	d.sent, d.n, d.err = 0, 0, nil
	err = d.raw.Read(d.visit)
	switch {
	case d.request != nil:
		err = errNotQuiet // or the first turn did not come in time
	case err == nil:
		err = d.err
	}
	d.request, d.response = nil, nil
	return d.sent, d.n, err
}

// turn is one turn of an exchange: the first one, or one after the connection has
// become readable. It reports whether there is nothing to wait for.
func (d *descriptor) turn(fd uintptr) bool {
	if d.request == nil {
		return d.readNow(int(fd))
	}
	if d.quiet(fd); !d.empty {
		return true
	}
	d.sent, d.err = syscall.Write(int(fd), d.request)
	whole := d.sent == len(d.request)
	if d.err != nil {
		d.sent = 0
		if d.err == syscall.EAGAIN || d.err == syscall.EINTR {
			d.err = nil
		}
	}
	d.request = nil
	return !whole
}

// readNow reads the bytes that have come. It reports false if there are none.
func (d *descriptor) readNow(fd int) bool {
	for {
		n, err := syscall.Read(fd, d.response)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil:
			d.err = err
		case n == 0:
			d.err = io.EOF
		default:
			d.n = n
		}
		return true
	}
}
