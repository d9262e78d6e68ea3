package store

import (
	"context"
	"time"
)

// Sweep sweeps m until it is done or ctx ends.
func Sweep(ctx context.Context, m *Memory) {
	_ = m.sweepAll(func(took time.Duration) error { return Rest(ctx, took) })
}
