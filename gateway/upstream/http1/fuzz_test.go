package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// outcome is the outcome of a request.
type outcome struct {
	status  int
	header  string
	body    string
	trailer string
}

func outcomeOf(way http.RoundTripper) (outcome, error) {
	r, err := http.NewRequest("GET", "http://app.invalid/", nil)
	if err != nil {
		return outcome{}, err
	}
	response, err := way.RoundTrip(r)
	if err != nil {
		return outcome{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	text := func(h http.Header) string {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(h)) {
			lines = append(lines, fmt.Sprintf("%s: %q", name, h[name]))
		}
		return strings.Join(lines, "\n")
	}
	return outcome{response.StatusCode, text(response.Header), string(body), text(response.Trailer)}, err
}

// tcpLike is a pipe on which deadlines can be set after the other end has closed.
type tcpLike struct{ net.Conn }

func (c tcpLike) SetDeadline(t time.Time) error {
	if err := c.Conn.SetDeadline(t); !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil
}

// A response has the same meaning as for http.Transport, whatever its bytes are.
func FuzzLikeTransport(f *testing.F) {
	for _, says := range []string{
		okResponse, "HTTP/1.1 200 OK\r\n\r\nuntil the end", "HTTP/1.1 204 No Content\r\n\r\nx", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "HTTP/1.1 200 OK\r\n folded\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/3.7 200 OK\r\n\r\n", "x",
	} {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		if _, status, _ := bytes.Cut(says, []byte(" ")); bytes.HasPrefix(bytes.TrimLeft(status, " "), []byte("1")) {
			return // TestInformational has 1xx
		}
		dial := func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				if _, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
					_, _ = there.Write(says) // as much as the client reads
				}
			}()
			return tcpLike{here}, nil
		}
		transport := &http.Transport{DialContext: dial, DisableCompression: true}
		defer transport.CloseIdleConnections()
		d := newClient(dial, time.Minute)
		defer d.CloseIdleConnections()
		got, gotErr := outcomeOf(d)
		want, wantErr := outcomeOf(transport)
		if (gotErr == nil) != (wantErr == nil) || got != want {
			t.Errorf("it means %+v, %v\nto http.Transport %+v, %v", got, gotErr, want, wantErr)
		}
	})
}

// No bytes after a response become the response to the next request.
func FuzzNoPoison(f *testing.F) {
	for _, says := range []string{
		okResponse, okResponse + okResponse, "HTTP/1.1 204 No Content\r\n\r\n" + okResponse, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + okResponse,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 60\r\n\r\n" + okResponse, "HTTP/1.1 103 Early Hints\r\n\r\n" + okResponse + okResponse, okResponse + "\r\n",
	} {
		f.Add([]byte(says))
	}
	var says atomic.Pointer[[]byte]
	u := newRawUpstream(f, func(connection, n int64, r *http.Request, conn net.Conn) bool {
		answer := []byte("HTTP/1.1 200 OK\r\nX-Clean: yes\r\nContent-Length: 5\r\n\r\nclean")
		if r.URL.Path == "/first" {
			answer = *says.Load()
		}
		_, err := conn.Write(answer)
		return err == nil && !bytes.Contains(answer, []byte("until the end"))
	})
	f.Fuzz(func(t *testing.T, first []byte) {
		says.Store(&first)
		dialer := &net.Dialer{}
		d := newClient(dialer.DialContext, 20*time.Millisecond)
		defer d.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond) // a body may be waited for
		defer cancel()
		if r, err := http.NewRequestWithContext(ctx, "GET", u.url()+"/first", nil); err != nil {
			t.Fatal(err)
		} else if response, err := d.RoundTrip(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // whatever it is
			response.Body.Close()
		}
		d.timeout = time.Minute
		r, err := http.NewRequest("GET", u.url()+"/second", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := d.RoundTrip(r)
		if err != nil {
			t.Fatalf("after %q: %v", first, err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); string(body) != "clean" || err != nil || response.Header.Get("X-Clean") != "yes" {
			t.Errorf("after %q the next answer is %q, %v", first, body, err)
		}
	})
}
