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
	// timeScript asks the node that owns KEYS[1] for its time, so that in a
	// Cluster all instances ask the same node.
	timeScript = `return redis.call('TIME')`
	// clockNotable is the difference between two clocks that operators are told
	// of.
	clockNotable = 5 * time.Second
)

// errNoTime: nothing can be said about expiry yet.
var errNoTime = errors.New("redis has not told its time yet")

// clock is the clock of Redis as this instance knows it. Redis is asked for
// its time now and then, in the background; in between the clock goes by the
// local one, whose monotonic reading does not change when the wall clock is set.
//
// Right after an answer the clock differs from that of Redis by less than the
// round trip of the question: the answer was made somewhere in between.
type clock struct {
	local  func() time.Time
	logger *slog.Logger
	fixed  bool // local is the clock to go by, and Redis is not asked

	anchor  atomic.Pointer[anchor]
	refused atomic.Bool // Redis does not allow the question: the local clock has to do
}

// anchor is one instant by both clocks.
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

// known reports whether the clock can be gone by.
func (c *clock) known() bool { return c.fixed || c.refused.Load() || c.anchor.Load() != nil }

// measure asks for the time of Redis.
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
		return nil // what is known agrees with the answer, which is a microsecond exact
	}
	middle := sent.Add(received.Sub(sent) / 2)
	if difference := redis.Sub(c.at(middle)).Round(time.Millisecond); difference.Abs() >= clockNotable {
		message := "the clock of redis was set, or another server has taken over; logins go by it"
		if a == nil {
			message = "the clock of this machine differs from that of redis; logins go by that of redis, certificates and the tokens of providers by this one"
		}
		c.logger.LogAttrs(ctx, slog.LevelWarn, message, slog.String("redis_is_ahead_by", difference.String()))
	}
	c.anchor.Store(&anchor{local: middle, redis: redis})
	c.refused.Store(false)
	return nil
}

// failed keeps what is known. Where nothing is, and Redis refuses to tell, the
// local clock is the one to go by.
func (c *clock) failed(err error) error {
	refusal, answered := rueidis.IsRedisErr(err)
	if !answered || !isForbidden(refusal.Error()) || c.anchor.Load() != nil {
		return fmt.Errorf("ask redis for its time: %w", err)
	}
	if !c.refused.Swap(true) {
		c.logger.Warn("redis does not allow the question for its time; logins go by the clock of this machine, which must agree with those of other instances; give the user of store.username the right +time",
			slog.Any("error", err))
	}
	return nil
}

// isForbidden reports whether Redis refuses a command for want of a right, on
// its own or in a script.
func isForbidden(refusal string) bool {
	return strings.Contains(refusal, "NOPERM") || strings.Contains(refusal, "ACL failure") || strings.Contains(refusal, "can't run this command")
}

// time asks Redis for its time.
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

// setClock asks Redis for its time, and sets the clock by the answer.
func (l *link) setClock(ctx context.Context, client rueidis.Client) error {
	return l.clock.measure(ctx, func(ctx context.Context) (time.Time, error) { return l.time(ctx, client) })
}
