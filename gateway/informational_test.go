package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ownrig "authgate/internal/test/rig"
)

// rawApplication returns a rig whose upstream answers each request with bytes, and then
// closes the connection.
func rawApplication(t *testing.T, bytes string) *rig {
	t.Helper()
	yaml := edit(t, baseConfig, "store:", "tls: {hsts: 48h}\nstore:")
	return newNetworkRig(t, yaml, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, bytes) // which may be more than the gateway reads
	})
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
		server := httptest.NewServer(r.Gateway)
		defer server.Close()
		client, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
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
		if header := parts[hints]; !strings.HasPrefix(header, "HTTP/1.1 200") ||
			strings.Count(header, "Connection: close") != 1 || strings.Count(header, "max-age=") != 1 ||
			!strings.Contains(header, "max-age=172800") {
			t.Errorf("after %d hints: %q", hints, header)
		}
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
			transport := ownrig.TransportOver(func() net.Conn { dials++; return dial() }, "HTTP/2.0")
			defer transport.CloseIdleConnections()
			for range 2 {
				answer := ownrig.RoundTrip(t, transport, "GET", "/public/", http.NoBody)
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Error(err)
				}
				answer.Body.Close()
				synctest.Wait()
			}
			if dials != connections || r.upstream.Reached() != 2 {
				t.Errorf("draining %t: %d connections for %d requests, want %d for 2",
					draining, dials, r.upstream.Reached(), connections)
			}
		})
	}
}

// A WebSocket is passed through, and closed with 1008 when its login ends. The log has
// the reason. While the gateway drains, its response does not ask to close the connection.
func TestSocketSignedOut(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		in := r.login(aliceIn)
		r.Drain()
		here, there := net.Pipe()
		defer here.Close()
		r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
			answer := response(q, http.StatusSwitchingProtocols,
				http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, "")
			answer.Body = there
			return answer, nil
		}
		client := dial()
		defer client.Close()
		fmt.Fprintf(client, "GET /session/ HTTP/1.1\r\nHost: gw.example\r\n"+
			"Connection: Upgrade\r\nUpgrade: WebSocket\r\n%s\r\n%s\r\n\r\n",
			strings.Join(handshake, "\r\n"), in.cookie)
		fromGateway := bufio.NewReader(client)
		answer, err := http.ReadResponse(fromGateway, nil)
		if err != nil || answer.StatusCode != 101 || !slices.Equal(answer.Header["Connection"], []string{"Upgrade"}) {
			t.Fatalf("%v, %v", answer, err)
		}
		const frame = "\x81\x04ping"
		for from, to := range map[net.Conn]io.Reader{here: fromGateway, client: here} {
			go func() { _, _ = io.WriteString(from, frame) }()
			got := make([]byte, len(frame))
			if _, err := io.ReadFull(to, got); err != nil || string(got) != frame {
				t.Errorf("a frame arrives as %q, %v", got, err)
			}
		}
		time.Sleep(time.Minute)
		r.do("POST", "/logout", "", in.cookie)
		ended := time.Now()
		if got, _ := io.ReadAll(fromGateway); string(got) != "\x88\x0c\x03\xf0signed out" {
			t.Errorf("the client gets %x", got)
		}
		r.WebSockets().Wait()
		if took := time.Since(ended); took > within {
			t.Errorf("ended after %v", took)
		}
		if n := r.sample("authgate_requests_total", "code=101"); n != 1 {
			t.Errorf("%v requests counted as 101", n)
		}
		if line := r.log.Last(t, "request"); line["status"] != 101.0 ||
			!strings.HasPrefix(fmt.Sprint(line["reason"]), "the login has ended") {
			t.Errorf("logged %v", line)
		}
	})
}
