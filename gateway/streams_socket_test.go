package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// upgraded opens a WebSocket through a gateway. fromGateway has what comes after the
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

// A WebSocket whose login ends is closed with 1008, and the log says why.
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
		if line := r.log.last(t, "request"); line["status"] != 101.0 || !strings.HasPrefix(fmt.Sprint(line["reason"]), "the login has ended") {
			t.Errorf("logged %v", line)
		}
	})
}
