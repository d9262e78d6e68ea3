package conn

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent returns how many of the bytes that were written to a connection the
// other side has not confirmed, and whether the system can tell. It is 0 for a
// connection that is gone.
func unsent(c net.Conn) (n int, known bool) {
	var failure error
	if !control(c, func(fd int) { n, failure = unix.IoctlGetInt(fd, unix.SIOCOUTQ) }) || failure != nil {
		return 0, true
	}
	return n, true
}

// hungUp reports whether the other side of a connection has closed it, or its
// direction, which needs no Read.
func hungUp(c net.Conn) bool {
	var n int
	found := control(c, func(fd int) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0) // an error is no answer
	})
	return found && n > 0
}

// control calls f with the descriptor of a connection. It reports false where
// there is none: for a connection that is closed, or no socket.
func control(c net.Conn, f func(fd int)) bool {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	access, err := raw.SyscallConn()
	return err == nil && access.Control(func(fd uintptr) { f(int(fd)) }) == nil
}
