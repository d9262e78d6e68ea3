package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"authgate/internal/test/logtest"
)

// idleTime is how long a connection may wait for its next request.
const idleTime = 2 * time.Minute

// fakeQUIC is a connection of a client.
type fakeQUIC struct {
	ctx    context.Context
	cancel context.CancelFunc
	sent   atomic.Uint64
}

func (f *fakeQUIC) Context() context.Context { return f.ctx }
func (f *fakeQUIC) CloseWithError(quic.ApplicationErrorCode, string) error {
	f.cancel()
	return nil
}
func (f *fakeQUIC) ConnectionStats() quic.ConnectionStats {
	return quic.ConnectionStats{PacketsSent: f.sent.Load()}
}
func (f *fakeQUIC) open() bool { return f.ctx.Err() == nil }

// connect is a client that connects. It returns nil if the client is refused.
func connect(t *testing.T, s *quicSet) (*fakeQUIC, *quicClient) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ctx, err := s.attempt(ctx, nil)
	if err != nil {
		cancel()
		return nil, nil
	}
	f := &fakeQUIC{ctx: ctx, cancel: cancel}
	s.accept(f)
	return f, clientOf(ctx)
}

func inBubble(t *testing.T, limit int, f func(t *testing.T, s *quicSet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newQUICSet(limit, idleTime, slog.New(slog.NewJSONHandler(&logtest.Buffer{}, nil))))
	})
}

// A connection that serves no request is closed after idleTime, also if its client
// has begun headers that it does not end.
func TestQUICIdle(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *quicSet) {
		c, client := connect(t, s)
		time.Sleep(idleTime - 1)
		s.beginRequest(client)
		s.beginRequest(client)
		time.Sleep(2 * idleTime)
		s.endRequest(client)
		time.Sleep(2 * idleTime)
		if !c.open() {
			t.Fatal("it is closed while it serves a request")
		}
		s.endRequest(client)
		time.Sleep(idleTime - 1)
		if synctest.Wait(); !c.open() || s.Open() != 1 {
			t.Fatal("it is closed too early")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); c.open() || s.Open() != 0 || s.waiting.Len() != 0 {
			t.Errorf("open %t, %d in the set, %d wait", c.open(), s.Open(), s.waiting.Len())
		}
	})
}

// At the limit the connection that has waited longest makes room. One that serves
// a request, or whose answer may be on its way, does not.
func TestQUICLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(t *testing.T, s *quicSet) {
		busy, client := connect(t, s)
		s.beginRequest(client)
		idle, _ := connect(t, s)
		if c, _ := connect(t, s); c != nil || !idle.open() || s.Displaced() != 1 {
			t.Fatalf("a third one is accepted %t, the second one is open %t, %d displaced", c != nil, idle.open(), s.Displaced())
		}
		time.Sleep(sparedQUIC)
		c, _ := connect(t, s)
		if synctest.Wait(); c == nil || !c.open() || idle.open() || !busy.open() || s.Open() != 2 || s.Displaced() != 2 {
			t.Errorf("accepted %t, idle %t, busy %t, %d open, %d displaced",
				c != nil, idle.open(), busy.open(), s.Open(), s.Displaced())
		}
	})
}

// When the server leaves, a connection without requests is closed once nothing
// moves on it, or after lingerTime.
func TestQUICLeaves(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *quicSet) {
		idle, _ := connect(t, s)
		busy, client := connect(t, s)
		s.beginRequest(client)
		moving, _ := connect(t, s)
		gone, _ := connect(t, s)
		go func() {
			for ; moving.open(); time.Sleep(quietTime / 2) {
				moving.sent.Add(1)
			}
		}()
		s.leave(t.Context())
		gone.cancel()
		time.Sleep(quietTime - 1)
		if synctest.Wait(); !idle.open() {
			t.Error("it is closed at once")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); idle.open() || !busy.open() || !moving.open() {
			t.Errorf("idle %t, busy %t, moving %t", idle.open(), busy.open(), moving.open())
		}
		time.Sleep(lingerTime)
		if synctest.Wait(); moving.open() || !busy.open() {
			t.Errorf("after lingerTime: moving %t, busy %t", moving.open(), busy.open())
		}
		s.endRequest(client)
		time.Sleep(quietTime)
		if synctest.Wait(); busy.open() || s.Open() != 0 {
			t.Errorf("after the last request it is open %t, and %d are", busy.open(), s.Open())
		}
	})
}

// What is left when the time is over is closed by the server; dismiss closes what
// serves no request.
func TestQUICLeavesInTime(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *quicSet) {
		ctx, cancel := context.WithTimeout(t.Context(), quietTime/2)
		defer cancel()
		idle, _ := connect(t, s)
		s.leave(ctx)
		time.Sleep(quietTime / 2)
		if synctest.Wait(); idle.open() {
			t.Error("it is open after the end")
		}
	})
}
