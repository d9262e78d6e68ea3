package provider

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

// An answer without end is given up at its limit, wherever it comes from.
func TestEndlessAnswers(t *testing.T) {
	for _, path := range []string{discoveryPath, "/keys", "/token", "/userinfo"} {
		t.Run(path, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			var sent atomic.Int64
			ended := make(chan struct{})
			f.instead[path] = func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				for chunk := []byte(strings.Repeat(" ", 64<<10)); ; {
					n, err := w.Write(chunk)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			}
			_, err := exchange(t, f.provider(nil))
			wantError(t, err, ErrFault, "longer than 1048576 bytes")
			<-ended
			if sent.Load() > 64<<20 {
				t.Errorf("%d bytes were sent", sent.Load())
			}
		})
	}
}

// The limit is for what is decompressed, and an answer just within it is not cut.
func TestLongAnswers(t *testing.T) {
	body := `{"sub":"alice-sub"}`
	testLogins(t, []loginTest{
		{"at the limit", func(f *fake) {
			f.instead["/userinfo"] = say(200, "application/json", strings.Repeat(" ", maxAnswer-len(body))+body)
		}, ""},
		{"above", func(f *fake) {
			f.instead["/userinfo"] = say(200, "application/json", strings.Repeat(" ", maxAnswer-len(body)+1)+body)
		}, "longer than 1048576 bytes"},
		{"compressed", func(f *fake) {
			f.instead["/userinfo"] = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				io.WriteString(z, strings.Repeat(" ", 8<<20)+body)
				z.Close()
			}
		}, "longer than 1048576 bytes"},
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, path := range []string{discoveryPath, "/keys", "/token", "/userinfo"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			f := newFake(t, clocktest.New().Now).listen()
			f.instead[path] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", status) }
			_, err := exchange(t, f.provider(nil))
			wantError(t, err, ErrFault, "redirects are not followed")
			if f.called("/elsewhere") != 0 {
				t.Errorf("%s: the redirect %d was followed", path, status)
			}
		}
	}
}

// Each endpoint may stall: before the answer, or in its middle.
func TestStalledEndpoints(t *testing.T) {
	for _, path := range []string{discoveryPath, "/keys", "/token", "/userinfo"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, time.Now)
				f.instead[path] = stall
				p := f.provider(func(o *Options) { o.Transport, o.Timeout = f, 3*time.Second })
				started := time.Now()
				_, err := exchange(t, p)
				wantError(t, err, ErrTimeout, "deadline exceeded")
				if took := time.Since(started); took != 3*time.Second {
					t.Errorf("took %v, want 3s", took)
				}
			})
		})
	}
	t.Run("in the middle of a body", func(t *testing.T) {
		f := newFake(t, clocktest.New().Now).listen()
		f.instead["/userinfo"] = func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"sub":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		_, err := exchange(t, f.provider(func(o *Options) { o.Timeout = 50 * time.Millisecond }))
		wantError(t, err, ErrTimeout, "reading the answer")
	})
}

// A caller that goes away does not wait for what it shares with others, and
// what it leaves behind ends with Close.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, time.Now)
		var ended atomic.Bool
		f.instead[discoveryPath] = func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second)
			ended.Store(true)
		}
		p := f.provider(func(o *Options) { o.Transport = f })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.AuthorizationURL(ctx, testAttempt)
		wantError(t, err, ErrTimeout, "deadline exceeded")

		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.AuthorizationURL(cancelled, testAttempt); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want one that is context.Canceled", err)
		}
		p.Close() // synctest fails the test where a goroutine is left
		if !ended.Load() {
			t.Error("the call goes on after Close")
		}
		_, err = p.AuthorizationURL(t.Context(), testAttempt)
		wantError(t, err, ErrFault, "")
	})
}

func TestObserve(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	var seen []string
	p := f.provider(func(o *Options) {
		o.Observe = func(operation string, _ time.Duration, err error) {
			if err != nil {
				operation += " failed"
			}
			seen = append(seen, operation)
		}
	})
	mustExchange(t, p)
	f.instead["/userinfo"] = say(500, "", "")
	if _, err := exchange(t, p); err == nil {
		t.Error("no error")
	}
	want := []string{"discovery", "token", "keys", "userinfo", "token", "userinfo failed"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// The package's own transport keeps connections, until Close.
func TestOwnTransport(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	p := f.provider(nil)
	connections := map[string]bool{}
	f.instead["/userinfo"] = func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		say(200, "application/json", marshal(t, f.userinfo))(w, r)
	}
	mustExchange(t, p)
	mustExchange(t, p)
	if len(connections) != 1 {
		t.Errorf("%d connections", len(connections))
	}
	p.Close()
	mustExchange(t, p) // metadata and keys are at hand
	if len(connections) != 2 {
		t.Errorf("%d connections, want a new one after Close", len(connections))
	}
}

func TestErrorsAreClipped(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.id["iss"] = strings.Repeat("x", 100_000)
	_, err := exchange(t, f.provider(nil))
	wantError(t, err, ErrFault, "different provider")
	if len(err.Error()) > 2*maxErrorText {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	known, ok := errors.AsType[*Error](err)
	if !ok || known.Provider != "test" || known.Operation != "token" {
		t.Errorf("got %+v", known)
	}
}
