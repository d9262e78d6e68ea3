package clocktest

import (
	"testing"
	"time"
)

// TestMachine makes sure that setWall does what it says with the present
// version of package time.
func TestMachine(t *testing.T) {
	t.Parallel()
	before := time.Now()
	for _, d := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		after := setWall(before, d)
		if elapsed, wall := after.Sub(before), after.Round(0).Sub(before.Round(0)); elapsed != 0 || wall != d {
			t.Errorf("set by %v: %v passed, and the wall clock moved by %v", d, elapsed, wall)
		}
	}
}
