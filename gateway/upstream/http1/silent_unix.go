//go:build unix && !aix

package http1

import (
	"errors"
	"net"
	"syscall"
)

// silent reports whether an idle connection is open and nothing has come
// over it: it looks at what there is to read, without waiting or taking it.
func silent(c net.Conn) bool {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	access, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	var b [1]byte
	err = access.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}
