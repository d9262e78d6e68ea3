package store

import (
	"fmt"
	"testing"
	"time"

	"authgate/gateway/must"
)

// TestTallyForgetsPages proves that a Tally does not grow with what has gone.
func TestTallyForgetsPages(t *testing.T) {
	t.Parallel()
	var tally Tally
	start := time.Unix(-1000, 0) // the first pages are before 1970
	for i := range 2000 {
		tally.Add("s:", start.Add(time.Duration(i)*time.Second))
	}
	for _, at := range []int{-1, 0, 1, 255, 256, 1000, 1999, 2000} {
		want := 1999 - at
		if at < 0 {
			want = 2000
		}
		if got := tally.Count("s:", start.Add(time.Duration(at)*time.Second+time.Second/2)); got != max(0, want) {
			t.Errorf("%d live after %d.5 seconds, want %d", got, at, want)
		}
	}
	for i := range 2000 {
		tally.Remove("s:", start.Add(time.Duration(i)*time.Second))
	}
	if pages := len(tally.kinds["s:"].pages); pages != 0 || tally.Count("", start) != 0 {
		t.Errorf("%d pages and %d entries remain of nothing", pages, tally.Count("", start))
	}
}

// TestTallySecond counts an entry to the end of the second in which it expires.
func TestTallySecond(t *testing.T) {
	t.Parallel()
	var tally Tally
	at := time.Unix(1000, 1)
	tally.Add("s:", at)
	for _, step := range []struct {
		now  time.Time
		want int
	}{{time.Unix(999, 0), 1}, {time.Unix(1000, 999999999), 1}, {time.Unix(1001, 0), 0}} {
		if got := tally.Count("s:", step.now); got != step.want {
			t.Errorf("%d live at %v, want %d", got, step.now, step.want)
		}
	}
}

// BenchmarkCount shows that a count does not depend on the number of entries.
func BenchmarkCount(b *testing.B) {
	for _, entries := range []int{1000, 1000000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			m := NewMemory(nil)
			defer m.Close()
			for i := range entries {
				must.Do(b, m.Put(b.Context(), fmt.Sprint("session:", i), nil, time.Now().Add(time.Duration(i%3600)*time.Second)))
			}
			for b.Loop() {
				must.Get(m.Count(b.Context(), "session:"))(b)
			}
		})
	}
}
