//go:build !unix || aix

package http1

import "net"

// descriptor cannot be had: this system cannot check a connection without reading
// from it, so no connection is used again.
type descriptor struct{}

func newDescriptor(net.Conn) *descriptor { return nil }

func (d *descriptor) isClean() bool { return false }

func (d *descriptor) exchange(_, _ []byte) (sent, n int, err error) { return 0, 0, errNotQuiet }
