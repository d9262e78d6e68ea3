package forward

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/proxy/web"
	ownrig "authgate/internal/test/rig"
)

// within is how soon after its login a request ends.
const within = time.Second

var protocols = []string{"HTTP/1.1", "HTTP/2.0"}

// overEach runs f in a synctest bubble for each protocol, with a rig and a client for it.
func overEach(t *testing.T, f func(t *testing.T, r *rig, protocol string, client *http.Transport)) {
	t.Helper()
	for _, protocol := range protocols {
		listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
			client := ownrig.TransportOver(dial, protocol)
			defer client.CloseIdleConnections()
			f(t, r, protocol, client)
		})
	}
}

// endlessBody never ends.
type endlessBody struct{}

func (endlessBody) Read(b []byte) (int, error) { return len(b), nil }

func (endlessBody) Close() error { return nil }

// A client that does not read does not delay the end of its stream.
func TestStreamsOfClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, r *rig, protocol string, client *http.Transport) {
		canceled := make(chan time.Time, 1)
		r.app.Answer = func(q *http.Request) (*http.Response, error) {
			context.AfterFunc(q.Context(), func() { canceled <- time.Now() })
			answer := ownrig.Response(q, http.StatusOK, http.Header{}, "")
			answer.Body, answer.ContentLength = endlessBody{}, 1<<40
			return answer, nil
		}
		defer ownrig.RoundTrip(t, client, "GET", "/session/", nil, aliceSession).Body.Close()
		time.Sleep(3 * web.AnswerPause / 4) // the limit for slow readers is moved on meanwhile
		r.end()
		ended := time.Now()
		if took := (<-canceled).Sub(ended); took > within {
			t.Errorf("%s: the upstream noticed after %v", protocol, took)
		}
		time.Sleep(within - time.Since(ended))
		if synctest.Wait(); r.inFlight.Load() != 0 {
			t.Errorf("%s: the request is still in flight", protocol)
		}
	})
}

// lateBody is a body that comes only after wait, also if the request has ended.
type lateBody struct {
	io.ReadCloser
	wait func()
}

func (w *lateBody) Read(b []byte) (int, error) {
	w.wait()
	return w.ReadCloser.Read(b)
}

// An answer that is written when its login ends must not seem whole, even if
// nothing else cuts it off.
func TestEndedAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newStub(t, ownrig.Base)
		r.app.Answer = func(q *http.Request) (*http.Response, error) {
			answer := ownrig.Response(q, http.StatusOK, http.Header{}, "all of it")
			answer.Body = &lateBody{answer.Body, sync.OnceFunc(func() {
				r.end()
				time.Sleep(within)
			})}
			return answer, nil
		}
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("the handler ends with %v, want http.ErrAbortHandler", p)
				}
			}()
			r.ServeHTTP(w, ownrig.Request("GET", "/session/", "", aliceSession))
		}()
		line := r.log.Last(t, "request")
		if reason := fmt.Sprint(line["reason"]); !strings.HasPrefix(reason, "the login has ended") ||
			w.Body.String() != "all of it" {
			t.Errorf("the client got %q, logged %v", w.Body, line)
		}
	})
}

// A request whose login ends while its body comes does not reach the upstream.
func TestStreamsWithASlowBody(t *testing.T) {
	t.Parallel()
	for _, fast := range []bool{true, false} {
		overEach(t, func(t *testing.T, r *rig, protocol string, client *http.Transport) {
			reads, sent := r.app.Answer, false
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				_, err := io.Copy(io.Discard, q.Body)
				if err = cmp.Or(err, q.Context().Err()); err != nil {
					return nil, err
				}
				sent = true
				return reads(q)
			}
			if fast {
				begun := func(ctx context.Context, _ *http1.Plain) { sent = sent || ctx.Err() == nil }
				r.through(&ownrig.FastUpstream{Upstream: r.app, Begun: begun})
			}
			body, feed := io.Pipe()
			fed := make(chan struct{})
			time.AfterFunc(time.Minute, func() {
				defer close(fed)
				r.end()
				time.Sleep(within)
				_, _ = io.WriteString(feed, "body") // the gateway may have closed the connection
				feed.Close()
			})
			q, err := http.NewRequest("POST", "http://gw.example/session/", body)
			if err != nil {
				t.Fatal(err)
			}
			q.ContentLength = 4
			q.Header = ownrig.Request("POST", "/", "", aliceSession, "Origin: https://gw.example").Header
			answer, err := client.RoundTrip(q)
			if err == nil {
				answer.Body.Close()
			}
			<-fed
			if synctest.Wait(); sent || err == nil && answer.StatusCode != 403 {
				t.Errorf("fast: %t, %s: sent: %t, the client got %+v, %v", fast, protocol, sent, answer, err)
			}
		})
	}
}

// Over HTTP/2, the gateway sends GOAWAY (RFC 9113, section 6.8) while it drains: the
// client gets its response, and opens another connection for the next request.
func TestDrainingHTTP2(t *testing.T) {
	t.Parallel()
	for draining, connections := range map[bool]int{false: 1, true: 2} {
		listening(t, ownrig.Base, func(t *testing.T, r *rig, dial func() net.Conn) {
			if draining {
				r.site.Service.Draining.Store(true)
			}
			dials := 0
			transport := ownrig.TransportOver(func() net.Conn { dials++; return dial() }, "HTTP/2.0")
			defer transport.CloseIdleConnections()
			for range 2 {
				answer := ownrig.RoundTrip(t, transport, "GET", "/public/", http.NoBody)
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Error(err)
				}
				answer.Body.Close()
				synctest.Wait()
			}
			if dials != connections || r.app.Reached() != 2 {
				t.Errorf("draining %t: %d connections for %d requests, want %d for 2",
					draining, dials, r.app.Reached(), connections)
			}
		})
	}
}
