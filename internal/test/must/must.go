// Package must ends a test at a call that fails, or at something that does not happen.
package must

import (
	"testing"
	"time"
)

// Do ends the test if err is not nil.
func Do(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Get returns the value of a call, or ends the test if the call fails: must.Get(f())(t).
func Get[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Do(tb, err)
		return value
	}
}

// Eventually waits until come returns true. It ends the test after a minute: how long things
// take depends on the machine.
func Eventually(tb testing.TB, what string, come func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !come(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("not within a minute: %s", what)
		}
	}
}
