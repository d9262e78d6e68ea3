package conn

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"authgate/internal/test/must"
)

const (
	chunkedBody = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	twoFramings = "POST /two HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n" + chunkedBody
	oneFraming  = "POST / HTTP/1.1\r\nHost: a\r\n" + chunkedBody
)

// A request with a Content-Length beside a Transfer-Encoding is seen, wherever in the bytes
// of its connection it is, and no other.
func TestTwoFramings(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	withLength := func(n int) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	for name, c := range map[string]struct {
		sent string
		want string // statuses
	}{
		"chunks":   {oneFraming, "200"},
		"a length": {withLength(10), "200"},
		"two":      {twoFramings, "400"},
		"the length last": {
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "400"},
		"in lower case": {strings.Replace(twoFramings, "Content-Length", "content-length", 1), "400"},
		"bare line feeds": {
			strings.ReplaceAll(twoFramings[:strings.Index(twoFramings, "\r\n\r\n")+4], "\r\n", "\n") + "0\r\n\r\n", "400"},
		"an empty line before": {withLength(1) + "\r\n" + twoFramings, "200 400"},
		"a value that says so": {
			"POST / HTTP/1.1\r\nHost: a\r\nX: Content-Length: 3\r\n folded, Content-Length: 3\r\n" + chunkedBody, "200"},
		"a body that says so": {
			strings.Replace(oneFraming, "1\r\nx", "13\r\nContent-Length: 100", 1) + oneFraming, "200 200"},
		"HTTP/1.0":               {"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "200"},
		"HTTP/1.0 with a coding": {"POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n" + chunkedBody, "400"},
		"HTTP/1.0 with both": {
			"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\nConnection: keep-alive\r\n" + chunkedBody, "400"},
		"pipelined":               {get + oneFraming + twoFramings + get, "200 200 400"},
		"after a body":            {withLength(3) + twoFramings, "200 400"},
		"after a long body":       {withLength(100_000) + twoFramings, "200 400"},
		"after chunks":            {strings.Repeat(oneFraming, 50) + twoFramings, strings.Repeat("200 ", 50) + "400"},
		"after many":              {strings.Repeat(get, 200) + twoFramings, strings.Repeat("200 ", 200) + "400"},
		"behind line feeds":       {strings.ReplaceAll(get, "\r\n", "\n") + twoFramings, "200 400"},
		"many that are all right": {strings.Repeat(get+oneFraming+withLength(5000), 30), strings.Repeat("200 ", 90)},
		"a long header": {
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: " + strings.Repeat("x", 50_000) + "\r\n" + chunkedBody, "400",
		},
	} {
		for _, plain := range []bool{true, false} {
			onBench(t, Options{}, plain, func(b *bench) {
				client := b.client(plain)
				go func() {
					_, _ = io.WriteString(client, c.sent) // the server may have closed it
				}()
				var got []string
				answers := bufio.NewReader(client)
				go func() {
					for {
						answer, err := http.ReadResponse(answers, nil)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, answer.Body) // it is empty
						got = append(got, answer.Status[:3])
					}
				}()
				synctest.Wait()
				for len(b.served) > 0 {
					<-b.served
				}
				if strings.Join(got, " ") != strings.TrimSpace(c.want) {
					t.Errorf("%s, plain %t: answered %q, want %s", name, plain, got, c.want)
				}
				client.Close()
			})
		}
	}
}

// The body of a request came whole if as many bytes as it is long came with its header, and it is
// sure where that ends.
func TestCameWhole(t *testing.T) {
	t.Parallel()
	const (
		post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
		get  = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	)
	for name, c := range map[string]struct {
		// What is read before the handlers of the requests have them, and, after " + ", while they do.
		requests []string
		want     string // for each POST, whose body has five bytes or no length
	}{
		"whole":                  {[]string{post + "whole", post + "again"}, "true true"},
		"of no length":           {[]string{oneFraming, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"}, "false false"},
		"not here":               {[]string{post + " + whole", post + "after"}, "false false"},
		"a part":                 {[]string{post + "whol + e"}, "false"},
		"with line feeds":        {[]string{strings.ReplaceAll(post, "\r", "") + "whole"}, "true"},
		"after a header":         {[]string{get, post + "whole"}, "true"},
		"pipelined":              {[]string{post + "whole" + post, "whole"}, "true true"},
		"pipelined, and a part":  {[]string{post + "whole" + post, "whol"}, "true false"},
		"pipelined behind a GET": {[]string{get + post + "whole", ""}, "false"},
		"a byte of the next":     {[]string{post + "whole + P", post[1:] + "whole"}, "true false"},
		"empty lines before":     {[]string{post + "whole", "\r\n\r\n" + post}, "true false"},
		"an empty line before":   {[]string{post + "whole", "\n" + post + "whole"}, "true false"},
		"behind the end of a body": {
			[]string{post + " + long\r\n\r\nenough", post, post + "whole", post + "whole"}, "false false false false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h header
			var got []string
			for _, request := range c.requests {
				before, during, more := strings.Cut(request, " + ")
				h.add([]byte(before))
				h.beginRequest()
				switch {
				case strings.HasPrefix(before, "GET"):
				case strings.Contains(before, "chunked"):
					got = append(got, strconv.FormatBool(h.whole(-1)))
				case strings.Contains(before, "Content-Length: 0"):
					got = append(got, strconv.FormatBool(h.whole(0)))
				default:
					got = append(got, strconv.FormatBool(h.whole(5)))
				}
				if more {
					h.add([]byte(during))
				}
				h.endRequest()
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("whole is %s, want %s", got, c.want)
			}
		})
	}
}

// The handler of a request learns whether its body came whole, from connections with and without TLS.
func TestCameWholeOnConnections(t *testing.T) {
	t.Parallel()
	const post = "POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
	for _, plain := range []bool{true, false} {
		onBench(t, Options{}, plain, func(b *bench) {
			client := b.client(plain)
			answers := bufio.NewReader(client)
			for _, sent := range [][]string{{post + "whole"}, {post, "whole"}, {post + "wh", "ole"}} {
				for _, part := range sent {
					must.Get(io.WriteString(client, part))(t)
					synctest.Wait()
				}
				answer := must.Get(http.ReadResponse(answers, nil))(t)
				got, want := string(must.Get(io.ReadAll(answer.Body))(t)), strconv.FormatBool(len(sent) == 1)
				if got != want {
					t.Errorf("plain %t, %q: %s, want %s", plain, sent, got, want)
				}
			}
			client.Close()
		})
	}
}
