package conn

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// unsent returns more than 0 until the client has read everything.
func TestUnsent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	set := NewSet(Options{Logger: slog.New(slog.DiscardHandler)})
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := set.Listener(listener).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	conn := accepted.(*Conn)
	rest := func(c net.Conn) int {
		n, known := unsent(c)
		if !known {
			t.Fatal("the system does not tell what is unsent")
		}
		return n
	}
	const size = 20_000_000 // more than the buffers of the systems
	written := make(chan error)
	go func() {
		_, err := conn.Write(make([]byte, size))
		written <- err
	}()
	await := func(what string, come func() bool) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(2 * time.Minute); !come(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	await("all is sent, though the client has not read", func() bool { return rest(conn.Conn) > 0 })
	if _, err := io.CopyN(io.Discard, client, size); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	await("bytes are not sent, though all were read", func() bool { return rest(conn.Conn) == 0 })
	accepted.Close()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for name, c := range map[string]net.Conn{"closed": conn.Conn, "no socket": here} {
		if n := rest(c); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}
