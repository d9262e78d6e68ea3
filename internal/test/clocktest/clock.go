package clocktest

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that moves only when Advance is called. Its methods may be
// called concurrently.
type Clock struct {
	start  time.Time
	passed atomic.Int64
}

// New returns a clock that shows some instant of 2026.
func New() *Clock {
	return At(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
}

// At returns a clock that shows the instant, without a monotonic reading.
func At(instant time.Time) *Clock {
	return &Clock{start: instant.Round(0)}
}

// Now returns the instant that the clock shows.
func (c *Clock) Now() time.Time { return c.start.Add(time.Duration(c.passed.Load())) }

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) { c.passed.Add(int64(d)) }
