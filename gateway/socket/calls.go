//go:build unix && !aix

package socket

import (
	"io"
	"syscall"
)

// Read reads what has come on a socket that does not block. come is false if nothing has; the error
// is io.EOF if nothing will. b must not be empty.
func Read(fd uintptr, b []byte) (n int, come bool, err error) {
	for {
		switch n, err := read(fd, b); {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return 0, false, nil
		case err == nil && n == 0:
			return 0, true, io.EOF
		default:
			return max(0, n), true, err
		}
	}
}

// Write writes as much of b as a socket that does not block has room for, which may be nothing.
// b must not be empty.
func Write(fd uintptr, b []byte) (n int, err error) {
	for {
		switch n, err := write(fd, b); err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return max(0, n), err
		}
	}
}
