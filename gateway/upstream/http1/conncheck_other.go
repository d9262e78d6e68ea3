//go:build !unix || aix

package http1

import "net"

// checker reports false: this system cannot check a connection without reading
// from it, so no connection is used again.
type checker struct{}

func newChecker(net.Conn) *checker { return nil }

func (c *checker) check() bool { return false }
