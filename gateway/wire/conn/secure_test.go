package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A handshake that panics, fails or does not end takes its own connection alone.
func TestSecure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		certificate := selfSigned(t)
		config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName == "panics.example" {
				panic("no certificate can be found")
			}
			return &certificate, nil
		}, SessionTicketsDisabled: true}
		below := &pipes{make(chan net.Conn), make(chan struct{})}
		s := NewSecure(below, config, 10*time.Second, log.New(&said, "", 0))
		accepted := make(chan net.Conn)
		ended := make(chan error)
		go func() {
			for {
				c, err := s.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		dial := func() net.Conn {
			here, there := net.Pipe()
			below.conns <- there
			return here
		}
		shake := func(name string) error {
			return tls.Client(dial(), &tls.Config{InsecureSkipVerify: true, ServerName: name}).Handshake()
		}
		silent, plain := dial(), dial()
		if err := shake("panics.example"); err == nil {
			t.Error("a handshake that panics succeeds")
		}
		go func() { _, _ = io.WriteString(plain, "GET / HTTP/1.1\r\n\r\n") }() // the answer tells
		if answer, _ := io.ReadAll(plain); !strings.HasPrefix(string(answer), "HTTP/1.0 400 ") {
			t.Errorf("HTTP without TLS is answered with %q", answer)
		}
		go func() { _ = shake("well.example") }() // Accept tells
		c := <-accepted
		if _, ok := c.(*secureConn); !ok {
			t.Errorf("the connection is a %T", c)
		}
		began := time.Now()
		if _, err := silent.Read(make([]byte, 1)); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("a client that says nothing is closed after %v, %v", time.Since(began), err)
		}
		synctest.Wait() // for the log
		for _, want := range []string{"no certificate can be found", "HTTP request to an HTTPS server", "deadline exceeded"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%q is not logged: %s", want, said.String())
			}
		}
		s.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v", err)
		}
	})
}
