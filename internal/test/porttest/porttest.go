// Package porttest finds TCP ports for programs that tests start. A port belongs
// to one test at a time, even among tests of several processes.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports are below those that systems give to outgoing connections, so that no
// connection takes one before the program listens or while it restarts.
const (
	lowest = 20_000
	ports  = 12_000
)

// Port returns a free TCP port of 127.0.0.1. The test keeps the port until it
// ends, because it keeps the UDP port of the same number open.
func Port(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(lowest + rand.IntN(ports))
		lease, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue // another test has it
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			lease.Close()
			continue
		}
		listener.Close()
		t.Cleanup(func() { lease.Close() })
		return port
	}
	t.Fatal("no free port")
	return ""
}

// Address returns 127.0.0.1 with a port from [Port].
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", Port(t))
}
