//go:build !linux

package conn

import "net"

// unsent is not known on this system.
func unsent(net.Conn) (n int, known bool) { return 0, false }

// hungUp is not known on this system.
func hungUp(net.Conn) bool { return false }
