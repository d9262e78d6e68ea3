package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// notOver3 are fields that have no meaning over HTTP/3, or that the gateway decides on.
const notOver3 = "Connection: keep-alive, X-Named\r\nX-Named: x\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n" +
	"Upgrade: h2c\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\nSet-Cookie: session_id=x\r\n" +
	"Authgate-Sign-In: https://evil.example/\r\nService-Worker-Allowed: /\r\nAlt-Svc: h3=\":1\"\r\n"

// TestHTTP3Parts: over HTTP/3, informational responses and trailers reach the client without the
// fields that belong elsewhere, by both ways of forwarding. A 100 (Continue) of the upstream does not.
func TestHTTP3Parts(t *testing.T) {
	t.Parallel()
	answer := "HTTP/1.1 100 Continue\r\nLink: </b>\r\n\r\n" +
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + notOver3 + "\r\n" +
		"HTTP/1.1 104 Odd\r\nX-Kept: y\r\n" + notOver3 + "\r\n" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End, Authgate-Sign-In\r\n\r\n" +
		"2\r\nok\r\n0\r\n" + strings.Replace(notOver3, "X-Named: x\r\n", "", 1) + "X-End: z\r\nX-Late: y\r\n\r\n"
	up := world.Listen(t, func(c net.Conn) {
		if _, err := world.ReadMessage(bufio.NewReader(c), c); err == nil {
			_, _ = io.WriteString(c, answer) // the client tells
		}
	})
	for _, fast := range []bool{true, false} {
		g := startHTTP3(t, fmt.Sprintf("upstreams: {app: {url: %q, fast_path: %t}}\n", up, fast)+
			"routes: [{match: /public, upstream: app, auth: [none]}]\n")
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(status, h))
				return nil
			},
		})
		r := world.Must(http.NewRequestWithContext(ctx, "GET", g.Base+"/public", nil))(t)
		response := world.Must(g.client3().Do(r))(t)
		body := world.Must(io.ReadAll(response.Body))(t)
		response.Body.Close()
		if response.StatusCode != 200 || string(body) != "ok" {
			t.Errorf("fast path %t: %d %q", fast, response.StatusCode, body)
		}
		if got := fmt.Sprint(hints); got != "[103 map[Link:[</a>]] 104 map[X-Kept:[y]]]" {
			t.Errorf("fast path %t: the informational responses are %s", fast, got)
		}
		if got := fmt.Sprint(response.Trailer); got != "map[X-End:[z] X-Late:[y]]" {
			t.Errorf("fast path %t: the trailer is %s", fast, got)
		}
	}
}

// TestHTTP3Expectations: over HTTP/3, any expectation but 100-continue is refused.
func TestHTTP3Expectations(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := startHTTP3(t, spoofing(up.URL))
	for value, want := range map[string]int{
		"100-continue": 200, "100-Continue": 200, "y 100-continue": 417, "100-continue, y": 417,
		"100-continue, 100-continue": 417, "100-continue;a=b": 417, "y": 417,
	} {
		if got, err := g.get3(t, "/public", field{"expect", value}); got != want || err != nil {
			t.Errorf("%q: %d %v, want %d", value, got, err, want)
		}
	}
	twice := []field{{"expect", "100-continue"}, {"expect", "y"}}
	if got, err := g.get3(t, "/public", twice...); got != 417 || err != nil {
		t.Errorf("two fields: %d %v", got, err)
	}
	if got := len(up.All()); got != 2 {
		t.Errorf("%d requests reached the upstream, expected those with 100-continue: 2", got)
	}
}
