//go:build unix

package control

import (
	"errors"
	"io/fs"
	"syscall"
)

// isDead reports whether an error of dial means that no process has the socket.
func isDead(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
