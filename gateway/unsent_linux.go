package gateway

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how much the other side has not confirmed of what was written to
// a connection; 0 for one that is gone.
func unsent(c net.Conn) int {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	access, err := raw.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	var failure error
	if err := access.Control(func(fd uintptr) { n, failure = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil || failure != nil {
		return 0
	}
	return n
}
