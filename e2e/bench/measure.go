package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/process"
)

// sample is the work of one server in one round.
type sample struct {
	load.Result
	answers float64 // whole answers; for large ones, the bytes in whole answers
	cpu     time.Duration
	peak    int64 // bytes of memory
	grown   int64 // bytes by which the peak rose while this was measured
	idle    int64 // bytes of memory that idle connections added
}

// perRequest returns the processor time of one request.
func (s sample) perRequest() time.Duration { return time.Duration(float64(s.cpu) / s.answers) }

// perSecond returns the requests that one core answers in a second.
func (s sample) perSecond() float64 { return s.answers / s.cpu.Seconds() }

// pair is one round: two servers at the same time.
type pair struct{ subject, other sample }

// costs returns the processor time of the subject as a multiple of the other's.
func (p pair) costs() float64 {
	return float64(p.subject.cpu) / p.subject.answers / (float64(p.other.cpu) / p.other.answers)
}

// holds returns the memory that the subject needs for idle connections as a multiple
// of the other's.
func (p pair) holds() float64 { return float64(p.subject.idle) / float64(p.other.idle) }

// servers are the subject of a comparison and the other.
type servers [2]*lab.Server

// checkBoth checks that both work as the row needs.
func (s servers) checkBoth(ctx context.Context) error {
	for _, one := range s {
		if err := one.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readUse reads the use of resources by both.
func (b *bench) readUse(ctx context.Context, s servers) (readings [2]lab.Reading, err error) {
	for i, one := range s {
		if readings[i], err = b.lab.Read(ctx, one); err != nil {
			return readings, err
		}
	}
	return readings, nil
}

// round measures a comparison once, on fresh servers.
func (b *bench) round(ctx context.Context, c comparison, n int) (pair, error) {
	var sides servers
	for i, start := range c.start {
		s, err := start(ctx, i)
		if err != nil {
			return pair{}, err
		}
		defer s.Stop()
		sides[i] = s
	}
	sides[1].Imitate(sides[0])
	if err := sides.checkBoth(ctx); err != nil {
		return pair{}, err
	}
	var p pair
	var err error
	if c.task.load == nil {
		p, err = b.measureIdle(ctx, sides, c.task)
	} else {
		p, err = b.measureLoad(ctx, n, sides, c.task)
	}
	if err != nil {
		return pair{}, err
	}
	return p, sides.checkBoth(ctx)
}

// measureLoad warms both servers up, then loads both with the same requests at the same
// time. The server that starts first changes with each round.
func (b *bench) measureLoad(ctx context.Context, n int, sides servers, t task) (pair, error) {
	both := func(lasting time.Duration) (results [2]load.Result, err error) {
		group, ctx := errgroup.WithContext(ctx)
		for i := range sides {
			side := (i + n) % len(sides)
			group.Go(func() error {
				seen, err := t.load.Run(ctx, sides[side].Target(t.resource, t.headers), lasting)
				results[side] = seen
				return err
			})
		}
		err = group.Wait()
		return results, err
	}
	if _, err := both(b.warm); err != nil {
		return pair{}, fmt.Errorf("warming up: %w", err)
	}
	before, err := b.readUse(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	results, err := both(b.measured)
	if err != nil {
		return pair{}, err
	}
	after, err := b.readUse(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	return t.pair(results, before, after)
}

// pair returns the work of both servers between two readings.
func (t task) pair(results [2]load.Result, before, after [2]lab.Reading) (pair, error) {
	var samples [2]sample
	for i := range samples {
		var err error
		if samples[i], err = t.sample(results[i], before[i], after[i]); err != nil {
			return pair{}, err
		}
	}
	return pair{subject: samples[0], other: samples[1]}, nil
}

// sample checks that the upstream has seen as much as the load did, and returns the
// work of the server between two readings.
func (t task) sample(seen load.Result, before, after lab.Reading) (sample, error) {
	s := sample{
		Result: seen, answers: float64(seen.Requests), cpu: after.CPU - before.CPU,
		peak: after.Peak, grown: after.Peak - before.Peak,
	}
	if t.size > 0 {
		s.answers = float64(seen.Bytes) / float64(t.size)
	}
	reached, posted := after.Reached-before.Reached, after.Posted-before.Posted
	switch {
	case s.answers <= 0:
		return s, errors.New("no request was answered")
	case reached < seen.Requests && !t.decided:
		return s, fmt.Errorf("%d requests were answered, but only %d reached the upstream", seen.Requests, reached)
	case posted < seen.Requests*t.posted:
		return s, fmt.Errorf("%d requests were answered, but the upstream got only %d bytes of their bodies",
			seen.Requests, posted)
	}
	return s, nil
}

const (
	// idleConnections is how many a server holds for a row about memory, as many streams as a login may have.
	idleConnections = 1000
	// idleSettles is how long they are idle before the memory is read.
	idleSettles = 15 * time.Second
)

// measureIdle opens connections to both servers and asks for one answer on each. It
// measures the memory that this adds and the processor time that it takes, and checks
// that all connections still answer.
func (b *bench) measureIdle(ctx context.Context, sides servers, t task) (pair, error) {
	var held [2]int64
	var open [2]load.Held
	before, err := b.readUse(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	for i, side := range sides {
		if held[i], err = side.Process.Memory(process.PresentMemory); err != nil {
			return pair{}, err
		}
		defer func() { open[i].Close() }()
		to := side.Target(t.resource, t.headers)
		if open[i], err = b.loads.Hold(ctx, to, idleConnections, b.connections); err != nil {
			return pair{}, err
		}
	}
	select {
	case <-ctx.Done():
		return pair{}, ctx.Err()
	case <-time.After(idleSettles):
	}
	after, err := b.readUse(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	opened := load.Result{Requests: idleConnections}
	p, err := t.pair([2]load.Result{opened, opened}, before, after)
	if err != nil {
		return pair{}, err
	}
	for i, s := range []*sample{&p.subject, &p.other} {
		now, err := sides[i].Process.Memory(process.PresentMemory)
		if err != nil {
			return pair{}, err
		}
		s.idle = now - held[i]
		if err := open[i].Ask(); err != nil {
			return pair{}, fmt.Errorf("a connection that was idle: %w", err)
		}
	}
	if p.other.idle <= 0 {
		return pair{}, fmt.Errorf("%d connections to the floor added no memory", idleConnections)
	}
	return p, nil
}
