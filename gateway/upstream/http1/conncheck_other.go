//go:build !unix || aix

package http1

import "net"

// connCheck reports false: this system cannot check a connection without reading
// from it, so no connection is used again.
func connCheck(net.Conn) bool { return false }
