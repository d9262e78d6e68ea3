package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What the client does wrong in a body is 400, and leaving is 499 in the log. Neither is an error of the upstream.
func TestClientsOwnFault(t *testing.T) {
	t.Parallel()
	const chunked, length = "Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 1000\r\n\r\n"
	for name, c := range map[string]struct {
		body   string
		leaves bool
		status float64
	}{
		"a size that is none":          {chunked + "zz\r\n", false, 400},
		"a size in hexadecimal":        {chunked + "0x3\r\nabc\r\n0\r\n\r\n", false, 400},
		"a sign":                       {chunked + "+3\r\nabc\r\n0\r\n\r\n", false, 400},
		"a chunk that is too long":     {chunked + "3\r\nabcd\r\n0\r\n\r\n", false, 400},
		"a long body with a bad chunk": {chunked + "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\nzz\r\n", false, 400},
		"the client leaves":            {length + "abc", true, 499},
		"the client leaves in a chunk": {chunked + "5\r\nabc", true, 499},
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			client := dial()
			defer client.Close()
			go func() {
				fmt.Fprintf(client, "PUT /public/ HTTP/1.1\r\nHost: gw.example\r\n%s", c.body)
				if c.leaves {
					client.Close()
				}
			}()
			if !c.leaves {
				answer, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil || answer.StatusCode != int(c.status) {
					t.Fatalf("%s: %v, %v", name, answer, err)
				}
			}
			synctest.Wait()
			if line := r.log.Last(t, "request"); line["status"] != c.status {
				t.Errorf("%s: logged %v", name, line)
			}
		})
	}
}

// Over HTTP/2, a body that is shorter than announced is 400.
func TestShortBodyHTTP2(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		client := dial()
		defer client.Close()
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, f := range [][2]string{
			{":method", "PUT"}, {":scheme", "https"}, {":authority", "gw.example"}, {":path", "/public/"},
			{"content-length", "1000"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				t.Fatal(err)
			}
		}
		framer := http2.NewFramer(client, client)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		go func() {
			_, _ = io.WriteString(client, http2.ClientPreface)
			_ = framer.WriteSettings()
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
			_ = framer.WriteData(1, true, []byte("abc"))
		}()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := frame.(*http2.MetaHeadersFrame); ok {
				if status := h.PseudoValue("status"); status != "400" {
					t.Errorf("the status is %s", status)
				}
				break
			}
		}
		go func() { _, _ = io.Copy(io.Discard, client) }()
		synctest.Wait()
		if line := r.log.Last(t, "request"); line["status"] != 400.0 {
			t.Errorf("logged %v", line)
		}
	})
}
