package http1

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whitespace before a colon is removed in every header and trailer, whatever the field says
// about the response, and however the bytes come. The connection is not used again.
func TestSpaces(t *testing.T) {
	t.Parallel()
	const hint = "HTTP/1.1 103 Early Hints\r\nLink : </a>\r\nX-Tab\t:y\r\n\r\n"
	long := strings.Repeat("x", 9000)
	for name, says := range map[string]string{
		"a length":        header + "X-Spaced : y\r\nContent-Length : 2\r\n\r\nok",
		"chunks":          header + "X-Spaced: y\r\nTransfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"many spaces":     header + "X-Spaced \t  : y\r\nContent-Length: 2\r\n\r\nok",
		"a tab":           header + "X-Spaced\t: y\r\nContent-Length\t: 2\r\n\r\nok",
		"a tab, then":     header + "X-A\t: b\r\nX-Spaced : y\r\nX-Long : " + long + "\r\nContent-Length\t: 2\r\n\r\nok",
		"a long header":   header + "X-Long: " + long + "\r\nX-Spaced : y\r\nContent-Length : 2\r\n\r\nok",
		"after hints":     hint + hint + header + "X-Spaced : y\r\nContent-Length: 2\r\n\r\nok",
		"a folded value":  header + "X-A: b\r\n c : d\r\nX-Spaced : y\r\nContent-Length: 2\r\n\r\nok",
		"LF alone":        "HTTP/1.1 200 OK\nX-Spaced : y\nContent-Length : 2\n\nok",
		"in the trailer":  chunked + "X-Spaced: y\r\nTrailer : X-End\r\n\r\n2\r\nok\r\n0\r\nX-End : z\r\n\r\n",
		"an unlike name":  header + "x-SPACED : y\r\nContent-Length: 2\r\n\r\nok",
		"two lines of it": header + "X-Spaced : y\r\nx-spaced: w\r\nContent-Length: 2\r\n\r\nok",
	} {
		for _, size := range []int{1, 7, len(says)} {
			synctest.Test(t, func(t *testing.T) {
				f := newDialing(t, time.Minute, answering(func(c net.Conn, _ *http.Request) {
					for at := 0; at < len(says); at += size {
						_, _ = io.WriteString(c, says[at:min(at+size, len(says))])
					}
					if _, err := c.Read(make([]byte, 1)); err == nil {
						t.Errorf("%s: the connection is used again", name)
					}
				}))
				hints := 0
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
						if hints++; h.Get("Link") != "</a>" || h.Get("X-Tab") != "y" {
							t.Errorf("%s: the hint is %v", name, h)
						}
						return nil
					},
				})
				response, err := f.get(t, ctx)
				if err != nil {
					t.Fatalf("%s in parts of %d: %v", name, size, err)
				}
				body, err := io.ReadAll(response.Body)
				if string(body) != "ok" || err != nil || response.Header.Get("X-Spaced") != "y" ||
					hints != strings.Count(says, "103") {
					t.Errorf("%s in parts of %d: %q, %v, %v after %d hints", name, size, body, err, response.Header,
						hints)
				}
				if end := response.Trailer.Get("X-End"); (end == "z") != (name == "in the trailer") {
					t.Errorf("%s in parts of %d: the trailer is %v", name, size, response.Trailer)
				}
			})
		}
	}
}

// A name with whitespace inside of it is malformed, in every header and trailer.
func TestSpacesInside(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"a space":         header + "Cache Control: no-store\r\nContent-Length: 2\r\n\r\nok",
		"a tab":           header + "Cache\tControl: no-store\r\nContent-Length: 2\r\n\r\nok",
		"a vertical tab":  header + "Cache-Control\v: no-store\r\nContent-Length: 2\r\n\r\nok",
		"a hard space":    header + "Cache-Control\u00a0: no-store\r\nContent-Length: 2\r\n\r\nok",
		"a folded name":   header + "Cache-Control\r\n : no-store\r\nContent-Length: 2\r\n\r\nok",
		"before the name": header + " Cache-Control: no-store\r\nContent-Length: 2\r\n\r\nok",
		"in a hint":       "HTTP/1.1 103 Early Hints\r\nA B: c\r\n\r\n" + okResponse,
		"in the trailer":  chunked + "\r\n2\r\nok\r\n0\r\nA B: c\r\n\r\n",
		"no name":         header + " \t: x\r\nContent-Length: 2\r\n\r\nok",
	} {
		f := newFixture(t, newRawUpstream(t, sayAndClose(says)).url())
		if body, err := f.send(t.Context(), "GET", nil); err == nil || statusOf(err) != 502 {
			t.Errorf("%s: %q, %v", name, body, err)
		}
	}
}

// A first chunk that is malformed is an error in place of the response, if it comes with the header.
func TestFirstChunk(t *testing.T) {
	t.Parallel()
	for says, fails := range map[string]bool{
		"zz\r\nok\r\n0\r\n\r\n": true, "hello": true, "-2\r\nok\r\n0\r\n\r\n": true, "\r\n2\r\nok": true,
		"2 x\r\nok":            true,
		"2\r\nok\r\n0\r\n\r\n": false, "2;a=b\r\nok\r\n0\r\n\r\n": false, "0\r\n\r\n": false, "A": false, "": false,
		"0": false,
	} {
		for _, method := range []string{"GET", "POST"} {
			f := newFixture(t, newRawUpstream(t, sayAndClose(chunked+"\r\n"+says)).url())
			var content io.Reader
			if method == "POST" {
				content = io.MultiReader(strings.NewReader("of unknown length"))
			}
			response, err := f.RoundTrip(newRequest(t, t.Context(), method, f.url, content))
			if (err != nil) != fails || fails && statusOf(err) != 502 {
				t.Errorf("%s, %q: %v", method, says, err)
			}
			if err == nil {
				response.Body.Close()
			}
		}
	}
}
