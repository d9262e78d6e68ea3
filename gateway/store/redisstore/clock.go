package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// timeScript returns the time of the node that owns KEYS[1], so that in a
	// Cluster all instances ask the same node.
	timeScript = `return redis.call('TIME')`
	// clockNotable is the smallest difference between two clocks that is logged.
	clockNotable = 5 * time.Second
)

// errNoTime means that the clock of Redis is unknown, and so which entries have expired.
var errNoTime = errors.New("redis has not answered with its time yet")

// clock is the clock of Redis as this instance knows it. The instance requests
// the time of Redis in the background. Between the answers it adds the elapsed
// time of the local clock, whose monotonic reading does not change when the wall
// clock is set.
//
// After an answer, the clock differs from that of Redis by less than the round
// trip of the request.
type clock struct {
	local  func() time.Time
	logger *slog.Logger
	fixed  bool // only the local clock is used, and Redis is not asked

	anchor  atomic.Pointer[anchor]
	refused atomic.Bool // Redis does not permit the request, so the local clock is used
}

// anchor is one instant on both clocks.
type anchor struct{ local, redis time.Time }

func newClock(o Options) *clock {
	c := &clock{local: o.Local, logger: o.Logger}
	if c.local == nil {
		c.local = time.Now
	}
	if o.Now != nil {
		c.local, c.fixed = o.Now, true
	}
	return c
}

// at returns the time of Redis at an instant of the local clock.
func (c *clock) at(local time.Time) time.Time {
	a := c.anchor.Load()
	if a == nil {
		return local.Round(0)
	}
	return a.redis.Add(local.Sub(a.local))
}

// known reports whether the clock can be used.
func (c *clock) known() bool { return c.fixed || c.refused.Load() || c.anchor.Load() != nil }

// measure calls ask for the time of Redis and sets the clock.
func (c *clock) measure(ctx context.Context, ask func(context.Context) (time.Time, error)) error {
	if c.fixed {
		return nil
	}
	sent := c.local()
	redis, err := ask(ctx)
	if err != nil {
		return c.failed(err)
	}
	received := c.local()
	a := c.anchor.Load()
	if a != nil && !redis.Before(c.at(sent).Add(-time.Microsecond)) && !redis.After(c.at(received)) {
		return nil // the clock agrees with the answer, which has a precision of a microsecond
	}
	middle := sent.Add(received.Sub(sent) / 2)
	if difference := redis.Sub(c.at(middle)).Round(time.Millisecond); difference.Abs() >= clockNotable {
		message := "the clock of redis was set, or another server has taken over; logins expire by the new time"
		if a == nil {
			message = "the clock of this machine differs from the clock of redis; " +
				"logins expire by the clock of redis, " +
				"certificates and the tokens of providers by the clock of this machine"
		}
		c.logger.LogAttrs(ctx, slog.LevelWarn, message, slog.String("redis_is_ahead_by", difference.String()))
	}
	c.anchor.Store(&anchor{local: middle, redis: redis})
	c.refused.Store(false)
	return nil
}

// failed handles a request without an answer. The clock stays as it is. If it is
// unknown, and Redis does not permit the request, the local clock is used.
func (c *clock) failed(err error) error {
	refusal, answered := rueidis.IsRedisErr(err)
	if !answered || !isForbidden(refusal.Error()) || c.anchor.Load() != nil {
		return fmt.Errorf("request the time of redis: %w", err)
	}
	if !c.refused.Swap(true) {
		c.logger.Warn("redis does not permit the command TIME; logins expire by the clock of this machine, "+
			"which must agree with the clocks of other instances; give the user of store.username the right +time",
			slog.Any("error", err))
	}
	return nil
}

// isForbidden reports whether Redis refuses a command, by itself or in a script,
// because the user lacks a right.
func isForbidden(refusal string) bool {
	return strings.Contains(refusal, "NOPERM") || strings.Contains(refusal, "ACL failure") ||
		strings.Contains(refusal, "can't run this command")
}

// time requests the time of Redis.
func (l *link) time(ctx context.Context, client rueidis.Client) (time.Time, error) {
	answer := l.send(ctx, client, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return l.timeScript.Exec(ctx, c, []string{l.prefix}, nil)
	})
	parts, err := answer.AsIntSlice()
	if err != nil {
		return time.Time{}, err
	}
	if len(parts) != 2 {
		return time.Time{}, fmt.Errorf("the answer has %d parts, want seconds and microseconds", len(parts))
	}
	return time.Unix(parts[0], parts[1]*int64(time.Microsecond)), nil
}

// setClock sets the clock to the time of Redis.
func (l *link) setClock(ctx context.Context, client rueidis.Client) error {
	return l.clock.measure(ctx, func(ctx context.Context) (time.Time, error) { return l.time(ctx, client) })
}
