package webhook

import (
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/audit"
	"authgate/internal/test/must"
)

// Nothing waits for a webhook: neither the event nor a reload; a stop ends what hangs after two seconds. What
// waits then is lost, counted and logged.
func TestStopWithEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, status(http.StatusInternalServerError))
		start := time.Now()
		f.recorder.Record("login")
		synctest.Wait()
		f.becomes(hang)
		for range 9 {
			f.recorder.Record("logout")
		}
		synctest.Wait()
		f.set(f.receiver)
		if took := time.Since(start); took > 0 {
			t.Errorf("events or a reload took %v", took)
		}
		f.Close()
		if took := time.Since(start); took != endTime {
			t.Errorf("the stop took %v", took)
		}
		f.expect(0, 0, 10, 2)
		line := f.log.Last(t, "events for a webhook are lost: the gateway stops, or has this webhook no more")
		if line["name"] != "ops" || line["events"] != 10.0 {
			t.Errorf("the log has %v", line)
		}
		f.recorder.Record("login")
		time.Sleep(48 * time.Hour)
		f.expect(0, 0, 10, 2)
	})
}

// A stop still sends what is due, and does not wait if nothing is.
func TestStopSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) })
		for range 10 {
			f.recorder.Record("login")
		}
		start := time.Now()
		f.Close()
		if took := time.Since(start); took != time.Second {
			t.Errorf("the stop took %v", took)
		}
		f.expect(10, 0, 0, 0)
	})
}

// A reload keeps what waits for a webhook of the same name, which is then sent as the new configuration says. What
// waits for a webhook that is there no more is lost, and the reload does not wait for it.
func TestReload(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusInternalServerError), func(t *testing.T, f *fixture) {
		f.recorder.Record("login")
		f.expect(0, 0, 0, 1)
		same, other := f.receiver, f.receiver
		same.URL = must.Get(url.Parse(same.URL.String()))(t)
		other.Name = "other"
		f.set(same, other)
		f.becomes(status(http.StatusOK))
		time.Sleep(10 * time.Second)
		f.expect(1, 0, 0, 1)

		f.becomes(hang)
		f.recorder.Record("login")
		synctest.Wait()
		f.becomes(status(http.StatusOK))
		changed := f.receiver
		changed.URL = must.Get(url.Parse("http://127.0.0.1:1/new"))(t)
		changed.Events = []string{"logout"}
		f.set(changed)
		f.recorder.Record("login")
		f.expect(1, 0, 0, 1) // the line of other comes later
		f.taken()
		time.Sleep(time.Minute)
		f.expect(2, 0, 0, 3)
		if dropped := f.counted("other", "dropped"); dropped != 1 {
			t.Errorf("%d events of the other webhook are dropped", dropped)
		}
	})
}

// A failure of a webhook that has changed is logged again.
func TestReloadLogsAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusInternalServerError), func(t *testing.T, f *fixture) {
		for _, lines := range []int{1, 1} {
			f.recorder.Record("login")
			f.expect(0, 0, 0, lines)
			f.set(f.receiver)
		}
		changed := f.receiver
		changed.Keys = [][]byte{[]byte("other")}
		f.set(changed)
		f.recorder.Record("login")
		f.expect(0, 0, 0, 2)
	})
}

// A webhook gets the events that it lists alone, whatever the level of the log.
func TestEvents(t *testing.T) {
	t.Parallel()
	inBubble(t, status(http.StatusOK), func(t *testing.T, f *fixture) {
		f.receiver.Events = []string{"login", "denied"}
		f.set(f.receiver)
		for _, event := range []string{"login", "logout", "denied"} {
			f.recorder.Record(event)
		}
		if calls := f.taken(); len(calls) != 2 || calls[1].fields(t)["event"] != "denied" {
			t.Errorf("the calls %v", calls)
		}
		f.expect(2, 0, 0, 0)
	})
}

// Without receivers an event is not encoded, and a nil sender does nothing.
func TestNone(t *testing.T) { // not parallel: it measures memory
	s := must.Get(New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), nil))(t)
	event := slog.NewRecord(time.Now(), slog.LevelInfo, audit.Message, 0)
	event.AddAttrs(slog.String("event", "login"))
	if n := testing.AllocsPerRun(100, func() { s.Send(event) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Sender
	none.Set(nil)
	none.Close()
}
