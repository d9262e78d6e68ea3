package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
			t.Error("a public stream is looked at")
		}
		body := s.open("HTTP/1.1", "/session/", s.login(aliceIn).cookie)
		if !s.streams.armed.Load() || len(s.streams.all()) != 1 {
			t.Error("a stream is not looked at")
		}
		body.Close()
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if s.streams.armed.Load() || len(s.streams.all()) > 0 {
			t.Error("the timer runs on")
		}
	})
}

// Requests come and go while others are looked at.
func TestStreamsComeAndGo(t *testing.T) {
	t.Parallel()
	ended := make(chan *exchange, 1000)
	s := newStreams(
		func(_ context.Context, ex *exchange) error {
			switch ex.label {
			case "bad":
				return &endedError{}
			case "worse":
				panic("bad")
			}
			return nil
		},
		func(ex *exchange, _ *endedError) { ended <- ex },
	)
	s.armed.Store(true) // the test looks
	bad := &exchange{label: "bad", id: &policy.Identity{}}
	s.add(bad, nil)
	s.add(&exchange{label: "worse", id: &policy.Identity{}}, nil)
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 500 {
				few := []*exchange{{}, {}, {}}
				for _, ex := range few {
					s.add(ex, nil)
				}
				for _, ex := range few {
					if s.remove(ex) != nil {
						t.Error("it has ended")
					}
				}
			}
		}()
	}
	for range 4 {
		for waiting := true; waiting; {
			s.lookAt(t.Context(), s.all(), time.Now())
			if ex := <-ended; ex != bad {
				t.Errorf("%q has ended", ex.label)
			}
			select {
			case <-done:
				waiting = false
			default:
			}
		}
	}
	if n := len(s.all()); n != 2 {
		t.Errorf("%d are left", n)
	}
}
