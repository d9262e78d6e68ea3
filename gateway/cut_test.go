package gateway

import (
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/conn"
)

// securely is a connection over TLS in a stop, and its client, which reads no
// more.
func securely(t *testing.T, set *conn.Set) (server *tls.Conn, client net.Conn) {
	t.Helper()
	d := newDoor()
	accepted := make(chan net.Conn)
	go func() {
		c, err := set.Listener(d).Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := d.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	config := tlsConfig(openCA(t, t.TempDir(), time.Now))
	config.SessionTicketsDisabled = true // the client would have to read them
	server = tls.Server(<-accepted, config)
	shaken := make(chan error)
	go func() { shaken <- tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return server, client
}

// A WebSocket is cut off at once, though its client takes nothing and TLS wants
// to say goodbye.
func TestSocketCut(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"idle": false, "busy": true} {
		synctest.Test(t, func(t *testing.T) {
			set := conn.NewSet(conn.Options{Logger: slog.New(slog.DiscardHandler)})
			set.Linger(time.Now().Add(time.Minute))
			server, client := securely(t, set)
			defer client.Close()
			gaveUp := false
			s := &socket{Conn: server, giveUp: func() { gaveUp = true }, begun: make(chan struct{}), ended: make(chan struct{})}
			over := make(chan error, 2)
			go func() {
				_, err := s.Read(make([]byte, 1))
				over <- err
			}()
			if writes {
				go func() {
					_, err := s.Write(text)
					over <- err
				}()
			} else {
				over <- errBroken
			}
			synctest.Wait()
			began := time.Now()
			s.cut()
			for range cap(over) {
				if err := <-over; err == nil {
					t.Errorf("%s: what went on goes on", name)
				}
			}
			set.Wait()
			if _, err := client.Write([]byte{0}); err == nil || !gaveUp || time.Since(began) != 0 {
				t.Errorf("%s: cut off after %v, %v, given up: %t", name, time.Since(began), err, gaveUp)
			}
		})
	}
}
