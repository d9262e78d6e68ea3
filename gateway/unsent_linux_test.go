package gateway

import (
	"io"
	"net"
	"testing"
	"time"
)

// What the client's system has not taken is told, until it has.
func TestUnsent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ending := &lingeringListener{listener.(*net.TCPListener), &lingering{}}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := ending.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	conn := accepted.(*lingeringConn)
	const size = 20_000_000 // more than systems keep
	written := make(chan error)
	go func() {
		_, err := conn.Write(make([]byte, size))
		written <- err
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); conn.unsent(conn.halfConn) == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("all is sent, though nobody has read it")
		}
	}
	if _, err := io.CopyN(io.Discard, client, size); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); conn.unsent(conn.halfConn) > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are not sent, though all were read", conn.unsent(conn.halfConn))
		}
	}
	accepted.Close()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for name, c := range map[string]net.Conn{"closed": conn.halfConn, "no socket": here} {
		if n := unsent(c); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}
