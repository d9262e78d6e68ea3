package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/upstream/http1"
)

// rawApplication returns a rig whose upstream answers each request with bytes,
// repeatedly if endless, and then closes the connection.
func rawApplication(t *testing.T, bytes string, endless bool) *rig {
	t.Helper()
	return newNetworkRig(t, edit(t, baseConfig, "store:", "tls: {hsts: 48h}\nstore:"), func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			if _, err := io.WriteString(conn, bytes); err != nil || !endless {
				return
			}
		}
	})
}

// fetch sends a request to the gateway over a connection, and returns the response
// with its body.
func (r *rig) fetch(ctx context.Context, method string) (*http.Response, string) {
	r.t.Helper()
	server := httptest.NewServer(r.Gateway)
	defer server.Close()
	q, err := http.NewRequestWithContext(ctx, method, server.URL+"/public/", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Error(err)
	}
	return answer, string(body)
}

// An upstream that sends informational responses without end fails, and its client
// gets few of them.
func TestInformationalFlood(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST"} {
		r := rawApplication(t, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", true)
		hints := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			if hints++; hints > 1000 {
				return fmt.Errorf("%d informational responses", hints)
			}
			return nil
		}}
		answer, _ := r.fetch(httptrace.WithClientTrace(t.Context(), trace), method)
		if answer.StatusCode != http.StatusBadGateway || hints > http1.MaxInformational+1 {
			t.Errorf("%s: %d after %d informational responses, want 502 after %d at most", method, answer.StatusCode, hints, http1.MaxInformational)
		}
	}
}

// Informational responses do not change the header of the response.
func TestInformationalKeepsHeaders(t *testing.T) {
	t.Parallel()
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nStrict-Transport-Security: max-age=1\r\n\r\n"
	for _, method := range []string{"GET", "POST"} {
		for hints := range 3 {
			r := rawApplication(t, strings.Repeat(hint, hints)+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", false)
			answer, body := r.fetch(t.Context(), method)
			if got := answer.Header["Strict-Transport-Security"]; answer.StatusCode != 200 || body != "ok" || !slices.Equal(got, []string{"max-age=172800"}) {
				t.Errorf("%s after %d hints: %d %q with Strict-Transport-Security %q", method, hints, answer.StatusCode, body, got)
			}
		}
	}
}

// An upstream that switches protocols although the request does not ask for it
// fails, and gets no tunnel to the client.
func TestSwitchUnasked(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"WebSocket": "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/2": "Connection: Upgrade\r\nUpgrade: h2c\r\n",
		"to nothing": "", "Connection alone": "Connection: Upgrade\r\n", "Upgrade alone": "Upgrade: websocket\r\n",
		"to an empty name": "Connection: Upgrade\r\nUpgrade: \r\n", "with a length": "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 4\r\n",
	} {
		for _, method := range []string{"GET", "POST"} {
			r := rawApplication(t, "HTTP/1.1 101 Switching Protocols\r\n"+header+"\r\nevil", false)
			if answer, body := r.fetch(t.Context(), method); answer.StatusCode != http.StatusBadGateway || strings.Contains(body, "evil") {
				t.Errorf("%s, %s: %d %q", name, method, answer.StatusCode, body)
			}
		}
	}
}

// switching is an upstream that switches to a protocol and then echoes.
func switching(protocol string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" && protocol == "websocket" {
			fmt.Fprintf(w, "not asked; Connection: %s", r.Header.Get("Connection"))
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
		rw.Flush()
		_, _ = io.Copy(conn, rw) // until the other side has had enough
	}
}

// A WebSocket is passed through and counted as 101. No other protocol is
// requested from the upstream.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	const refused = "not asked; Connection: "
	for _, c := range []struct {
		name, ask, upstream string
		status              int
		body                string
	}{
		{"WebSocket", "websocket", "websocket", 101, ""},
		{"WebSocket in another case", "WebSocket", "websocket", 101, ""},
		{"HTTP/2 in cleartext", "h2c", "websocket", 200, refused},
		{"two protocols", "websocket, h2c", "websocket", 200, refused},
		{"not a protocol", "web\xffsocket", "websocket", 200, refused},
		{"an upstream that switches to another protocol", "websocket", "h2c", 502, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newNetworkRig(t, baseConfig, switching(c.upstream))
			server := httptest.NewServer(r.Gateway)
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", c.ask)
			reader := bufio.NewReader(conn)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != c.status {
				t.Fatalf("%s, want %d", answer.Status, c.status)
			}
			if c.body != "" {
				if body, err := io.ReadAll(answer.Body); err != nil || string(body) != c.body {
					t.Errorf("%q, %v; want %q", body, err, c.body)
				}
			}
			if c.status == 101 {
				if _, err := io.WriteString(conn, "ping"); err != nil {
					t.Fatal(err)
				}
				echo := make([]byte, 4)
				if _, err := io.ReadFull(reader, echo); err != nil || string(echo) != "ping" {
					t.Errorf("the upstream says %q, %v", echo, err)
				}
			}
			conn.Close()
			server.Close() // waits for requests, but not for WebSockets
			r.sockets.Wait()
			line := r.log.Last(t, "request")
			if line["status"] != float64(c.status) || (line["decision"] == "allow") != (c.status < 400) {
				t.Errorf("logged %v", line)
			}
			if n := r.sample("authgate_requests_total", fmt.Sprintf("code=%d", c.status)); n != 1 {
				t.Errorf("%v requests counted as %d", n, c.status)
			}
		})
	}
}

// While the gateway drains, a response asks the client to close the connection.
// Informational responses do not, and neither does a switch to WebSocket.
func TestDrainingAnswers(t *testing.T) {
	t.Parallel()
	r := rawApplication(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false)
	r.Drain()
	server := httptest.NewServer(r.Gateway)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
	all, err := io.ReadAll(bufio.NewReader(conn)) // the server closes the connection
	if err != nil {
		t.Fatal(err)
	}
	hint, final, _ := strings.Cut(string(all), "\r\n\r\n")
	if !strings.Contains(hint, "103") || strings.Contains(hint, "Connection") {
		t.Errorf("the hint is %q", hint)
	}
	if n := strings.Count(final, "Connection: close\r\n"); n != 1 || !strings.HasPrefix(final, "HTTP/1.1 200") {
		t.Errorf("the answer is %q", final)
	}
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.Drain()
		client := dial()
		_, upstream := upgraded(t, r, client, "/public/", "Accept: */*") // with the one value of Connection that it should have
		client.Close()
		upstream.Close()
	})
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
				q, err := http.NewRequest("GET", "http://gw.example/public/", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := transport.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
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

// upgraded opens a WebSocket through a gateway. fromGateway reads what follows the
// response.
func upgraded(t *testing.T, r *rig, client net.Conn, path, header string) (fromGateway *bufio.Reader, upstream net.Conn) {
	t.Helper()
	upstreams := make(chan net.Conn, 1)
	r.upstream.answering(func(q *http.Request) (*http.Response, error) {
		here, there := net.Pipe()
		upstreams <- here
		answer := response(q, http.StatusSwitchingProtocols, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, "")
		answer.Body = there
		return answer, nil
	})
	if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+header+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	fromGateway = bufio.NewReader(client)
	answer, err := http.ReadResponse(fromGateway, nil)
	if err != nil {
		t.Fatal(err)
	}
	if connection := answer.Header["Connection"]; answer.StatusCode != 101 || len(connection) != 1 || connection[0] != "Upgrade" {
		t.Fatalf("%d, Connection: %q", answer.StatusCode, connection)
	}
	return fromGateway, <-upstreams
}

// A WebSocket whose login ends is closed with 1008. The log has the reason.
func TestSocketSignedOut(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		in := r.login(aliceIn)
		client := dial()
		defer client.Close()
		fromGateway, upstream := upgraded(t, r, client, "/session/", in.cookie)
		defer upstream.Close()
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
