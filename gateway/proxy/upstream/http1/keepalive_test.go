package http1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// An idle connection is not used when the upstream may be closing it, as its Keep-Alive says, by either way.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"timeout=5": 4 * time.Second, "timeout=5, max=100": 4 * time.Second, "max=1,  Timeout = 20 ": 19 * time.Second,
		"timeout=1": 500 * time.Millisecond, "timeout=0": 0,
		"": idleLives, "max=5": idleLives, "timeout=x": idleLives, "timeout": idleLives, "timeout=-1": idleLives,
		"timeout=600": idleLives, "timeout=99999999999999999999": idleLives,
	} {
		for way := range 2 {
			for _, late := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					f := newDialing(t, time.Minute, idling("Keep-Alive: "+value+"\r\n"))
					wait := want - time.Millisecond
					if late || want == 0 {
						wait = want
					}
					f.ask(t, way, wait)
					if got, used := f.dialed.Load(), !late && want > 0; (got == 1) != used {
						t.Errorf("Keep-Alive: %s, way %d: %d connections when the last request comes after %v", value,
							way, got, wait)
					}
				})
			}
		}
	}
}

// A connection carries no further request when it is too old, by either way.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	const age = 16 * time.Second
	for way := range 2 {
		for wait, want := range map[time.Duration]int64{age * 7 / 8: 1, age: 2} { // ages differ by an eighth
			synctest.Test(t, func(t *testing.T) {
				f := newDialing(t, time.Minute, idling(""))
				f.age = age
				f.ask(t, way, wait-time.Millisecond)
				time.Sleep(time.Millisecond)
				f.ask(t, way, 0)
				if got := f.dialed.Load(); got != want {
					t.Errorf("way %d: %d connections after %v, want %d", way, got, wait, want)
				}
			})
		}
	}
}

// idling returns a dialer of connections that pass their check. They answer each request, with those lines
// in the header.
func idling(lines string) dialFunc {
	dial := pipe(func(c net.Conn) {
		requests := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(requests); err != nil {
				return
			}
			if _, err := io.WriteString(c, header+lines+"Content-Length: 2\r\n\r\nok"); err != nil {
				return
			}
		}
	})
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := dial(ctx, address)
		return open{c}, err
	}
}

// ask sends requests by that way, and waits before the last one.
func (f *fixture) ask(t *testing.T, way int, wait time.Duration) {
	t.Helper()
	by := []http.RoundTripper{f.Client, fastWay{f.Client}}[way]
	for n := range 3 {
		if n == 2 {
			time.Sleep(wait)
		}
		if got := outcome(by, newRequest(t, t.Context(), "GET", fmt.Sprint(f.url, "/", n), nil)); got != "200 ok" {
			t.Errorf("request %d: %s", n, got)
		}
	}
}

// A connection on which a user is signed in may get as old as it will, but is not used when the upstream may be
// closing it.
func TestOwnedConnections(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]int64{4*time.Second - 1: 1, 4 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			f := newDialing(t, time.Minute, idling("Keep-Alive: timeout=5\r\n"))
			f.age = 1
			owner := new(Owner)
			defer owner.Close()
			for n := range 3 {
				if n == 2 {
					time.Sleep(wait)
				}
				r := newRequest(t, WithOwner(t.Context(), owner), "GET", f.url+"/", nil)
				r.Header.Set("Authorization", "NTLM x")
				if got := outcome(f.Client, r); got != "200 ok" {
					t.Errorf("request %d: %s", n, got)
				}
			}
			if got := f.dialed.Load(); got != want {
				t.Errorf("%d connections after %v, want %d", got, wait, want)
			}
		})
	}
}
