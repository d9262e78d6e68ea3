package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An answer without end is given up at its limit, wherever it comes from.
func TestEndlessAnswers(t *testing.T) {
	for _, path := range endpoints {
		f := newFake(t).listen()
		sent := make(chan int64, 1)
		f.instead[path] = func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(w, neverEnding{})
			select {
			case sent <- n:
			default: // the provider has asked once more
			}
		}
		_, err := exchange(t, f.provider(nil))
		wantError(t, err, ErrFault, "longer than 1048576 bytes")
		if n := <-sent; n > 64<<20 {
			t.Errorf("%s: %d bytes were sent", path, n)
		}
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return copy(p, strings.Repeat(" ", len(p))), nil }

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, path := range endpoints {
		for _, status := range []int{301, 302, 303, 307, 308} {
			f := newFake(t)
			f.instead[path] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", status) }
			_, err := exchange(t, f.provider(nil))
			wantError(t, err, ErrFault, "redirects are not followed")
			f.wantCalled(t, "/elsewhere", 0)
		}
	}
}

// An answer whose end comes after its request was given up is no answer.
func TestAnswerThatEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		ctx, giveUp := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://provider.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = limits{base: givenUp{status, giveUp}}.RoundTrip(r)
		if !errors.As(err, new(noAnswer)) || !errors.Is(err, context.Canceled) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// givenUp is a provider whose answer ends when its request is given up.
type givenUp struct {
	status int
	giveUp func()
}

func (g givenUp) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: g.status, Header: http.Header{}, Body: g}, nil
}

func (g givenUp) Read([]byte) (int, error) {
	g.giveUp()
	return 0, io.EOF
}

func (givenUp) Close() error { return nil }

// Each endpoint may stall: before the answer, or in its middle.
func TestStalledEndpoints(t *testing.T) {
	for _, path := range endpoints {
		inBubble(t, func(t *testing.T, f *fake, _ *Provider) {
			f.instead[path] = stall
			started := time.Now()
			_, err := exchange(t, f.provider(func(o *Options) { o.Timeout = 3 * time.Second }))
			wantError(t, err, ErrTimeout, "deadline exceeded")
			if took := time.Since(started); took != 3*time.Second {
				t.Errorf("%s: took %v, want 3s", path, took)
			}
		})
	}
	f := newFake(t).listen()
	f.instead["/userinfo"] = func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"sub":`)
		w.(http.Flusher).Flush()
		stall(w, r)
	}
	_, err := exchange(t, f.provider(func(o *Options) { o.Timeout = 50 * time.Millisecond }))
	wantError(t, err, ErrTimeout, "reading the answer")
}

// A caller that goes away does not wait for what it shares with others, and
// what it leaves behind ends with Close.
func TestCallerGoesAway(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake, p *Provider) {
		var ended atomic.Bool
		f.instead[discoveryPath] = func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second)
			ended.Store(true)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := p.AuthorizationURL(ctx, testAttempt)
		wantError(t, err, ErrTimeout, "deadline exceeded")

		cancelled, cancelNow := context.WithCancel(t.Context())
		cancelNow()
		if _, err := p.AuthorizationURL(cancelled, testAttempt); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want one that is context.Canceled", err)
		}
		cancel()
		p.Close() // synctest fails the test where a goroutine is left
		if !ended.Load() {
			t.Error("the call goes on after Close")
		}
		_, err = p.AuthorizationURL(t.Context(), testAttempt)
		wantError(t, err, ErrFault, "discovery")
	})
}

// Each call is observed, with its error, whose text is bounded.
func TestObserve(t *testing.T) {
	f := newFake(t)
	var seen []string
	p := f.provider(func(o *Options) {
		o.Observe = func(operation string, _ time.Duration, err error) {
			if err != nil {
				operation += " failed"
			}
			seen = append(seen, operation)
		}
	})
	must(exchange(t, p))
	f.id["iss"] = strings.Repeat("x", 100_000)
	_, err := exchange(t, p)
	wantError(t, err, ErrFault, "iss is")
	if known, ok := errors.AsType[*Error](err); !ok || known.Provider != "test" ||
		known.Operation != "token" || len(err.Error()) > 2*maxErrorText {
		t.Errorf("got %+v with %d bytes", known, len(err.Error()))
	}
	f.id, f.instead["/userinfo"] = object{}, say(500, "", "")
	_, err = exchange(t, p)
	wantError(t, err, ErrFault, "500")
	f.instead["/token"] = say(400, "", "")
	_, err = exchange(t, p)
	wantError(t, err, ErrFault, "400")
	want := []string{"discovery", "token", "keys", "userinfo", "token", "token", "userinfo failed", "token failed"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// The package's own transport keeps connections, until Close.
func TestOwnTransport(t *testing.T) {
	f := newFake(t).listen()
	p := f.provider(nil)
	connections := map[string]bool{}
	f.instead["/userinfo"] = func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		sayJSON(marshal(f.userinfo))(w, r)
	}
	must(exchange(t, p))
	must(exchange(t, p))
	kept := len(connections)
	p.Close()
	must(exchange(t, p)) // metadata and keys are at hand
	if kept != 1 || len(connections) != 2 {
		t.Errorf("%d connections, want 1; %d after Close, want 2", kept, len(connections))
	}
}
