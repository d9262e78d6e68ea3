package server

import (
	"net"
	"strings"
	"testing"
)

// An address at which the system lets no program listen comes with what to do.
func TestListenHint(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): "another program listens there",
		"192.0.2.1:8443":      "this machine does not have the address",
		"127.0.0.1:nowhere":   "",
	} {
		_, err := net.Listen("tcp", address)
		if hint := listenHint(err); !strings.Contains(hint, want) || (want == "") != (hint == "") {
			t.Errorf("%s: %v: got the hint %q, want %q", address, err, hint, want)
		}
	}
}
