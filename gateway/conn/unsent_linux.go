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
	raw, ok := c.(syscall.Conn)
	if !ok {
		return 0, true // no socket, so no buffer
	}
	access, err := raw.SyscallConn()
	if err != nil {
		return 0, true
	}
	var failure error
	if err := access.Control(func(fd uintptr) { n, failure = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil || failure != nil {
		return 0, true
	}
	return n, true
}
