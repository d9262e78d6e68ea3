package gateway

import (
	"context"
	"sync"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/login"
	"authgate/gateway/store"
)

const (
	// countKept is how long a count of the sessions is kept.
	countKept = 30 * time.Second
	// countTime is the time limit of a count. Prometheus waits 10 seconds for an
	// answer, unless it is told otherwise.
	countTime = 5 * time.Second
)

// sessionCount counts the live sessions for the metrics. A count walks the keys of all
// sessions, so it is kept for a while.
type sessionCount struct {
	store store.Store
	now   func() time.Time

	mu      sync.Mutex
	last    float64
	counted time.Time // zero: never
}

// newSessionCount returns a function that counts the live sessions in the store of o. It returns
// nil for Redis, where a walk asks the server for the keys of all its users.
func newSessionCount(o Options) func() float64 {
	if o.Config.Store.Driver == config.StoreRedis {
		return nil
	}
	c := &sessionCount{store: o.Store, now: o.Now}
	return c.value
}

// value returns the number of live sessions, at most countKept old. It is -1 if the
// store cannot tell, because a gauge has no other way to say so.
func (c *sessionCount) value() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := c.now().Sub(c.counted); age < 0 || age >= countKept {
		c.last = c.count()
		c.counted = c.now()
	}
	return c.last
}

func (c *sessionCount) count() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	sessions := 0
	err := c.store.Walk(ctx, login.SessionPrefix, func(keys []string) error {
		sessions += len(keys)
		return nil
	})
	if err != nil {
		return -1
	}
	return float64(sessions)
}
