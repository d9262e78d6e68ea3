package app

import (
	"os"
	"runtime"
	"strconv"
)

// makeWay returns a function that is called as password checks begin, and as the last of them ends. A check
// computes for tens of milliseconds, and Go lets another goroutine have its processor after ten. So with one
// processor, the function makes Go use a second thread meanwhile, and the kernel divides the processor among the
// two. Requests without a password check then wait for none. Calls with true and with false take turns.
func makeWay() func(checking bool) {
	added := false
	set, err := strconv.ParseInt(os.Getenv("GOMAXPROCS"), 10, 32)
	fixed := err == nil && set > 0 // as the runtime reads it, which ignores other values
	return func(checking bool) {
		switch {
		case checking:
			if added = runtime.GOMAXPROCS(0) == 1; added {
				runtime.GOMAXPROCS(2)
			}
		case added && fixed:
			runtime.GOMAXPROCS(1)
		case added:
			runtime.SetDefaultGOMAXPROCS() // which follows the limits of the container again
		}
	}
}
