//go:build !unix

package control

import (
	"errors"
	"io/fs"
	"net"
)

// isDead reports whether an error of dial means that no process has the socket.
func isDead(err error) bool {
	_, failed := errors.AsType[*net.OpError](err)
	return failed || errors.Is(err, fs.ErrNotExist)
}
