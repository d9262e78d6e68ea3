package login

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// atEachCall runs test again and again. What test gives to before happens just before the first
// call of the store after that, in the next run before the second, and so on, until there are no
// more calls. before returns a function that reports whether it has happened.
func atEachCall(t *testing.T, test func(t *testing.T, r *rig, before func(do func()) (happened func() bool))) {
	t.Helper()
	for step, more := int64(1), true; more && !t.Failed(); step++ {
		synctest.Test(t, func(t *testing.T) { // so that no time limit of a call depends on the machine
			r := newRig(t)
			var calls atomic.Int64
			test(t, r, func(do func()) func() bool {
				r.store.Interfere(func(_ context.Context, call string) error {
					if calls.Add(1) == step {
						t.Logf("before call %d: %.20s", step, call)
						do()
					}
					return nil
				})
				return func() bool {
					r.store.Interfere(nil)
					more = calls.Load() >= step
					return more
				}
			})
		})
	}
}
