package forward

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"authgate/gateway/proxy/web"
	ownrig "authgate/internal/test/rig"
)

// bodyPause is limits.body_pause by default.
const bodyPause = 2 * time.Minute

// A body on its way to an upstream may take any time, but its pauses are bounded. The
// limit of a body that has arrived does not end a long response.
func TestPausedBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pauses []time.Duration // between the ten bytes of the body
		limit  time.Duration   // if it is not bodyPause
		answer time.Duration   // how long the upstream takes after the body
		want   int
		after  time.Duration
	}{
		"whole at once": {nil, 0, time.Hour, 200, time.Hour},
		"slow": {[]time.Duration{time.Minute, bodyPause - time.Second, bodyPause - time.Second}, 0, 0, 200,
			time.Minute + 2*bodyPause - 2*time.Second},
		"a pause":         {[]time.Duration{time.Second, bodyPause + 2*web.BodyTime}, 0, 0, 408, 0},
		"never any of it": {[]time.Duration{time.Hour}, 0, 0, 408, 0},
		"a shorter limit": {[]time.Duration{2 * time.Second, time.Minute}, 3 * time.Second, 0, 408, 0},
	} {
		limits := "limits: {body_pause: " + cmp.Or(c.limit, bodyPause).String() + "}\n"
		listening(t, ownrig.Base+limits, func(t *testing.T, r *rig, dial func() net.Conn) {
			reads := r.app.Answer
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				answer, err := reads(q)
				select {
				case <-q.Context().Done():
					return nil, cmp.Or(err, q.Context().Err())
				case <-time.After(c.answer):
					return answer, err
				}
			}
			conn, began, after := dial(), time.Now(), time.Duration(0)
			for _, pause := range c.pauses {
				after += pause
				ownrig.SendLater(conn, after, "b")
			}
			a := ownrig.Ask(t, conn,
				"POST /public/ HTTP/1.1\nHost: gw.example\nContent-Length: 10\n\n"+strings.Repeat("b",
					10-len(c.pauses)))
			if a.StatusCode != c.want || a.Close != (c.want != 200) {
				t.Errorf("%s: %d, closing %t; want %d", name, a.StatusCode, a.Close, c.want)
			}
			took, limit := time.Since(began), cmp.Or(c.limit, bodyPause)
			if c.want != 200 {
				if took < limit || took > limit+2*time.Second+web.BodyTime {
					t.Errorf("%s: cut after %v", name, took)
				}
				return
			}
			if took != c.after {
				t.Errorf("%s: answered after %v, want %v", name, took, c.after)
			}
			time.Sleep(ownrig.IdleTime - time.Second)
			if a := ownrig.Ask(t, conn, "GET /public/ HTTP/1.1\nHost: gw.example\n\n"); a.StatusCode != 200 {
				t.Errorf("%s: %d to the next request", name, a.StatusCode)
			}
		})
	}
}

// An upstream may answer before it has the body. The client gets the answer at once if it
// has a length or no body.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	const rest = " /public/ HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 10\r\n"
	for _, head := range []string{"POST" + rest, "POST" + rest + "Expect: 100-continue\r\n", "HEAD" + rest} {
		for status, length := range map[int]http.Header{409: {"Content-Length": {"2"}}, 204: {}, 304: {}} {
			listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
				r.app.Answer = func(q *http.Request) (*http.Response, error) {
					return ownrig.Response(q, status, length, "no"[:2*len(length)]), nil
				}
				start, conn := time.Now(), dial()
				if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
					t.Fatal(err)
				}
				a, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: head[:4]})
				if took := time.Since(start); err != nil || a.StatusCode != status || took > 0 {
					t.Errorf("%q, %d: %v, %v after %v, want it at once", head, status, a, err, took)
				}
			})
		}
	}
}

// A full-duplex stream goes on while its response does, even if its client sends
// nothing. It is cut when neither sends anything.
func TestSilentClientOfAStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pauses []time.Duration // between the messages of the response
		cut    bool
	}{
		"the response goes on": {[]time.Duration{bodyPause - time.Second, bodyPause - time.Second, time.Minute,
			bodyPause - time.Second}, false},
		"both are silent": {[]time.Duration{time.Minute, bodyPause + time.Second}, true},
	} {
		listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
			var began time.Time
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				out, in := io.Pipe()
				go func() {
					_, err := io.Copy(io.Discard, q.Body)
					in.CloseWithError(err) // nothing more to answer; an error ends the response
				}()
				began = time.Now()
				go func() {
					_, _ = io.WriteString(in, "m")
					for _, pause := range c.pauses {
						time.Sleep(pause)
						_, _ = io.WriteString(in, "m") // lost once the response has ended
					}
					in.Close()
				}()
				answer := ownrig.Response(q, http.StatusOK, http.Header{}, "")
				answer.Body, answer.ContentLength = out, -1
				return answer, nil
			}
			transport := ownrig.TransportOver(dial, "HTTP/2.0")
			defer transport.CloseIdleConnections()
			body, comes := io.Pipe()
			defer comes.Close()
			go func() { _, _ = io.WriteString(comes, "hello") }()
			answer := ownrig.RoundTrip(t, transport, "POST", "/public/", body)
			defer answer.Body.Close()
			got, err := io.ReadAll(answer.Body)
			took := time.Since(began)
			if c.cut && (err == nil || took != time.Minute+bodyPause) || !c.cut &&
				(err != nil || string(got) != strings.Repeat("m", len(c.pauses)+1)) {
				t.Errorf("%s: %q, %v after %v", name, got, err, took)
			}
			time.Sleep(time.Hour) // the upstream has ended
		})
	}
}

// The time in which the upstream does not read does not count as a pause of the
// client.
func TestUpstreamThatReadsLate(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
			reads := r.app.Answer
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				if _, err := io.ReadFull(q.Body, make([]byte, 1)); err != nil {
					return nil, err
				}
				time.Sleep(3 * bodyPause)
				return reads(q)
			}
			transport := ownrig.TransportOver(dial, protocol)
			defer transport.CloseIdleConnections()
			answer := ownrig.RoundTrip(t, transport, "POST", "/public/", strings.NewReader(strings.Repeat("b", 1<<20)))
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s: %d\n%s", protocol, answer.StatusCode, r.log)
			}
		})
	}
}

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
		listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
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
	listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
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
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(),
				EndHeaders: true})
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
