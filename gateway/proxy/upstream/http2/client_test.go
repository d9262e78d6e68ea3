package http2

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A stream that the upstream resets is an answer at once, with any code. It is repeated once if it may be.
func TestReset(t *testing.T) {
	t.Parallel()
	for code := http2.ErrCodeNo; code <= http2.ErrCodeInadequateSecurity; code++ {
		for method, want := range map[string]int64{"GET": 2, "POST": 1} {
			for _, noRepeat := range []bool{false, true} {
				answer := func(p *peer, stream uint32, _ int) { _ = p.WriteRSTStream(stream, code) }
				inBubble(t, answer, func(u *upstream) {
					c := New(Options{Dial: u.dial, Timeout: time.Minute, NoRepeat: noRepeat})
					defer c.CloseIdleConnections()
					start := time.Now()
					_, err := u.ask(c, method, nil)
					if noRepeat {
						want = 1
					}
					if err == nil || time.Since(start) > 0 || u.requests.Load() != want {
						t.Errorf("%v to %s: %v after %v and %d requests, want %d",
							code, method, err, time.Since(start), u.requests.Load(), want)
					}
					if err != nil && !strings.Contains(err.Error(), code.String()) {
						t.Errorf("%v: the error is %v", code, err)
					}
					if needed, _ := NeedsHTTP1(err); needed {
						t.Errorf("%v asks for HTTP/1.1", code)
					}
				})
			}
		}
	}
}

// HTTP_1_1_REQUIRED, of a stream or of the connection, tells the caller to send the request over HTTP/1.1, with its
// whole body.
func TestNeedsHTTP1(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(p *peer, stream uint32, request int){
		"RST_STREAM": func(p *peer, stream uint32, _ int) { _ = p.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) },
		"GOAWAY": func(p *peer, _ uint32, _ int) {
			_ = p.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil)
			p.closes = true
		},
	} {
		for size, again := range map[int]bool{0: true, 1: true, mostReplayed: true, mostReplayed + 1: false} {
			inBubble(t, answer, func(u *upstream) {
				c := u.client(time.Minute)
				defer c.CloseIdleConnections()
				content := strings.Repeat("x", size)
				r, err := http.NewRequest("POST", "http://app.invalid/", io.MultiReader(strings.NewReader(content)))
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.RoundTrip(r)
				if needed, may := NeedsHTTP1(err); !needed || may != again || u.requests.Load() != 1 {
					t.Errorf("%s, %d bytes: %v after %d requests", name, size, err, u.requests.Load())
				}
				if !again {
					return
				}
				if left, err := io.ReadAll(r.Body); string(left) != content || err != nil {
					t.Errorf("%s, %d bytes: %d are left, %v", name, size, len(left), err)
				}
			})
		}
	}
}

// Informational responses pass up to 64 KiB, and a 102 begins the time limit anew.
func TestInformational(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, status string
		times        int
		pause        time.Duration
		field        string
		passes       bool
	}{
		{"many", "103", 1000, 0, "x", true},
		{"too many bytes", "103", 70, 0, strings.Repeat("x", 1<<10), false},
		{"102 extends the limit", "102", 5, 900 * time.Millisecond, "x", true},
		{"103 does not", "103", 5, 900 * time.Millisecond, "x", false},
	} {
		answer := func(p *peer, stream uint32, _ int) {
			for range c.times {
				time.Sleep(c.pause)
				p.respond(stream, c.status, "x", c.field)
			}
			p.respond(stream, "200")
		}
		inBubble(t, answer, func(u *upstream) {
			client := u.client(time.Second)
			defer client.CloseIdleConnections()
			var seen atomic.Int64
			ctx := httptrace.WithClientTrace(u.t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { seen.Add(1); return nil },
			})
			r, err := http.NewRequestWithContext(ctx, "GET", "http://app.invalid/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.RoundTrip(r)
			if (err == nil) != c.passes || c.passes && (response.StatusCode != 200 || int(seen.Load()) != c.times) {
				t.Errorf("%s: %v, %v; %d seen", c.name, response, err, seen.Load())
			}
			if err == nil {
				response.Body.Close()
			}
		})
	}
}

// A response that breaks the rules is one: its request is not repeated, and the error does not speak of a reset.
func TestInvalidResponse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(p *peer, stream uint32, _ int) { p.respond(stream, "ok") }, func(u *upstream) {
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		_, err := u.ask(c, "GET", nil)
		const want = "broke the rules of HTTP/2: PROTOCOL_ERROR"
		if err == nil || !strings.Contains(err.Error(), want) || u.requests.Load() != 1 {
			t.Errorf("%v after %d requests", err, u.requests.Load())
		}
	})
}
