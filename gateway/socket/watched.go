//go:build unix && !aix && !(linux && (amd64 || arm64) && !race)

package socket

import "syscall"

func read(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }

func write(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }

// Quiet reports whether a socket is open, and all that has come is read.
func Quiet(fd uintptr) bool {
	var next [1]byte
	_, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN
}
