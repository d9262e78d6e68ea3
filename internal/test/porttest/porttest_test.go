package porttest

import (
	"net"
	"testing"
)

// TestPort: a port is free for a TCP listener, also a second time, and no other
// test gets it before the first one ends.
func TestPort(t *testing.T) {
	given := map[string]bool{}
	for range 200 {
		address := Address(t)
		if given[address] {
			t.Errorf("%s was given twice", address)
		}
		given[address] = true
		for range 2 {
			listener, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			listener.Close()
		}
	}
	for address := range given {
		if other, err := net.ListenPacket("udp", address); err == nil {
			other.Close()
			t.Errorf("%s is not held", address)
		}
	}
}

// TestPortIsReturned: the test's end gives a port back.
func TestPortIsReturned(t *testing.T) {
	var address string
	t.Run("holds it", func(t *testing.T) { address = Address(t) })
	lease, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	lease.Close()
}
