package forward

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

	ownrig "authgate/internal/test/rig"
)

// An Upgrade reaches the upstream only in a whole opening handshake of a WebSocket, or if the route allows each of the
// protocols and there is no body. TestSocketSignedOut has a WebSocket that opens.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	yaml := ownrig.Edit(t, ownrig.Base, "routes:",
		"routes:\n  - {match: /tunnel/, upstream: app, auth: [none], upgrade: "+
			"[tcp, DERP]}")
	for _, noReuse := range []bool{false, true} {
		if noReuse {
			yaml = ownrig.Edit(t, yaml, `url: "http://app.invalid"`,
				`url: "http://app.invalid", reuse_connections: false`)
		}
		r := newStub(t, yaml)
		for _, c := range []struct {
			method, path, body, upgrade string
			handshake                   []string
			passes                      bool
		}{
			{"GET", "/public/", "", "websocket", ownrig.Handshake, true},
			{"GET", "/public/", "", "WebSocket", ownrig.Handshake, true},
			{"GET", "/public/", "", "h2c", ownrig.Handshake, false},
			{"GET", "/public/", "", "websocket, h2c", ownrig.Handshake, false},
			{"GET", "/public/", "", "web\xffsocket", ownrig.Handshake, false},
			{"GET", "/public/", "", "websocket", nil, false},
			{"GET", "/public/", "", "websocket", ownrig.Handshake[:1], false},
			{"GET", "/public/", "", "websocket", ownrig.Handshake[1:], false},
			{"GET", "/public/", "", "websocket", []string{"Sec-WebSocket-Key: c2hvcnQ=", ownrig.Handshake[1]}, false},
			{"GET", "/public/", "", "websocket", []string{ownrig.Handshake[0], "Sec-WebSocket-Version: 8"}, false},
			{"GET", "/public/", "", "websocket", append([]string{ownrig.Handshake[0]}, ownrig.Handshake...), false},
			{"GET", "/public/", "x", "websocket", ownrig.Handshake, false},
			{"POST", "/public/", "", "websocket", ownrig.Handshake, false},
			{"GET", "/public/", "", "tcp", nil, false},
			{"GET", "/tunnel/", "", "tcp", nil, true},
			{"POST", "/tunnel/", "", "derp, TCP", nil, true},
			{"POST", "/tunnel/", "x", "tcp", nil, false},
			{"PUT", "/tunnel/", "", "tcp", nil, false},
			{"GET", "/tunnel/", "", "tcp, h2c", nil, false},
			{"GET", "/tunnel/", "", "tcp,", nil, false},
			{"GET", "/tunnel/", "", "websocket", ownrig.Handshake, true},
			{"GET", "/tunnel/", "", "websocket", nil, false},
		} {
			r.Want(200, c.method, c.path, c.body, append([]string{"Connection: Upgrade", "Upgrade: " + c.upgrade},
				c.handshake...)...)
			want := ""
			if c.passes {
				want = c.upgrade
			}
			if h := r.app.Last().Header; h.Get("Upgrade") != want || (h["Connection"] != nil) != c.passes {
				t.Errorf("no reuse %t: %s %s %q with %q and the body %q: the upstream gets %v", noReuse, c.method, c.path,
					c.upgrade, c.handshake, c.body, h)
			}
		}
	}
}

// Several Upgrade lines are one list (RFC 9110, section 5.3), and each of its protocols counts.
func TestUpgradeLines(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Edit(t, ownrig.Base, "routes:",
		"routes:\n  - {match: /tunnel/, upstream: app, auth: [none], upgrade: [tcp, derp]}"))
	for _, c := range []struct {
		path, first, second, want string
	}{
		{"/tunnel/", "tcp", "derp", "tcp, derp"},
		{"/tunnel/", "tcp", "h2c", ""},
		{"/tunnel/", "h2c", "tcp", ""},
		{"/tunnel/", "tcp", "websocket", ""},
		{"/public/", "websocket", "h2c", ""},
		{"/public/", "", "websocket", ""},
	} {
		r.Want(200, "GET", c.path, "", append([]string{"Connection: Upgrade", "Upgrade: " + c.first,
			"Upgrade: " + c.second},
			ownrig.Handshake...)...)
		if got := strings.Join(r.app.Last().Header["Upgrade"], "|"); got != c.want {
			t.Errorf("%s with %q and %q: the upstream gets %q", c.path, c.first, c.second, got)
		}
	}
}

// An upstream that switches to a protocol which was not asked for fails, and the client gets nothing
// of it. One that chooses from several does not. What is not a WebSocket is copied as it is, and cut
// off when its login ends.
func TestUpgradeChosen(t *testing.T) {
	t.Parallel()
	yaml := ownrig.Edit(t, ownrig.Base, "routes:",
		"routes:\n  - {match: /tunnel/, upstream: app, auth: [session], upgrade: "+
			"[tcp, derp]}")
	for _, c := range []struct {
		path, upgrade, chosen string
		switches              bool
	}{
		{"/session/", "websocket", "h2c", false},
		{"/session/", "h2c", "h2c", false},
		{"/tunnel/", "tcp, derp", "h2c", false},
		{"/tunnel/", "tcp, derp", "tcp, derp", true}, // in layers (RFC 9110, section 7.8)
		{"/tunnel/", "tcp, derp", "DERP", true},
		{"/tunnel/", "tcp", "tcp", true},
	} {
		listening(t, yaml, func(t *testing.T, r *rig, dial func() net.Conn) {
			here, there := net.Pipe()
			defer here.Close()
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				answer := ownrig.Response(q, http.StatusSwitchingProtocols, http.Header{
					"Connection": {"Upgrade"}, "Upgrade": {c.chosen}, "Sec-Websocket-Accept": {"x"},
				}, "")
				answer.Body = there
				return answer, nil
			}
			client := dial()
			defer client.Close()
			fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n%s\r\n\r\n",
				c.path, c.upgrade, strings.Join(ownrig.Handshake, "\r\n"), aliceSession)
			fromGateway := bufio.NewReader(client)
			answer, err := http.ReadResponse(fromGateway, nil)
			if err != nil || (answer.StatusCode == 101) != c.switches || !c.switches && answer.StatusCode != 502 {
				t.Fatalf("%s asks for %q, the upstream chooses %q: %v, %v", c.path, c.upgrade, c.chosen, answer, err)
			}
			if accepted := answer.Header["Sec-Websocket-Accept"] != nil; accepted != c.switches {
				t.Errorf("%s asks for %q, the upstream chooses %q: the client gets %v",
					c.path, c.upgrade, c.chosen, answer.Header)
			}
			if !c.switches {
				return
			}
			const bytes = "\x81\x7f" // would begin a long frame
			for from, to := range map[net.Conn]io.Reader{here: fromGateway, client: here} {
				go func() { _, _ = io.WriteString(from, bytes) }()
				got := make([]byte, len(bytes))
				if _, err := io.ReadFull(to, got); err != nil || string(got) != bytes {
					t.Errorf("bytes arrive as %q, %v", got, err)
				}
			}
			r.end()
			if rest, err := io.ReadAll(fromGateway); len(rest) > 0 {
				t.Errorf("after the end of the login the client gets %q, %v", rest, err)
			}
		})
	}
}

// The fields of a handshake are spelled as in RFC 6455 on their way to the upstream and
// back: some devices compare them as they are.
func TestSpellingOfHandshakes(t *testing.T) {
	t.Parallel()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upstream.Close() })
	asked := make(chan string, 1)
	go func() {
		c, err := upstream.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		asked <- readHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-Websocket-Protocol: chat\r\nsec-websocket-extensions: "+
			"x\r\n\r\n")
	}()
	r := newAt(t, ownrig.Edit(t, ownrig.Base, "http://app.invalid", "http://"+upstream.Addr().String()))
	front := httptest.NewServer(r)
	t.Cleanup(front.Close)
	client, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	fmt.Fprintf(client, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%s\r\n"+
		"sec-websocket-protocol: chat\r\nSEC-WEBSOCKET-EXTENSIONS: x\r\n\r\n", strings.Join(ownrig.Handshake, "\r\n"))
	answered := readHead(bufio.NewReader(client))
	for head, fields := range map[string][]string{
		<-asked: {"Sec-WebSocket-Key: ", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat",
			"Sec-WebSocket-Extensions: x"},
		answered: {"HTTP/1.1 101", "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-WebSocket-Protocol: chat",
			"Sec-WebSocket-Extensions: x"},
	} {
		for _, field := range fields {
			if strings.Count(strings.ToLower(head), strings.ToLower(field)) != 1 || !strings.Contains(head, field) {
				t.Errorf("%q is not once in\n%s", field, head)
			}
		}
	}
}

// So is the field of an upstream that refuses a handshake (RFC 6455, section 4.4).
func TestSpellingOfRefusals(t *testing.T) {
	t.Parallel()
	r := newStub(t, ownrig.Base)
	r.app.Answer = func(q *http.Request) (*http.Response, error) {
		return ownrig.Response(q, http.StatusUpgradeRequired, http.Header{"Sec-Websocket-Version": {"13, 8"}}, ""), nil
	}
	spelled, _, _ := strings.Cut(ownrig.Handshake[1], ":")
	for _, upgrade := range []string{"websocket", "h2c"} {
		h := r.Do("GET", "/public/", "", append([]string{"Connection: Upgrade", "Upgrade: " + upgrade},
			ownrig.Handshake...)...).Header()
		if !slices.Equal(h[spelled], []string{"13, 8"}) || h["Sec-Websocket-Version"] != nil {
			t.Errorf("for %s the client gets %v", upgrade, h)
		}
	}
}

// readHead returns what comes before the first empty line.
func readHead(from *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := from.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}
