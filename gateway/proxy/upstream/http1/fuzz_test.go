package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"sync/atomic"
	"testing"
	"time"
)

// tcpLike is a pipe on which deadlines can be set after the other end has closed.
type tcpLike struct{ net.Conn }

func (c tcpLike) SetDeadline(t time.Time) error {
	return openPipe(c.Conn.SetDeadline(t))
}

func (c tcpLike) SetReadDeadline(t time.Time) error { return openPipe(c.Conn.SetReadDeadline(t)) }

func openPipe(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// spacedName matches a line of a header whose name has whitespace in it or behind it.
var spacedName = regexp.MustCompile(`\n[^ \t\r\n:][^\r\n:]*[ \t][^\r\n:]*:`)

// closes matches a header in which Connection may have the option close.
var closes = regexp.MustCompile(`(?i)\nconnection:(.|\n)*close`)

// A response has the same meaning as for http.Transport, with any bytes.
func FuzzLikeTransport(f *testing.F) {
	for _, says := range []string{
		okResponse, header + "\r\nuntil the end", "HTTP/1.1 204 No Content\r\n\r\nx",
		"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok",
		chunked + "Trailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
		header + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nok",
		header + "Transfer-Encoding: gzip\r\n\r\nok", header + "X : y\r\n\r\n", header + " folded\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n", "",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", chunked + "\r\nzz\r\n", "HTTP/3.7 200 OK\r\n\r\n", "x",
	} {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		if _, status, _ := bytes.Cut(says, []byte(" ")); bytes.HasPrefix(bytes.TrimLeft(status, " "), []byte("1")) {
			return // TestInformational has 1xx
		}
		if spacedName.Match(says) {
			return // TestSpaces has those
		}
		if closes.Match(says) {
			return // http.Transport loses what else Connection names; TestMeaning has close alone
		}
		piped := answering(func(c net.Conn, _ *http.Request) {
			defer c.Close()
			_, _ = c.Write(says) // as much as the client reads
		})
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			c, err := piped(ctx, address)
			return tcpLike{c}, err
		}
		d := newDialing(t, time.Minute, dial)
		got, gotErr := meaning(t, d, "GET", d.url)
		want, wantErr := meaning(t, newTransport(t, dial), "GET", d.url)
		early := got == "" && gotErr != nil // http.Transport returns a response whose first chunk is malformed
		if (gotErr == nil) != (wantErr == nil) || got != want && !early {
			t.Errorf("it means %s, %v\nto http.Transport %s, %v", got, gotErr, want, wantErr)
		}
	})
}

// No bytes after a response become the response to the next request.
func FuzzNoPoison(f *testing.F) {
	for _, says := range []string{
		okResponse, okResponse + okResponse, "HTTP/1.1 204 No Content\r\n\r\n" + okResponse,
		chunked + "\r\n0\r\n\r\n" + okResponse,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 60\r\n\r\n" + okResponse,
		"HTTP/1.1 103 Early Hints\r\n\r\n" + okResponse + okResponse, okResponse + "\r\n",
	} {
		f.Add([]byte(says))
	}
	var says atomic.Pointer[[]byte]
	u := newRawUpstream(f, func(_, _ int64, r *http.Request, conn net.Conn) bool {
		answer := []byte(header + "X-Clean: yes\r\nContent-Length: 5\r\n\r\nclean")
		if r.URL.Path == "/first" {
			answer = *says.Load()
		}
		_, err := conn.Write(answer)
		return err == nil && !bytes.Contains(answer, []byte("until the end"))
	})
	f.Fuzz(func(t *testing.T, first []byte) {
		says.Store(&first)
		d := newDialing(t, 20*time.Millisecond, dialTCP)
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond) // a body may be waited for
		defer cancel()
		if response, err := d.RoundTrip(newRequest(t, ctx, "GET", u.url()+"/first", nil)); err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // it may be any
			response.Body.Close()
		}
		d.timeout = time.Minute
		response, err := d.RoundTrip(newRequest(t, t.Context(), "GET", u.url()+"/second", nil))
		if err != nil {
			t.Fatalf("after %q: %v", first, err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); string(body) != "clean" || err != nil ||
			response.Header.Get("X-Clean") != "yes" {
			t.Errorf("after %q the next answer is %q, %v", first, body, err)
		}
	})
}
