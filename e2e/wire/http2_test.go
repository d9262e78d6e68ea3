package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	"authgate/e2e/world"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// field is a header field of HTTP/2.
type field struct{ name, value string }

// errReset is the answer to a request that is malformed for HTTP/2 itself
// (RFC 9113, section 8.1.1).
var errReset = errors.New("the stream was reset for a protocol error")

// raw2 sends a request with these fields and without a body over HTTP/2, and
// returns the status. The error is errReset or an unexpected one.
func raw2(t testing.TB, g *world.Instance, fields ...field) (int, error) {
	t.Helper()
	conn := g.Dial(t, "h2")
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		world.NoError(t, encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}))
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
	}))
	world.NoError(t, err)
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
func get2(t testing.TB, g *world.Instance, target string, more ...field) (int, error) {
	t.Helper()
	return raw2(t, g, append([]field{
		{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", target},
	}, more...)...)
}
