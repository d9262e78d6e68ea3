package rotation

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A token counts as raced within the leeway on both sides of its rotation, and as reused beyond.
func TestWithin(t *testing.T) {
	t.Parallel()
	const leeway = 10 * time.Second
	now := time.Unix(1_000_000, 0)
	for ago, want := range map[time.Duration]bool{
		0: true, leeway: true, leeway + 1: false, -leeway: true, -leeway - 1: false,
	} {
		s := State{Current: "b", Rotated: []Replaced{{Token: "a", At: now.Add(-ago)}}}
		if got := s.JustReplaced("a", leeway, now); got != want {
			t.Errorf("a token replaced %v ago: just replaced %t, want %t", ago, got, want)
		}
		if s.JustReplaced("b", leeway, now) || s.JustReplaced("c", leeway, now) {
			t.Error("another token counts as just replaced")
		}
	}
}

// A state remembers the tokens of the leeway alone, and of many the last ones.
func TestRotate(t *testing.T) {
	t.Parallel()
	const leeway = time.Minute
	now, s := time.Unix(1_000_000, 0), State{Current: "0"}
	for i := range MaxReplaced + 2 {
		s = s.Rotate(fmt.Sprint(i+1), leeway, now)
	}
	if len(s.Rotated) != MaxReplaced || s.JustReplaced("1", leeway, now) || !s.JustReplaced("2", leeway, now) {
		t.Errorf("after many rotations: %+v", s)
	}
	if s = s.Rotate("next", leeway, now.Add(leeway+1)); len(s.Rotated) != 1 || s.Current != "next" {
		t.Errorf("after the leeway: %+v", s)
	}
}

// Retry begins again after a stale read, and gives up.
func TestRetry(t *testing.T) {
	t.Parallel()
	for _, stale := range []int{0, 1, MaxReads - 1, MaxReads} {
		calls := 0
		_, err := Retry(func() (int, error) {
			if calls++; calls <= stale {
				return 0, fmt.Errorf("read: %w", ErrStale)
			}
			return calls, nil
		})
		if errors.Is(err, ErrStale) != (stale == MaxReads) || calls != min(stale+1, MaxReads) {
			t.Errorf("after %d stale reads: %d calls, %v", stale, calls, err)
		}
	}
}
