//go:build unix && !aix

package http1

import (
	"errors"
	"net"
	"syscall"
)

// connCheck reports whether an idle connection is open and has no unread bytes.
// It looks at the next byte without waiting for it or reading it.
func connCheck(c net.Conn) bool {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	access, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	empty := false
	var b [1]byte
	err = access.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		empty = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && empty
}
