// Package clocktest has clocks for tests: Clock moves by hand, and the wall
// clock of Machine can be set.
package clocktest

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Machine is the clock of a machine: its times have a monotonic reading,
// which only moves forward, and a wall clock, which can be set.
type Machine struct{ passed, set atomic.Int64 }

// Now returns the time.
func (c *Machine) Now() time.Time {
	return setWall(time.Now().Add(time.Duration(c.passed.Load())), time.Duration(c.set.Load()))
}

// Pass lets time pass.
func (c *Machine) Pass(d time.Duration) { c.passed.Add(int64(d)) }

// Adjust sets the wall clock.
func (c *Machine) Adjust(d time.Duration) { c.set.Add(int64(d)) }

// setWall returns t with its wall clock moved by d and the same monotonic
// reading. Package time offers no way to make such a time, see
// TestMachine.
func setWall(t time.Time, d time.Duration) time.Time {
	const nanosecondBits = 30
	whole := (*struct {
		wall uint64 // a flag, 33 bits of seconds, 30 bits of nanoseconds
		ext  int64  // the monotonic reading
		loc  *time.Location
	})(unsafe.Pointer(&t))
	whole.wall += uint64(int64(d/time.Second)) << nanosecondBits
	return t
}
