package provider

import (
	"context"
	"sync"
	"time"
)

// background runs work that no caller, or more than one, waits for: renewals,
// retries and shared calls. It ends with close.
type background struct {
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

func newBackground() *background {
	ctx, stop := context.WithCancel(context.Background())
	return &background{ctx: ctx, stop: stop}
}

// beginWork registers one piece of work, which must end with running.Done. It returns
// false after close.
func (b *background) beginWork() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Add(1)
	}
	return !b.closed
}

// start runs f in a goroutine, unless closed.
func (b *background) start(f func(context.Context)) {
	if b.beginWork() {
		go func() {
			defer b.running.Done()
			f(b.ctx)
		}()
	}
}

// close ends all work and waits for its end.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.running.Wait()
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
