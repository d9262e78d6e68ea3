package store

import (
	"context"
	"time"
)

// Quota is how much one user of something may use it in a window of time. The
// first Draw of a key begins its window.
type Quota struct {
	Limit  int64         // uses in a window
	Spare  int64         // how many uses all instances together may hold in advance
	Window time.Duration // at least a millisecond
}

// Draw is a request of an instance to a Quota, with a report about uses.
type Draw struct {
	Window string // of the last Drawn; a report about another window does not count
	Held   int64  // uses that the instance had held, and that have happened since
	Keep   int64  // uses that it holds on, and that may happen before the answer
	Take   int64  // uses that it needs now
	Hold   int64  // further uses that it wants to hold
}

// Drawn is the result of a Draw.
type Drawn struct {
	Window string        // names the window
	Left   time.Duration // until its end
	Used   int64         // uses in the window that all instances have taken or reported
	Taken  int64         // of Draw.Take
	Held   int64         // of Draw.Hold: they may happen later in the window, without another Draw
}

// Quotas is implemented by stores that several instances share, so that the instances
// can share a limit. An instance can take a use while fewer than Quota.Limit uses are
// taken or reported by all instances, or kept by this one. All instances together hold
// at most Quota.Spare uses. So a window has at most Limit and Spare uses, however many
// instances there are.
type Quotas interface {
	// Draw takes, holds and reports uses of key, atomically.
	Draw(ctx context.Context, key string, q Quota, d Draw) (Drawn, error)
}
