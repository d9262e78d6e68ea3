package conn

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent returns how many bytes that were written to a connection the other side
// has not acknowledged, and whether the system tells. It returns 0 for a closed
// connection.
func unsent(c net.Conn) (n int, known bool) {
	var failure error
	if !control(c, func(fd int) { n, failure = unix.IoctlGetInt(fd, unix.SIOCOUTQ) }) || failure != nil {
		return 0, true
	}
	return n, true
}

// hungUp reports whether the other side has closed the connection or its
// direction of it.
func hungUp(c net.Conn) bool {
	var n int
	found := control(c, func(fd int) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0) // n is 0 after an error
	})
	return found && n > 0
}

// control calls f with the file descriptor of a connection. It reports false for
// a closed connection, and for one that is not a socket.
func control(c net.Conn, f func(fd int)) bool {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	access, err := raw.SyscallConn()
	return err == nil && access.Control(func(fd uintptr) { f(int(fd)) }) == nil
}
