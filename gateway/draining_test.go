package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Hints do not ask the client to go elsewhere, the answer behind them does,
// and a switch to WebSocket is one.
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

// Over HTTP/2 the server says with GOAWAY that the connection takes no
// further requests, and which it has taken (RFC 9113, section 6.8).
func TestDrainingHTTP2(t *testing.T) {
	t.Parallel()
	for _, draining := range []bool{false, true} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			if draining {
				r.Drain()
			}
			conn := dial()
			defer conn.Close()
			var header strings.Builder
			encoder := hpack.NewEncoder(&header)
			for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "gw.example"}, {":path", "/public/"}} {
				if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
					t.Fatal(err)
				}
			}
			framer := http2.NewFramer(conn, conn)
			go func() {
				_, _ = io.WriteString(conn, http2.ClientPreface)
				_ = framer.WriteSettings()
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(header.String()), EndStream: true, EndHeaders: true})
			}()
			answered, gone := false, false
			if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			for {
				f, err := framer.ReadFrame()
				if err != nil {
					break // closed, or silent
				}
				answered = answered || f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream)
				if away, ok := f.(*http2.GoAwayFrame); ok {
					gone = true
					if away.ErrCode != http2.ErrCodeNo || away.LastStreamID != 1 {
						t.Errorf("GOAWAY with %v, stream %d", away.ErrCode, away.LastStreamID)
					}
				}
			}
			if !answered || gone != draining {
				t.Errorf("draining %t: answered %t, GOAWAY %t", draining, answered, gone)
			}
		})
	}
}
