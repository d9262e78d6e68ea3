package app

import (
	"runtime"
	"testing"
)

// With one processor, a second thread runs goroutines while passwords are checked, and no longer. With several, the
// number is left alone. The test is not parallel, because it changes the number for the process.
func TestChecksMakeWay(t *testing.T) {
	defer runtime.SetDefaultGOMAXPROCS()
	t.Setenv("GOMAXPROCS", "1")
	for _, c := range []struct{ before, meanwhile, after int }{{1, 2, 1}, {2, 2, 2}, {3, 3, 3}, {1, 2, 1}} {
		runtime.GOMAXPROCS(c.before)
		makeWay := makeWay()
		for range 2 {
			makeWay(true)
			if got := runtime.GOMAXPROCS(0); got != c.meanwhile {
				t.Errorf("with %d, there are %d during a check, want %d", c.before, got, c.meanwhile)
			}
			makeWay(false)
			if got := runtime.GOMAXPROCS(0); got != c.after {
				t.Errorf("with %d, there are %d after a check, want %d", c.before, got, c.after)
			}
		}
	}
	for _, ignored := range []string{"", "0", "auto"} {
		t.Setenv("GOMAXPROCS", ignored)
		runtime.GOMAXPROCS(1)
		way := makeWay()
		way(true)
		way(false)
		got := runtime.GOMAXPROCS(0)
		if runtime.SetDefaultGOMAXPROCS(); got != runtime.GOMAXPROCS(0) {
			t.Errorf("with GOMAXPROCS=%s, there are %d after a check, want the default of the runtime, %d",
				ignored, got, runtime.GOMAXPROCS(0))
		}
	}
}
