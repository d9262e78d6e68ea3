//go:build unix && !aix

package http1

import (
	"errors"
	"net"
	"syscall"
)

// checker looks at the next byte of a connection without waiting for it or reading
// it.
type checker struct {
	raw   syscall.RawConn
	peek  func(fd uintptr) bool
	empty bool // the result of peek
	next  [1]byte
}

// newChecker returns nil for a connection that cannot be checked.
func newChecker(conn net.Conn) *checker {
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil
	}
	c := &checker{raw: raw}
	c.peek = func(fd uintptr) bool { // made once, because it would escape
		_, _, err := syscall.Recvfrom(int(fd), c.next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		c.empty = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return c
}

// check reports whether the connection is open and has no unread bytes. It is false
// for nil.
func (c *checker) check() bool {
	if c == nil {
		return false
	}
	c.empty = false
	return c.raw.Read(c.peek) == nil && c.empty
}
