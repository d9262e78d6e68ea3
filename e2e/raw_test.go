package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// dial opens a TLS connection to the gateway for one protocol (an ALPN name), with
// a time limit.
func (g *instance) dial(t testing.TB, protocol string) *tls.Conn {
	t.Helper()
	config := g.tls()
	config.NextProtos = []string{protocol}
	conn := must(tls.Dial("tcp", authority(g.base), config))(t)
	t.Cleanup(func() { conn.Close() })
	limit(t, conn)
	return conn
}

// limit sets the time limit of a connection.
func limit(t testing.TB, conn net.Conn) {
	t.Helper()
	noError(t, conn.SetDeadline(time.Now().Add(patience)))
}

// raw sends text over HTTP/1.1 and reads one answer. It sends CRLF for each line
// feed. The text has the empty line after the headers.
func (g *instance) raw(t testing.TB, text string) answer {
	t.Helper()
	return exchange(t, g.dial(t, "http/1.1"), text)
}

// exchange is raw on a connection.
func exchange(t testing.TB, conn net.Conn, text string) answer {
	t.Helper()
	limit(t, conn)
	go func() { // the answer may come before the end of the request
		_, _ = io.WriteString(conn, crlf(text))
	}()
	a, err := readAnswer(bufio.NewReader(conn))
	if err != nil {
		t.Fatalf("no answer to %.200q: %v", text, err)
	}
	return a
}

// crlf ends lines as HTTP/1.1 does.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

func readAnswer(in *bufio.Reader) (answer, error) {
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(body)}, err
}

// field is a header field of HTTP/2.
type field struct{ name, value string }

// errReset is the answer to a request that is malformed for HTTP/2 itself
// (RFC 9113, section 8.1.1).
var errReset = errors.New("the stream was reset for a protocol error")

// raw2 sends a request with these fields and without a body over HTTP/2, and
// returns the status. The error is errReset or an unexpected one.
func (g *instance) raw2(t testing.TB, fields ...field) (int, error) {
	t.Helper()
	conn := g.dial(t, "h2")
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		noError(t, encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}))
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
	}))
	noError(t, err)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return 0, err
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			return strconv.Atoi(f.PseudoValue("status"))
		case *http2.RSTStreamFrame:
			if f.ErrCode == http2.ErrCodeProtocol {
				return 0, errReset
			}
			return 0, fmt.Errorf("stream reset: %v", f.ErrCode)
		case *http2.GoAwayFrame:
			return 0, fmt.Errorf("connection ended: %v", f.ErrCode)
		}
	}
}

// get2 is raw2 for a GET of a target with more fields.
func (g *instance) get2(t testing.TB, target string, more ...field) (int, error) {
	t.Helper()
	return g.raw2(t, append([]field{
		{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", target},
	}, more...)...)
}
