package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/upstream"
	"authgate/gateway/upstream/http1"
)

// rawApplication returns a rig whose upstream answers each request with bytes, and then
// closes the connection.
func rawApplication(t *testing.T, bytes string) *rig {
	t.Helper()
	return newNetworkRig(t, edit(t, baseConfig, "store:", "tls: {hsts: 48h}\nstore:"), func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, bytes) // which may be more than the gateway reads
	})
}

// dialed returns a server with the gateway, and a connection to it.
func (r *rig) dialed(t *testing.T) (server *httptest.Server, client net.Conn) {
	t.Helper()
	server = httptest.NewServer(r.Gateway)
	t.Cleanup(server.Close)
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return server, client
}

// A request to an upstream over TLS takes few informational responses, whichever client
// sends it. TestInformational of http1 has those without TLS.
func TestInformationalFlood(t *testing.T) {
	t.Parallel()
	trace := httptrace.ContextClientTrace(upstream.LimitInformational(t.Context()))
	for n := range 2 * http1.MaxInformational {
		if err := trace.Got1xxResponse(103, nil); errors.Is(err, http1.ErrInformational) != (n >= http1.MaxInformational) {
			t.Errorf("informational response %d: %v", n+1, err)
		}
	}
}

// Informational responses reach the client, and do not change the header of the
// response. While the gateway drains, only the response asks the client to close the
// connection.
func TestInformationalKeepsHeaders(t *testing.T) {
	t.Parallel()
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nStrict-Transport-Security: max-age=1\r\n\r\n"
	for hints := range 3 {
		r := rawApplication(t, strings.Repeat(hint, hints)+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		r.Drain()
		_, client := r.dialed(t)
		fmt.Fprint(client, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
		all, err := io.ReadAll(client) // the server closes the connection
		parts := strings.Split(string(all), "\r\n\r\n")
		if err != nil || len(parts) != hints+2 || parts[hints+1] != "ok" {
			t.Fatalf("after %d hints: %q, %v", hints, all, err)
		}
		for _, hint := range parts[:hints] {
			if !strings.HasPrefix(hint, "HTTP/1.1 103") || strings.Contains(hint, "Connection") {
				t.Errorf("the hint is %q", hint)
			}
		}
		if header := parts[hints]; !strings.HasPrefix(header, "HTTP/1.1 200") || strings.Count(header, "Connection: close") != 1 || strings.Count(header, "max-age=") != 1 || !strings.Contains(header, "max-age=172800") {
			t.Errorf("after %d hints: %q", hints, header)
		}
	}
}

// A WebSocket is passed through and counted as 101. No other protocol is
// requested from the upstream.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	const refused = "not asked; Connection: "
	for _, c := range []struct {
		ask, upstream string
		status        int
		body          string
	}{
		{"websocket", "websocket", 101, ""},
		{"WebSocket", "websocket", 101, ""},
		{"h2c", "websocket", 200, refused},
		{"websocket, h2c", "websocket", 200, refused},
		{"web\xffsocket", "websocket", 200, refused},
		{"websocket", "h2c", 502, ""},
	} {
		t.Run(c.ask+" of "+c.upstream, func(t *testing.T) {
			t.Parallel()
			r := newNetworkRig(t, baseConfig, func(w http.ResponseWriter, r *http.Request) { // switches and then echoes
				if r.Header.Get("Upgrade") == "" {
					fmt.Fprintf(w, "not asked; Connection: %s", r.Header.Get("Connection"))
				} else if conn, rw, err := http.NewResponseController(w).Hijack(); err == nil {
					defer conn.Close()
					fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", c.upstream)
					rw.Flush()
					_, _ = io.Copy(conn, rw) // until the other side has had enough
				}
			})
			server, client := r.dialed(t)
			fmt.Fprintf(client, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", c.ask)
			reader := bufio.NewReader(client)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil || answer.StatusCode != c.status {
				t.Fatalf("%v, %v, want %d", answer, err, c.status)
			}
			switch c.status {
			case 200:
				if body, err := io.ReadAll(answer.Body); err != nil || string(body) != c.body {
					t.Errorf("%q, %v; want %q", body, err, c.body)
				}
			case 101:
				fmt.Fprint(client, "ping")
				echo := make([]byte, 4)
				if _, err := io.ReadFull(reader, echo); err != nil || string(echo) != "ping" {
					t.Errorf("the upstream says %q, %v", echo, err)
				}
			}
			client.Close()
			server.Close() // waits for requests, but not for WebSockets
			r.sockets.Wait()
			if line := r.log.Last(t, "request"); line["status"] != float64(c.status) || (line["decision"] == "allow") != (c.status < 400) {
				t.Errorf("logged %v", line)
			}
			if n := r.sample("authgate_requests_total", fmt.Sprintf("code=%d", c.status)); n != 1 {
				t.Errorf("%v requests counted as %d", n, c.status)
			}
		})
	}
}

// Over HTTP/2, the gateway sends GOAWAY (RFC 9113, section 6.8) while it drains: the
// client gets its response, and opens another connection for the next request.
func TestDrainingHTTP2(t *testing.T) {
	t.Parallel()
	for draining, connections := range map[bool]int{false: 1, true: 2} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			if draining {
				r.Drain()
			}
			dials := 0
			transport := transportOver(func() net.Conn { dials++; return dial() }, "HTTP/2.0")
			defer transport.CloseIdleConnections()
			for range 2 {
				answer := roundTrip(t, transport, "GET", "/public/", http.NoBody)
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Error(err)
				}
				answer.Body.Close()
				synctest.Wait()
			}
			if dials != connections || r.upstream.count() != 2 {
				t.Errorf("draining %t: %d connections for %d requests, want %d for 2", draining, dials, r.upstream.count(), connections)
			}
		})
	}
}

// A WebSocket whose login ends is closed with 1008. The log has the reason. While the
// gateway drains, its response does not ask to close the connection.
func TestSocketSignedOut(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		in := r.login(aliceIn)
		r.Drain()
		here, there := net.Pipe()
		defer here.Close()
		r.upstream.answering(func(q *http.Request) (*http.Response, error) {
			answer := response(q, http.StatusSwitchingProtocols, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, "")
			answer.Body = there
			return answer, nil
		})
		client := dial()
		defer client.Close()
		fmt.Fprintf(client, "GET /session/ HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%s\r\n\r\n", in.cookie)
		fromGateway := bufio.NewReader(client)
		answer, err := http.ReadResponse(fromGateway, nil)
		if err != nil || answer.StatusCode != 101 || !slices.Equal(answer.Header["Connection"], []string{"Upgrade"}) {
			t.Fatalf("%v, %v", answer, err)
		}
		time.Sleep(time.Minute)
		r.do("POST", "/logout", "", in.cookie)
		ended := time.Now()
		if got, _ := io.ReadAll(fromGateway); string(got) != "\x88\x0c\x03\xf0signed out" {
			t.Errorf("the client gets %x", got)
		}
		r.sockets.Wait()
		if took := time.Since(ended); took > within {
			t.Errorf("ended after %v", took)
		}
		if line := r.log.Last(t, "request"); line["status"] != 101.0 || !strings.HasPrefix(fmt.Sprint(line["reason"]), "the login has ended") {
			t.Errorf("logged %v", line)
		}
	})
}
