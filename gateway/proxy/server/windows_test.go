package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"authgate/gateway/config"
)

// Uploads that nobody reads stop no other request on their connection.
func TestUnreadUploads(t *testing.T) {
	t.Parallel()
	const unread = 20
	for _, version := range []string{"HTTP/2", "HTTP/3"} {
		release := make(chan struct{})
		s := serveHTTP3(t, config.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/unread" {
				<-release
				return
			}
			n, err := io.Copy(io.Discard, r.Body)
			if n != 64<<10 || err != nil {
				t.Errorf("%s: %d bytes of the body come, %v", version, n, err)
			}
		})
		client := s.client()
		if version == "HTTP/2" {
			config := s.tls()
			config.NextProtos = nil
			transport := &http.Transport{
				TLSClientConfig: config, ForceAttemptHTTP2: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", s.server.Address(nameHTTPS))
				},
			}
			t.Cleanup(transport.CloseIdleConnections)
			client = &http.Client{Transport: transport, Timeout: patience}
		}
		s.send(client, s.request("POST", "/", bytes.NewReader(make([]byte, 64<<10)))) // there is a connection
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, unread)
		var filled sync.WaitGroup
		filled.Add(unread)
		for range unread {
			body := &tally{Reader: io.LimitReader(zeros{}, 20<<20), reached: filled.Done}
			r := s.request("POST", "/unread", body).WithContext(ctx)
			go func() {
				defer func() { done <- struct{}{} }()
				if response, err := client.Do(r); err == nil {
					response.Body.Close()
				}
			}()
		}
		filled.Wait()
		for range 3 {
			s.send(client, s.request("POST", "/", bytes.NewReader(make([]byte, 64<<10))))
		}
		cancel()
		close(release)
		for range unread {
			<-done
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// tally tells when as many bytes are read as the window of a stream has.
type tally struct {
	io.Reader
	read    int
	reached func()
}

// Read implements io.Reader.
func (c *tally) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if before := c.read; before < streamWindow && before+n >= streamWindow {
		c.reached()
	}
	c.read += n
	return n, err
}
