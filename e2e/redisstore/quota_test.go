package redisstore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

// Draws of several instances are atomic: no more is taken than the limit, no more
// is held than the spare, and a new window begins when the old one is over.
func TestQuotas(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	a, b := openTest(t, at(server.Address)), openTest(t, at(server.Address))
	q := store.Quota{Limit: 10, Spare: 3, Window: time.Hour}

	first := must.Get(a.Draw(t.Context(), "k", q, store.Draw{Take: 1, Hold: 2}))(t)
	if first.Window == "" || first.Left <= 59*time.Minute || first.Left > time.Hour ||
		first.Used != 1 || first.Taken != 1 || first.Held != 2 {
		t.Errorf("the first draw: %+v", first)
	}
	second := must.Get(b.Draw(t.Context(), "k", q, store.Draw{Take: 4, Hold: 2}))(t)
	if second.Window != first.Window || second.Used != 5 || second.Taken != 4 || second.Held != 1 {
		t.Errorf("the second draw: %+v, want one held, because two of three are", second)
	}
	reported := must.Get(a.Draw(t.Context(), "k", q, store.Draw{Window: first.Window, Held: 2, Hold: 5}))(t)
	if reported.Used != 7 || reported.Held != 2 {
		t.Errorf("after a report: %+v, want 7 used and two more held", reported)
	}
	kept := must.Get(a.Draw(t.Context(), "k", q, store.Draw{Window: first.Window, Keep: 2, Take: 3}))(t)
	if kept.Used != 8 || kept.Taken != 1 {
		t.Errorf("with two of the last three kept: %+v, want one taken", kept)
	}
	foreign := must.Get(b.Draw(t.Context(), "k", q, store.Draw{Window: "other", Held: 3, Keep: 3, Take: 9}))(t)
	if foreign.Used != 10 || foreign.Taken != 2 {
		t.Errorf("a report about another window: %+v, want that it does not count, and the last two", foreign)
	}
	if none := must.Get(a.Draw(t.Context(), "k", q, store.Draw{Take: 1, Hold: 1}))(t); none.Taken != 0 || none.Held != 0 {
		t.Errorf("beyond the limit: %+v", none)
	}
	server.Do(t, "DEL", "k") // as if the window were over
	if next := must.Get(a.Draw(t.Context(), "k", q,
		store.Draw{Window: first.Window, Held: 2, Take: 1}))(t); next.Window == first.Window || next.Used != 1 {
		t.Errorf("the next window: %+v", next)
	}

	var taken atomic.Int64
	var group sync.WaitGroup
	for i := range 60 {
		s := a
		if i%2 == 0 {
			s = b
		}
		group.Go(func() {
			drawn, err := s.Draw(t.Context(), "many", q, store.Draw{Take: 1})
			if err != nil {
				t.Error(err)
			}
			taken.Add(drawn.Taken)
		})
	}
	group.Wait()
	if taken.Load() != 10 {
		t.Errorf("%d of 60 concurrent draws take one, want 10", taken.Load())
	}
	server.Kill()
	_, err := a.Draw(t.Context(), "k", q, store.Draw{Take: 1})
	wantOutage(t, "Draw", err)
}
