package conn

import (
	"errors"
	"syscall"
)

// reserved is how many file descriptors are for everything but connections of
// clients and to upstreams: the admin listener, the store, providers and files.
const reserved = 64

// Budget is how many connections and requests may exist at once.
type Budget struct {
	Files    int // file descriptors of the process
	Clients  int // connections of clients
	Requests int // requests; each may need a connection to an upstream
}

// OutOfDescriptors reports whether err means that the process or the system has no file
// descriptors left.
func OutOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Divide divides the file descriptors of a process. One half is for clients and
// one for upstreams. It allows fewer requests than connections of clients, so
// that the gateway can still accept a request to refuse it.
func Divide(files int) Budget {
	half := max((files-min(reserved, files/4))/2, 8)
	return Budget{Files: files, Clients: half, Requests: half - half/4}
}
