package conn

import (
	"io"
	"net"
	"testing"

	"authgate/internal/test/must"
)

// unsent returns more than 0 until the client has read everything.
func TestUnsent(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	client := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	defer client.Close()
	conn := must.Get(listener.Accept())(t)
	const size = 20_000_000 // more than the buffers of the systems
	written := make(chan error)
	go func() {
		_, err := conn.Write(make([]byte, size))
		written <- err
	}()
	await := func(what string, some bool) {
		t.Helper()
		must.Eventually(t, what, func() bool {
			n, known := unsent(conn)
			return known && (n > 0) == some
		})
	}
	await("the client has not read", true)
	must.Get(io.CopyN(io.Discard, client, size))(t)
	must.Do(t, <-written)
	await("all were read", false)
	conn.Close()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for name, c := range map[string]net.Conn{"closed": conn, "no socket": here} {
		if n, known := unsent(c); n != 0 || !known {
			t.Errorf("%s: %d, known: %t", name, n, known)
		}
	}
}
