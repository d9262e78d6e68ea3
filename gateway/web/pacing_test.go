package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// deadlineWriter is a server's writer that counts the time limits of an answer.
type deadlineWriter struct {
	http.ResponseWriter
	limits []time.Duration // until then; 0: removed
}

func (w *deadlineWriter) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		w.limits = append(w.limits, 0)
	} else {
		w.limits = append(w.limits, time.Until(t).Round(time.Minute))
	}
	return nil
}

// A large answer has a time limit, which ends with the answer. The limit of Cut
// stays, and a WebSocket has none.
func TestAnswerLimits(t *testing.T) {
	t.Parallel()
	large := []byte(strings.Repeat("x", unpacedAnswer+1))
	for name, c := range map[string]struct {
		answer func(*testExchange)
		want   []time.Duration
	}{
		"small":    {func(e *testExchange) { _, _ = e.Write(large[1:]) }, nil},
		"large":    {func(e *testExchange) { _, _ = e.Write(large) }, []time.Duration{AnswerPause, AnswerPause, 0}},
		"switched": {func(e *testExchange) { _, _ = e.Write(large); e.Status = http.StatusSwitchingProtocols }, []time.Duration{AnswerPause}},
		"cut":      {func(e *testExchange) { e.Cut(time.Minute); _, _ = e.Write(large) }, []time.Duration{time.Minute}},
		"cut late": {func(e *testExchange) { _, _ = e.Write(large); e.Cut(time.Minute) }, []time.Duration{AnswerPause, time.Minute}},
	} {
		e := newExchange(t, request("/"))
		w := &deadlineWriter{ResponseWriter: e.w}
		e.ResponseWriter = w
		c.answer(e)
		e.Finish(false)
		if !slices.Equal(w.limits, c.want) {
			t.Errorf("%s: limits %v, want %v", name, w.limits, c.want)
		}
	}
}

// No cookie of an upstream passes with an informational response: only the
// header of the final one is checked.
func TestInformationalSetsNoCookie(t *testing.T) {
	t.Parallel()
	e := newExchange(t, request("/"))
	e.ResponseWriter = &serverWriter{ResponseRecorder: e.w}
	e.Header().Set("Set-Cookie", "a=b")
	e.Header().Set("Link", "</a>")
	e.WriteHeader(http.StatusEarlyHints)
	if e.Header().Get("Set-Cookie") != "" || e.Header().Get("Link") == "" {
		t.Errorf("passed on: %v", e.Header())
	}
}
