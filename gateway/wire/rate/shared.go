package rate

import (
	"context"
	"sync"
	"time"

	"authgate/gateway/store"
)

const (
	// spareShare is which part of a limit all instances together may hold in
	// advance.
	spareShare = 3
	// holdShare is which part of that one instance asks for at once. It leaves
	// something for three other instances; further ones need more round trips.
	holdShare = 4
	// backgroundTime bounds a draw that no request waits for.
	backgroundTime = 2 * time.Second
)

// Shared is how the Limiters of a gateway share their counts with other
// instances.
type Shared struct {
	quotas     store.Quotas
	ctx        context.Context // of the background work
	stop       context.CancelFunc
	background sync.WaitGroup
}

// NewShared returns a Shared that keeps counts in quotas.
func NewShared(quotas store.Quotas) *Shared {
	ctx, stop := context.WithCancel(context.Background())
	return &Shared{quotas: quotas, ctx: ctx, stop: stop}
}

// Close ends the background work. No Limiter may be in use.
func (s *Shared) Close() {
	s.stop()
	s.background.Wait()
}

// ration is the part of a shared count that one instance knows and holds. It
// belongs to the window of the count.
type ration struct {
	window  string // as the store names it
	taken   int64  // uses that the store has counted, and that have not happened yet
	held    int64  // uses that may happen before the store counts them
	unsaid  int64  // uses that have happened, and that the store does not know of
	waiting int64  // requests that wait for a draw
	drawing *draw  // in progress; nil: none
}

// draw is a question to the store in progress.
type draw struct {
	done chan struct{}
	err  error // set before done is closed
}

// quota returns the limit as the store needs it.
func (l *Limiter) quota() store.Quota {
	return store.Quota{Limit: l.limit.Requests, Spare: l.limit.Requests / spareShare, Window: l.limit.Per}
}

// hold returns how many uses this instance wants to hold.
func (l *Limiter) hold() int64 {
	spare := l.quota().Spare
	return min(spare, max(1, spare/holdShare))
}

// takeShared is Take with a shared count. The caller holds l.mu, which takeShared
// releases while it waits.
func (l *Limiter) takeShared(ctx context.Context, key Key, c *count) error {
	for {
		now := l.now()
		over := !now.Before(c.ends)
		switch {
		case over:
			c.forget()
		case c.taken > 0:
			c.taken--
			return nil
		case c.used+c.unsaid >= l.limit.Requests:
			return l.refuse(c, now)
		case c.held > 0:
			c.held--
			c.unsaid++
			if c.held <= l.hold()/2 && c.drawing == nil {
				l.drawLater(key, c)
			}
			return nil
		}
		if err := l.wait(ctx, key, c); err != nil {
			return err
		}
	}
}

// forget ends a window that is over.
func (c *count) forget() {
	c.window, c.taken, c.held, c.unsaid, c.used, c.refused = "", 0, 0, 0, 0, false
}

// wait waits for a draw, and makes one if there is none. It returns the error of
// the draw or of ctx.
func (l *Limiter) wait(ctx context.Context, key Key, c *count) error {
	c.waiting++
	defer func() { c.waiting-- }()
	d := c.drawing
	if d == nil {
		return l.draw(ctx, key, c)
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drawLater makes a draw in the background. If it fails, a request that finds
// nothing held makes another one.
func (l *Limiter) drawLater(key Key, c *count) {
	c.drawing = &draw{done: make(chan struct{})}
	l.shared.background.Go(func() {
		ctx, cancel := context.WithTimeout(l.shared.ctx, backgroundTime)
		defer cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.finish(ctx, key, c)
	})
}

// draw makes a draw for a request and for all that wait with it. A client that
// leaves does not end it for the others.
func (l *Limiter) draw(ctx context.Context, key Key, c *count) error {
	c.drawing = &draw{done: make(chan struct{})}
	return l.finish(context.WithoutCancel(ctx), key, c)
}

// finish carries out the draw of c. The caller holds l.mu, which finish releases
// while it waits for the store.
func (l *Limiter) finish(ctx context.Context, key Key, c *count) error {
	ask := store.Draw{Window: c.window, Held: c.unsaid, Keep: c.held, Take: max(0, c.waiting-c.taken),
		Hold: max(0, l.hold()-c.held)}
	d, sent := c.drawing, l.now()
	l.mu.Unlock()
	drawn, err := l.shared.quotas.Draw(ctx, "rate:"+l.name+":"+key.String(), l.quota(), ask)
	l.mu.Lock()
	if err == nil {
		c.take(drawn, ask, sent)
	}
	d.err, c.drawing = err, nil
	close(d.done)
	return err
}

// take notes the result of a draw.
func (c *count) take(drawn store.Drawn, ask store.Draw, sent time.Time) {
	if c.window != drawn.Window {
		c.forget()
		c.window = drawn.Window
	} else {
		c.unsaid -= ask.Held
	}
	c.used = drawn.Used
	c.taken += drawn.Taken
	c.held += drawn.Held
	c.ends = sent.Add(drawn.Left)
}
