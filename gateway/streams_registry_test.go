package gateway

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/web"
	"authgate/policy"
)

// Nothing runs while there are no streams, and public requests over HTTP/2 are
// none.
func TestStreamsAtRest(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		public := s.open("HTTP/2.0", "/public/", "Accept: */*")
		defer public.Close()
		if s.streams.armed.Load() || len(s.streams.all()) > 0 {
			t.Error("a public stream is checked")
		}
		body := s.open("HTTP/1.1", "/session/", s.login(aliceIn).cookie)
		if !s.streams.armed.Load() || len(s.streams.all()) != 1 {
			t.Error("a stream is not checked")
		}
		body.Close()
		time.Sleep(2 * checkEvery)
		synctest.Wait()
		if s.streams.armed.Load() || len(s.streams.all()) > 0 {
			t.Error("the timer runs on")
		}
	})
}

// A check that panics ends nothing, and does not keep others from being checked.
func TestStreamsSurviveAPanic(t *testing.T) {
	t.Parallel()
	var ended []string
	s := newStreams(func(_ context.Context, ex *exchange) error {
		if ex.Label == "panics" {
			panic("in a check")
		}
		return &endedError{}
	}, func(ex *exchange, _ *endedError) { ended = append(ended, ex.Label) })
	s.armed.Store(true) // the test checks
	for _, label := range []string{"panics", "ends"} {
		s.add(&exchange{Exchange: web.Exchange{Record: web.Record{Label: label, Identity: &policy.Identity{}}}})
	}
	for range 2 {
		s.checkAll(t.Context(), s.all(), time.Now())
	}
	if !slices.Equal(ended, []string{"ends", "ends"}) || len(s.all()) != 2 {
		t.Errorf("%q have ended, %d are left", ended, len(s.all()))
	}
}

// An answer that is written when its login ends must not seem whole, even if
// nothing else cuts it off.
func TestEndedAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	ex := r.begin(httptest.NewRecorder(), request("GET", "/session/", ""))
	ex.cancelUpstream = func() {}
	r.streams.add(ex)
	_, _ = ex.Write([]byte("all of it"))
	r.endStream(ex, &endedError{err: web.Forbidden(), reason: "revoked"})
	aborted(t, ex.finish)
	if line := r.log.Last(t, "request"); line["reason"] != "the login has ended: revoked" {
		t.Errorf("logged %v", line)
	}
}
