//go:build linux && (amd64 || arm64) && !race

package socket

import (
	"syscall"
	"unsafe"
)

func read(fd uintptr, b []byte) (int, error) {
	return result(syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))))
}

func write(fd uintptr, b []byte) (int, error) {
	return result(syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))))
}

// Quiet reports whether a socket is open, and all that has come is read.
func Quiet(fd uintptr) bool {
	var next [1]byte
	_, _, number := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&next[0])), uintptr(len(next)),
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return number == syscall.EAGAIN
}

func result(n, _ uintptr, number syscall.Errno) (int, error) {
	if number != 0 {
		return 0, number
	}
	return int(n), nil
}
