package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

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
			strings.Join(ownrig.Handshake, "\r\n"), in.cookie)
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
