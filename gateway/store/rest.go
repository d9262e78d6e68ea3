package store

import (
	"context"
	"time"
)

const (
	// restShare bounds the part of a processor that work in steps takes: one
	// part of work to restShare-1 parts of rest.
	restShare = 8
	// leastRest is long enough for a processor to look for requests that have
	// arrived.
	leastRest = time.Millisecond
)

// Rest waits after a step of work in the background that took so long. On a
// single processor, a request that arrives during a step waits for its end, and
// one that arrives during the rest does not. Rest returns the error of ctx if that
// ends first.
func Rest(ctx context.Context, took time.Duration) error {
	timer := time.NewTimer(max(leastRest, took*(restShare-1)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
