// Package porttest finds TCP ports for programs that tests start. The ports
// belong to one test at a time, also among tests of other processes.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports lie below those that systems give to outgoing connections, so that no
// connection takes one before the program listens, or while it restarts.
const (
	lowest = 20_000
	ports  = 12_000
)

// Port returns a TCP port of 127.0.0.1 that is free. The test keeps it until it
// ends: it holds the UDP port of the same number, which no other test gets.
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
	t.Fatal("there is no free port")
	return ""
}

// Address returns 127.0.0.1 with a port as [Port] finds it.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", Port(t))
}
