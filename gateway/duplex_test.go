package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// duplexUpstream answers while it reads: it sends a message whenever messages
// gives it one, and ends the response when that is closed.
func duplexUpstream(r *rig, messages <-chan string) {
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		out, in := io.Pipe()
		go func() {
			_, err := io.Copy(io.Discard, q.Body)
			in.CloseWithError(err) // nothing more to answer; an error ends the response
		}()
		go func() {
			for m := range messages {
				_, _ = io.WriteString(in, m) // lost once the response has ended
			}
			in.Close()
		}()
		answer := response(q, http.StatusOK, http.Header{}, "")
		answer.Body, answer.ContentLength = out, -1
		return answer, nil
	}
}

// A full-duplex stream lives on while its response goes on, though its client
// is silent, and is cut when both are silent.
func TestSilentClientOfAStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pauses []time.Duration // between the messages of the response
		cut    bool
	}{
		"the response goes on": {[]time.Duration{bodyPause - time.Second, bodyPause - time.Second, time.Minute, bodyPause - time.Second}, false},
		"both are silent":      {[]time.Duration{time.Minute, bodyPause + time.Second}, true},
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			messages := make(chan string)
			duplexUpstream(r, messages)
			transport := &http.Transport{
				Protocols:   new(http.Protocols),
				DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
			}
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			body, comes := io.Pipe()
			defer comes.Close()
			q, err := http.NewRequest("POST", "http://gw.example/public/", body)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.WriteString(comes, "hello") }()
			var began time.Time
			sent := make(chan struct{})
			defer func() { <-sent }()
			go func() {
				defer close(sent)
				defer close(messages)
				began = time.Now()
				messages <- "m"
				for _, pause := range c.pauses {
					time.Sleep(pause)
					messages <- "m"
				}
			}()
			answer, err := transport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			got, err := io.ReadAll(answer.Body)
			if !c.cut && (err != nil || string(got) != strings.Repeat("m", len(c.pauses)+1)) {
				t.Errorf("%s: %q, %v after %v", name, got, err, time.Since(began))
			}
			if took := time.Since(began); c.cut && (err == nil || took != time.Minute+bodyPause) {
				t.Errorf("%s: %q, %v after %v; want a cut after %v of silence", name, got, err, took, bodyPause)
			}
		})
	}
}

// An upstream that does not read for longer than body_pause is no pause of the
// client's.
func TestUpstreamThatReadsLate(t *testing.T) {
	t.Parallel()
	for name, protocol := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2":   func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			r.upstream.answer = func(q *http.Request) (*http.Response, error) {
				if _, err := io.ReadFull(q.Body, make([]byte, 1)); err != nil {
					return nil, err
				}
				time.Sleep(3 * bodyPause)
				n, err := io.Copy(io.Discard, q.Body)
				if err != nil || n != 1<<20 {
					return nil, errors.Join(err, errBroken)
				}
				return response(q, http.StatusOK, http.Header{}, ""), nil
			}
			transport := &http.Transport{
				Protocols:   new(http.Protocols),
				DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
			}
			protocol(transport.Protocols)
			defer transport.CloseIdleConnections()
			q, err := http.NewRequest("POST", "http://gw.example/public/", strings.NewReader(strings.Repeat("b", 1<<20+1)))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s: %d\n%s", name, answer.StatusCode, r.log)
			}
		})
	}
}

// body_pause is that of the configuration that runs when the request comes.
func TestBodyPauseReloads(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		if err := r.reload(baseConfig + "limits: {body_pause: 3s}\n"); err != nil {
			t.Fatal(err)
		}
		r.stub()
		conn := dial()
		start := time.Now()
		if _, err := io.WriteString(conn, "POST /public/ HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(3*time.Second - time.Since(start) - 1)
		synctest.Wait()
		if r.load.inFlight.Load() != 1 {
			t.Error("the request is over before body_pause")
		}
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%v, %v", answer, err)
		}
	})
}
