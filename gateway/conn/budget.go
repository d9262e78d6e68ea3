package conn

import (
	"errors"
	"syscall"
)

// kept is how many file descriptors are kept back for everything but the
// connections of clients and to upstreams: the admin listener, the store,
// providers, files.
const kept = 64

// Budget says what may be open at once.
type Budget struct {
	Files    int // file descriptors of the process
	Clients  int // connections of clients
	Requests int // requests, each of which may need a connection to an upstream
}

// Short reports whether err means that there are no file descriptors left, for
// the process or for the system.
func Short(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Divide divides the file descriptors of a process: one half for clients, one
// for upstreams. Fewer requests than connections are served, so that there are
// connections left on which others are refused.
func Divide(files int) Budget {
	half := max((files-min(kept, files/4))/2, 8)
	return Budget{Files: files, Clients: half, Requests: half - half/4}
}
