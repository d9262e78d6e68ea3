package webhook

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A failure is tried again after about 5 s, 30 s, 2 min, 10 min, 1 h, 6 h and 24 h, with the same id, body and a
// new timestamp, and is then given up. The log has one line, until there was a success.
func TestRetries(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusInternalServerError), func(t *testing.T, f *fixture) {
		f.recorder.Record("login")
		time.Sleep(48 * time.Hour)
		calls := f.taken()
		if len(calls) != 8 {
			t.Fatalf("%d tries, want 8", len(calls))
		}
		for i, want := range pauses() {
			pause := calls[i+1].at.Sub(calls[i].at)
			if pause < want*9/10 || pause > want*11/10 {
				t.Errorf("pause %d is %v, want about %v", i, pause, want)
			}
			first, next := calls[0], calls[i+1]
			if next.header.Get("webhook-id") != first.header.Get("webhook-id") || next.body != first.body {
				t.Errorf("try %d has another id or body", i+1)
			}
			if at := fmt.Sprint(next.at.Unix()); next.header.Get("webhook-timestamp") != at {
				t.Errorf("the timestamp %s, want %s", next.header.Get("webhook-timestamp"), at)
			}
			if next.header.Get("webhook-signature") == first.header.Get("webhook-signature") {
				t.Error("the signature is that of another time")
			}
		}
		f.expect(0, 1, 0, 1)
		line := f.log.Last(t, "a webhook failed")
		if line["name"] != "ops" || line["host"] != "127.0.0.1:1" || line["reason"] != "the answer has the status 500" {
			t.Errorf("the log has %v", line)
		}
		f.becomes(status(http.StatusNoContent))
		f.recorder.Record("login")
		f.expect(1, 1, 0, 1)
		f.becomes(status(http.StatusInternalServerError))
		f.recorder.Record("login")
		f.expect(1, 1, 0, 2)
	})
}

// The pauses are not the same for all events.
func TestRetriesVary(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusInternalServerError), func(t *testing.T, f *fixture) {
		for range 20 {
			f.recorder.Record("login")
		}
		start := time.Now()
		time.Sleep(10 * time.Second)
		different := map[time.Duration]bool{}
		for _, c := range f.taken()[20:] {
			different[c.at.Sub(start)] = true
		}
		if len(different) < 10 {
			t.Errorf("%d different pauses", len(different))
		}
	})
}

// A longer Retry-After holds, in seconds and as a date, and a shorter one does not.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field     func() string
		low, high time.Duration
	}{
		{func() string { return "90" }, 90 * time.Second, 90 * time.Second},
		{func() string { return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat) }, time.Hour, time.Hour},
		{func() string { return "1" }, 4500 * time.Millisecond, 5500 * time.Millisecond},
		{func() string { return "-7" }, 4500 * time.Millisecond, 5500 * time.Millisecond},
		{func() string { return "99999999999999999999" }, 4500 * time.Millisecond, 5500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.field())
				w.WriteHeader(http.StatusTooManyRequests)
			})
			defer f.Close()
			f.recorder.Record("login")
			time.Sleep(c.high + time.Second)
			calls := f.taken()
			if len(calls) != 2 {
				t.Fatalf("%s: %d tries, want 2", c.field(), len(calls))
			}
			if pause := calls[1].at.Sub(calls[0].at); pause < c.low || pause > c.high {
				t.Errorf("%s: the pause is %v", c.field(), pause)
			}
		})
	}
}

// A receiver that hangs is a failure after the timeout. A receiver that is away is one too, and gets the events
// when it comes back.
func TestAway(t *testing.T) {
	t.Parallel()
	inBubble(t, hang, func(t *testing.T, f *fixture) {
		f.recorder.Record("login")
		time.Sleep(14 * time.Second)
		f.expect(0, 0, 0, 0)
		time.Sleep(2 * time.Second)
		f.expect(0, 0, 0, 1)
		if reason := f.log.Last(t, "a webhook failed")["reason"]; reason != "no answer within 15s" {
			t.Errorf("the reason %v", reason)
		}
		f.becomes(nil)
		f.recorder.Record("logout")
		f.expect(0, 0, 0, 1)
		f.becomes(status(http.StatusOK))
		f.taken()
		time.Sleep(time.Minute)
		if calls := f.taken(); len(calls) != 2 {
			t.Errorf("%d calls after the receiver came back, want 2", len(calls))
		}
		f.expect(2, 0, 0, 1)
	})
}

// What waits between two tries holds up no later event, and what hangs does for a second at most.
func TestHoldsUpNone(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusInternalServerError), func(t *testing.T, f *fixture) {
		f.recorder.Record("login")
		f.taken()
		f.becomes(status(http.StatusOK))
		f.recorder.Record("logout")
		f.expect(1, 0, 0, 1)
		f.becomes(hang)
		for range 5 {
			f.recorder.Record("denied")
		}
		time.Sleep(4500 * time.Millisecond)
		if hanging := len(f.taken()); hanging < 6 {
			t.Errorf("%d requests are under way", hanging)
		}
		f.becomes(status(http.StatusOK))
		f.recorder.Record("session")
		time.Sleep(time.Second)
		if calls := f.taken(); len(calls) == 0 || calls[0].fields(t)["event"] != "session" {
			t.Errorf("the calls %v", calls)
		}
	})
}

// While the receiver answers in time, events arrive one after the other and in their order. To a receiver that
// hangs at most 16 requests are under way.
func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int32
		f := newFixture(t, func(http.ResponseWriter, *http.Request) {
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(500 * time.Millisecond)
			at.Add(-1)
		})
		defer f.Close()
		for i := range 100 {
			f.recorder.Record("login", slog.Int("number", i))
		}
		time.Sleep(time.Minute)
		for i, c := range f.taken() {
			if c.fields(t)["number"] != float64(i) {
				t.Fatalf("event %v is number %d", c.fields(t)["number"], i)
			}
		}
		f.expect(100, 0, 0, 0)
		if most.Load() != 1 {
			t.Errorf("%d requests at once", most.Load())
		}
		f.becomes(hang)
		for range 100 {
			f.recorder.Record("login")
		}
		time.Sleep(14*time.Second + 500*time.Millisecond)
		if calls := len(f.taken()); calls < 10 || calls > maxAtOnce {
			t.Errorf("%d requests are under way", calls)
		}
	})
}

// Of 10,000 events at once, 1,000 wait and the new ones are dropped, also while they wait for another try. They
// take bounded memory, and all that wait arrive when the receiver is back.
func TestBurstOfEvents(t *testing.T) { // not parallel: it measures memory
	inBubble(t, hang, func(t *testing.T, f *fixture) {
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := heap()
		for i := range 10_000 {
			f.recorder.Record("denied", slog.Int("number", i), slog.String("reason", strings.Repeat("x", 1000)))
		}
		f.expect(0, 0, 9000, 1)
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("10,000 events take %d bytes", grown)
		}
		f.becomes(status(http.StatusInternalServerError))
		time.Sleep(16 * time.Second)
		f.recorder.Record("denied")
		f.expect(0, 0, 9001, 1)
		f.becomes(status(http.StatusOK))
		f.taken()
		time.Sleep(time.Hour)
		f.expect(1000, 0, 9001, 1)
		for _, c := range f.taken() {
			if c.fields(t)["number"].(float64) >= 1000 {
				t.Fatal("a new event took the place of one that waited")
			}
		}
		f.recorder.Record("denied")
		f.expect(1001, 0, 9001, 1)
	})
}

// The silence after dropped events ends with the first success after half of the queue is free. Until then a
// success ends none.
func TestSilenceAfterOverflow(t *testing.T) {
	t.Parallel()
	slow := func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second / 2) }
	inBubble(t, slow, func(t *testing.T, f *fixture) {
		record := func(events int) {
			for range events {
				f.recorder.Record("denied")
			}
		}
		leave := func(waiting int) {
			q := (*f.queues.Load())[0]
			q.mu.Lock()
			defer q.mu.Unlock()
			for q.waiting > waiting {
				q.mu.Unlock()
				time.Sleep(time.Second / 4)
				q.mu.Lock()
			}
		}
		record(maxWaiting + 1)
		f.expect(0, 0, 1, 1)
		leave(maxWaiting/2 + 1)
		record(maxWaiting / 2)
		f.expect(499, 0, 2, 1)
		leave(maxWaiting / 2)
		record(maxWaiting/2 + 1)
		f.expect(999, 0, 3, 2)
		time.Sleep(time.Hour)
		f.expect(1999, 0, 3, 2)
	})
}

// An answer that comes just when the patience with it ends holds up neither the events behind it nor a stop.
func TestAnswerAtTheEndOfPatience(t *testing.T) {
	t.Parallel()
	for range 200 {
		first := true
		inBubble(t, func(http.ResponseWriter, *http.Request) {
			if first {
				first = false
				time.Sleep(patience)
			}
		}, func(t *testing.T, f *fixture) {
			for range 3 {
				f.recorder.Record("login")
			}
			synctest.Wait()
			f.Close()
			if sent := f.counted("ops", "sent"); sent != 3 {
				t.Errorf("%v events are sent, want 3", sent)
			}
		})
	}
}
