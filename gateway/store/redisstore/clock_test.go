package redisstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// twoClocks are the clocks of Redis and of an instance, turned by hand.
type twoClocks struct {
	clock
	log         bytes.Buffer
	here, there time.Time
	trip        time.Duration // to Redis, and back again
}

func newTwoClocks() *twoClocks {
	c := &twoClocks{here: time.Unix(1_000_000, 0), there: time.Unix(1_000_000, 0), trip: 10 * time.Millisecond}
	c.local, c.logger = func() time.Time { return c.here }, slog.New(slog.NewTextHandler(&c.log, nil))
	return c
}

func (c *twoClocks) pass(d time.Duration) { c.here, c.there = c.here.Add(d), c.there.Add(d) }

// ask asks Redis over the network.
func (c *twoClocks) ask(t *testing.T) {
	t.Helper()
	err := c.measure(t.Context(), func(context.Context) (time.Time, error) {
		c.pass(c.trip)
		told := c.there
		c.pass(c.trip)
		return told, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wrong is by how much the clock differs from that of Redis.
func (c *twoClocks) wrong() time.Duration { return c.at(c.here).Sub(c.there).Abs() }

// TestClock measures the clock of Redis over a network: the difference is at
// most a round trip, whatever becomes of the clocks in between.
func TestClock(t *testing.T) {
	t.Parallel()
	c := newTwoClocks()
	if c.known() || !c.at(c.here).Equal(c.here) {
		t.Error("the clock is known before Redis was asked")
	}
	c.there = c.there.Add(-time.Minute)
	for _, step := range []struct {
		what   string
		change func()
		told   string
	}{
		{"at the start", func() {}, "differs from the clock of redis"},
		{"a while later", func() { c.pass(time.Hour) }, ""},
		{"with a slow answer", func() { c.trip = time.Second }, ""},
		{"with a fast answer", func() { c.trip = time.Millisecond }, ""},
		{"with clocks of different speed", func() { c.here = c.here.Add(500 * time.Millisecond) }, ""},
		{"after the clock of Redis was set back", func() { c.there = c.there.Add(-5 * time.Hour) }, "redis_is_ahead_by=-5h0m0"},
		{"after a failover to a server that is ahead", func() { c.there = c.there.Add(time.Minute) }, "redis_is_ahead_by=1m0"},
		{"after this machine was suspended", func() { c.there = c.there.Add(time.Hour) }, "redis_is_ahead_by=1h0m0"},
	} {
		step.change()
		c.log.Reset()
		c.ask(t)
		if wrong := c.wrong(); wrong > 2*c.trip {
			t.Errorf("%s: wrong by %v with a round trip of %v", step.what, wrong, 2*c.trip)
		}
		if told := c.log.String(); !strings.Contains(told, step.told) || (step.told == "") != (told == "") {
			t.Errorf("%s: the log says %q, want %q", step.what, told, step.told)
		}
	}
	before := c.wrong()
	c.pass(time.Minute)
	if err := c.measure(t.Context(), func(context.Context) (time.Time, error) { return time.Time{}, errNoAnswer }); !errors.Is(err, errNoAnswer) {
		t.Errorf("without an answer: %v", err)
	}
	if c.wrong() != before || !c.known() {
		t.Error("without an answer the clock is lost")
	}
}
