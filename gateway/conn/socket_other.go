//go:build !linux

package conn

import "net"

// unsent cannot be asked for here.
func unsent(net.Conn) (n int, known bool) { return 0, false }

// hungUp cannot be asked for here.
func hungUp(net.Conn) bool { return false }
