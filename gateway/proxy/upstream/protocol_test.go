package upstream

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"authgate/gateway/config/forwarding"
)

// trusting is a configuration that trusts a certificate for app.internal.
func trusting(server certified) func(*forwarding.Upstream) {
	return func(c *forwarding.Upstream) {
		c.TLS = forwarding.UpstreamTLS{CAContent: server.certificate, ServerName: "app.internal"}
	}
}

// A request for a switch of protocols goes over HTTP/1.1 to a target that speaks both, before and after it has chosen
// HTTP/2.
func TestUpgradeBilingual(t *testing.T) {
	t.Parallel()
	server := newCertified(t, "app.internal")
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, r.Proto)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rw) // until the client is done
	}))
	app.EnableHTTP2 = true
	app.TLS = &tls.Config{Certificates: []tls.Certificate{server.pair(t)}}
	app.StartTLS()
	t.Cleanup(app.Close)
	f := newFixtureOf(t, trusting(server), app.URL)
	for range 2 {
		r := &http.Request{
			Method: http.MethodGet, URL: &url.URL{Opaque: "/"}, Host: "app",
			Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
		}
		response, err := f.way.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", response, err)
		}
		tunnel := response.Body.(io.ReadWriteCloser)
		if _, err := io.WriteString(tunnel, "ping\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(tunnel).ReadString('\n'); line != "ping\n" {
			t.Errorf("%q, %v", line, err)
		}
		tunnel.Close()
		if got, err := f.send(t.Context(), "GET", nil); got != "HTTP/2.0" {
			t.Errorf("other requests use %q, %v", got, err)
		}
	}
}

// reluctant serves requests over HTTP/1.1 only: over HTTP/2 it answers each with HTTP_1_1_REQUIRED. It counts both.
type reluctant struct{ over1, over2 atomic.Int64 }

func (s *reluctant) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	if begin, _ := in.Peek(len("PRI")); string(begin) == "PRI" {
		s.serve2(c, in)
		return
	}
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		s.over1.Add(1)
		body, err := io.ReadAll(r.Body)
		text := fmt.Sprintf("%d %v", len(body), err)
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		if err != nil || r.Close {
			return
		}
	}
}

func (s *reluctant) serve2(c net.Conn, in io.Reader) {
	framer := http2.NewFramer(c, in)
	if _, err := io.ReadFull(in, make([]byte, len(http2.ClientPreface))); err != nil || framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			s.over2.Add(1)
			err = framer.WriteRSTStream(f.StreamID, http2.ErrCodeHTTP11Required)
		}
		if err != nil {
			return
		}
	}
}

// A request that the target serves over HTTP/1.1 only is sent again in that way, with a body of up to 64 KiB, also
// without retries. Later ones go over HTTP/1.1 at once.
func TestHTTP11Required(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"https", "h2c"} {
		for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1} {
			server, app := newCertified(t, "app.internal"), new(reluctant)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := scheme + "://" + listener.Addr().String()
			if scheme == "https" {
				listener = tls.NewListener(listener, &tls.Config{
					Certificates: []tls.Certificate{server.pair(t)}, NextProtos: []string{"h2", "http/1.1"},
				})
			}
			t.Cleanup(func() { listener.Close() })
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go app.serve(c)
				}
			}()
			f := newFixtureOf(t, func(c *forwarding.Upstream) { trusting(server)(c); c.Retries = 0 }, address)
			want, over1 := fmt.Sprintf("%d <nil>", size), int64(3)
			for i := range over1 {
				got, err := f.send(t.Context(), "POST", strings.NewReader(strings.Repeat("x", size)))
				if tooLong := i == 0 && size > 64<<10; (got != want) != tooLong {
					t.Errorf("%s, %d bytes: %q, %v", scheme, size, got, err)
				}
			}
			if size > 64<<10 {
				over1--
			}
			if app.over2.Load() != 1 || app.over1.Load() != over1 {
				t.Errorf("%s, %d bytes: %d requests over HTTP/2 and %d over HTTP/1.1, want 1 and %d",
					scheme, size, app.over2.Load(), app.over1.Load(), over1)
			}
		}
	}
}

// A 204 or 304 that announces a body has none, over both versions of HTTP.
func TestBodilessWithLength(t *testing.T) {
	t.Parallel()
	server := newCertified(t, "app.internal")
	for _, over2 := range []bool{false, true} {
		for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
			app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.Header().Set("Etag", `"x"`)
				w.WriteHeader(status)
			}))
			app.EnableHTTP2 = over2
			app.TLS = &tls.Config{Certificates: []tls.Certificate{server.pair(t)}}
			app.StartTLS()
			t.Cleanup(app.Close)
			f := newFixtureOf(t, trusting(server), app.URL)
			r := &http.Request{Method: http.MethodGet, URL: &url.URL{Opaque: "/"}, Host: "app", Header: http.Header{}}
			response, err := f.way.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if len(body) > 0 || err != nil || response.Header["Content-Length"] != nil ||
				response.Header.Get("Etag") != `"x"` || response.StatusCode != status {
				t.Errorf("HTTP/2 %t, %d: %d, %v, %q, %v", over2, status, response.StatusCode, response.Header, body, err)
			}
		}
	}
}
