package http1

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forged is a request in the body of another one.
const forged = "GET /admin/secret HTTP/1.1\r\nHost: x\r\nX-Auth-User: root\r\n\r\n"

// A server that does not read bodies serves no request that is in one: only POST, PUT and PATCH leave a connection
// behind that has carried a body.
func TestBodyIsNoRequest(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "PROPFIND", "TRACE", "POST", "PUT", "PATCH"} {
		for name, body := range map[string]io.Reader{
			"small": strings.NewReader(forged),
			"long":  strings.NewReader(forged + strings.Repeat("x", 2*SmallBody)),
		} {
			var served atomic.Int64
			u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
				if r.Header.Get("X-Auth-User") != "" {
					served.Add(1)
				}
				_, err := io.WriteString(conn, okResponse)
				return err == nil && !r.Close // what ReadRequest has not read is the next request
			})
			f := newFixture(t, u.url())
			if _, err := f.send(t.Context(), "GET", nil); err != nil { // a connection is idle
				t.Fatal(err)
			}
			_, err := f.send(t.Context(), method, body)
			u.end(f.CloseIdleConnections)
			exposed := method == "POST" || method == "PUT" || method == "PATCH" // see Strays
			if n := served.Load(); err != nil || !exposed && n != 0 {
				t.Errorf("%s with a %s body: %d requests of the body are served (%v)", method, name, n, err)
			}
			if n := u.connections.Load(); (n == 1) != exposed {
				t.Errorf("%s with a %s body: %d connections", method, name, n)
			}
		}
	}
}

// The fast path leaves such a request to RoundTrip.
func TestPlainBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newRawUpstream(t, say(okResponse)).url())
	if _, err := f.send(t.Context(), "GET", nil); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(f.url, "http://")
	for _, method := range []string{"GET", "DELETE"} {
		p := &Plain{Method: method, Path: "/", Host: "a", Body: []byte(forged)}
		if response, rest := f.Start(t.Context(), time.Now(), address, p); response != nil || rest != nil {
			t.Errorf("%s with a body is sent on an idle connection", method)
		}
	}
}

// Once bytes came that belong to no response, the upstream is reported, each body has a connection of its own,
// and connections rest after every response.
func TestStrays(t *testing.T) {
	t.Parallel()
	const surplus = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
	for _, c := range []struct {
		name, says, late string
		seen             bool
	}{
		{"nothing", okResponse, "", false},
		{"with the response", okResponse + surplus, "", true},
		{"later", okResponse, surplus, true},
		{"one byte later", okResponse, "x", true},
		{"a time-out of the server", okResponse, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", false},
		{"after HEAD", header + "\r\n", surplus, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testStrays(t, c.says, c.late, c.seen)
		})
	}
}

func testStrays(t *testing.T, says, late string, want bool) {
	sent := make(chan struct{})
	u := newRawUpstream(t, func(connection, n int64, r *http.Request, conn net.Conn) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		if connection > 0 || n > 0 {
			_, err := io.WriteString(conn, okResponse)
			return err == nil
		}
		_, _ = io.WriteString(conn, says)
		<-sent
		_, _ = io.WriteString(conn, late)
		return true
	})
	var reports atomic.Int64
	f := newFixture(t, u.url())
	f.strays.Report = func() { reports.Add(1) }
	method := "GET"
	if !strings.Contains(says, "Content-Length") {
		method = "HEAD"
	}
	if _, err := f.send(t.Context(), method, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(says, okResponse+"H") { // the connection is idle
		k := idleOne(t, f.Client)
		close(sent)
		for late != "" && k.isClean() { // until it has come
			runtime.Gosched()
		}
		f.haveRested()
	} else {
		close(sent)
	}
	for range 2 {
		if body, err := f.send(t.Context(), "GET", nil); err != nil || body != "ok" {
			t.Fatalf("the next answer is %q, %v", body, err)
		}
	}
	if f.strays.Seen() != want || reports.Load() != map[bool]int64{true: 1}[want] {
		t.Fatalf("strays are seen: %t, %d reports; want %t", f.strays.Seen(), reports.Load(), want)
	}
	if !want {
		return
	}
	if n := f.idle.conns[u.listener.Addr().String()].ready.len(); n > 0 {
		t.Errorf("%d connections do not rest", n)
	}
	f.haveRested()
	before := u.connections.Load()
	for range 2 {
		if _, err := f.send(t.Context(), "POST", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := u.connections.Load() - before; n != 2 {
		t.Errorf("two bodies have %d connections", n)
	}
}

// newUnread returns an upstream that leaves bodies unread, and counts the requests of bodies that it serves.
func newUnread(t *testing.T, served *atomic.Int64) *rawUpstream {
	return newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
		if r.Header.Get("X-Auth-User") != "" {
			served.Add(1)
		}
		_, err := io.WriteString(conn, okResponse)
		return err == nil && !r.Close
	})
}

// keepIdle gives the client n idle connections. The first one has the bytes of a response that belongs to no request.
func (f *fixture) keepIdle(t *testing.T, address string, n int64) {
	t.Helper()
	var idle []*conn
	for range n {
		k, err := f.open(t.Context(), address, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, k)
	}
	if _, err := io.WriteString(idle[0].Conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for idle[0].isClean() { // until the response has come
		runtime.Gosched()
	}
	for _, k := range idle {
		f.idle.put(k, false)
	}
}

// The request that finds such bytes while it looks for a connection already has one of its own, as all later ones with
// a body: the upstream serves no request that is in its body.
func TestStraysBeforeABody(t *testing.T) {
	t.Parallel()
	for _, body := range []string{forged, forged + strings.Repeat("x", 2*SmallBody)} {
		for _, idle := range []int64{1, 2} {
			var served atomic.Int64
			u := newUnread(t, &served)
			f := newFixture(t, u.url())
			f.keepIdle(t, u.listener.Addr().String(), idle)
			got, err := f.send(t.Context(), "POST", strings.NewReader(body))
			if err != nil || got != "ok" || !f.strays.Seen() {
				t.Errorf("%d bytes, %d idle: %q, %v; the bytes are seen: %t", len(body), idle, got, err,
					f.strays.Seen())
			}
			u.end(f.CloseIdleConnections)
			if n := u.connections.Load(); n != idle+1 || served.Load() != 0 {
				t.Errorf("%d bytes, %d idle: %d connections, and %d requests of the body are served", len(body), idle,
					n,
					served.Load())
			}
		}
	}
}

// The fast path sends no body after it has found such bytes.
func TestStraysBeforeAPlainBody(t *testing.T) {
	t.Parallel()
	u := newUnread(t, new(atomic.Int64))
	f := newFixture(t, u.url())
	address := u.listener.Addr().String()
	f.keepIdle(t, address, 2)
	p := &Plain{Method: "POST", Path: "/", Host: "a", Body: []byte(forged)}
	response, rest := f.Start(t.Context(), time.Now(), address, p)
	if response != nil || rest != nil || !f.strays.Seen() {
		t.Errorf("the body is sent: %t; the bytes are seen: %t", response != nil || rest != nil, f.strays.Seen())
	}
}

// A connection rests after a response without a body, so that late bytes are found. The one that has rested longest
// is used.
func TestRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newDialing(t, time.Minute, nil)
		connection := func(rests bool) *conn {
			here, there := net.Pipe()
			t.Cleanup(func() { there.Close() })
			k := newConn(here, "app")
			f.idle.put(k, rests)
			return k
		}
		resting := connection(true)
		time.Sleep(restTime - time.Nanosecond)
		if f.idle.take("app", time.Now()) != nil {
			t.Error("a connection is used while it rests")
		}
		first := connection(false)
		time.Sleep(time.Nanosecond)
		second := connection(false)
		for i, want := range []*conn{resting, first, second, nil} {
			if got := f.idle.take("app", time.Now()); got != want {
				t.Errorf("connection %d is not the one that has rested longest", i)
			}
		}
		for range 100 { // the memory is used again
			for _, k := range []*conn{first, second, resting} {
				f.idle.put(k, false)
			}
			for _, want := range []*conn{first, second, resting} {
				if got := f.idle.take("app", time.Now()); got != want {
					t.Fatal("the connections are in another order")
				}
			}
		}
		if n := cap(f.idle.conns["app"].ready.conns); n > 8 {
			t.Errorf("memory for %d connections, and at most 3 are idle", n)
		}
	})
}

// A 102 begins the time limit of the response's header anew.
func TestProcessing(t *testing.T) {
	t.Parallel()
	long := strings.NewReader(strings.Repeat("x", 2*SmallBody))
	for name, body := range map[string]io.Reader{"no body": nil, "a long body": long} {
		for status, want := range map[string]int{"102 Processing": 200, "103 Early Hints": 504} {
			synctest.Test(t, func(t *testing.T) {
				f := newDialing(t, time.Second, answering(func(c net.Conn, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					for range 3 {
						time.Sleep(900 * time.Millisecond)
						_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\n\r\n") // the client may have given up
					}
					time.Sleep(900 * time.Millisecond)
					_, _ = io.WriteString(c, okResponse)
				}))
				method := "GET"
				if body != nil {
					method = "POST"
				}
				if _, err := f.send(t.Context(), method, body); statusOf(err) != want {
					t.Errorf("%s, %s: %d (%v), want %d", name, status, statusOf(err), err, want)
				}
				if s, ok := body.(io.Seeker); ok {
					_, _ = s.Seek(0, io.SeekStart)
				}
				time.Sleep(time.Minute) // until the upstream is done
			})
		}
	}
}
