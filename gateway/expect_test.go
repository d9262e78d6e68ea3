package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// serveHints returns an application that answers each request with a 100 (Continue), as many hints as the path
// says, and the Expect and the body that it got.
func serveHints(t *testing.T, hints int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, from, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\nLink: </100>\r\n\r\n"+ // an error shows at the other end
			strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", hints))
		body := make([]byte, 4)
		if _, err := io.ReadFull(from, body); err != nil {
			t.Error(err)
		}
		got := fmt.Sprintf("%s %q", body, r.Header["Expect"])
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(got), got)
	}
}

// A client that expects 100-continue gets one 100 (Continue), however many other informational responses come
// meanwhile. Another one gets none. Any other expectation is refused, and in HTTP/1.0 there are neither expectations
// nor informational responses.
func TestExpectations(t *testing.T) {
	t.Parallel()
	const hints = 50
	r := newNetworkRig(t, baseConfig, serveHints(t, hints))
	address := ownrig.ServeTCP(t, r)
	for _, c := range []struct {
		version, expect   string
		status, continues int
		forwarded         string
	}{
		{"1.1", "", 200, 0, `[]`},
		{"1.1", "Expect: 100-continue\r\n", 200, 1, `["100-continue"]`},
		{"1.1", "Expect: 100-Continue\r\n", 200, 1, `["100-Continue"]`},
		{"1.1", "Expect: y 100-continue\r\n", 417, 0, ""},
		{"1.1", "Expect: 100-continue, y\r\n", 417, 0, ""},
		{"1.1", "Expect: 100-continue, 100-continue\r\n", 417, 0, ""},
		{"1.1", "Expect: 100-continue;a=b\r\n", 417, 0, ""},
		{"1.1", "Expect: 100-continue\r\nExpect: y\r\n", 417, 0, ""},
		{"1.0", "", 200, 0, `[]`},
		{"1.0", "Expect: 100-continue\r\n", 200, 0, `[]`},
	} {
		client := must.Get(net.Dial("tcp", address))(t)
		defer client.Close()
		fmt.Fprintf(client,
			"POST /public/ HTTP/%s\r\nHost: gw.example\r\nConnection: close\r\nContent-Length: 4\r\n%s\r\nbody",
			c.version, c.expect)
		continues, hinted := 0, 0
		for from := bufio.NewReader(client); ; {
			answer, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatalf("HTTP/%s, %q: %v", c.version, c.expect, err)
			}
			switch answer.StatusCode {
			case http.StatusContinue:
				continues++
				continue
			case http.StatusEarlyHints:
				if hinted++; answer.Header.Get("Link") != "</style.css>" {
					t.Errorf("a hint has %v", answer.Header)
				}
				continue
			}
			body := must.Get(io.ReadAll(answer.Body))(t)
			wantHints, wantBody := 0, fmt.Sprintf("body %s", c.forwarded)
			if c.status == 200 && c.version == "1.1" {
				wantHints = hints
			}
			if answer.StatusCode != c.status || continues != c.continues || hinted != wantHints ||
				c.status == 200 && string(body) != wantBody {
				t.Errorf("HTTP/%s, %q: %d after %d 100 and %d 103, %q",
					c.version, c.expect, answer.StatusCode, continues, hinted, body)
			}
			break
		}
	}
}

// Over HTTP/2, too, an expectation that is unknown is refused.
func TestExpectationsHTTP2(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		transport := ownrig.TransportOver(dial, "HTTP/2.0")
		defer transport.CloseIdleConnections()
		for expect, want := range map[string]int{"y 100-continue": 417, "y": 417, "100-continue": 200} {
			before := r.upstream.Reached()
			answer := ownrig.RoundTrip(t, transport, "POST", "/public/", strings.NewReader("body"), "Expect: "+expect)
			answer.Body.Close()
			if reached := r.upstream.Reached() - before; answer.StatusCode != want || (reached == 1) != (want == 200) {
				t.Errorf("%s: %d, and %d requests reach the upstream", expect, answer.StatusCode, reached)
			}
		}
	})
}
