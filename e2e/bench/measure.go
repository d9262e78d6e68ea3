package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// load keeps requests to one server going: one type for each protocol.
type load interface {
	// run asks target for a time. A failed request is an error.
	run(ctx context.Context, to target, lasting time.Duration) (result, error)
}

// target is what a load asks for.
type target struct {
	url     string
	headers []string
}

// result is what a load saw.
type result struct {
	requests int64 // that were answered
	bytes    int64 // of all answers; only over HTTP/1.1
	elapsed  time.Duration
	p50, p99 time.Duration // latency
}

// sample is what one server did in one round.
type sample struct {
	result
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

// measure warms both servers up, then loads both with the same requests at the same
// time. The server that starts first changes with each round.
func (l *lab) measure(ctx context.Context, n int, sides [2]*server, t task) (pair, error) {
	both := func(lasting time.Duration) (results [2]result, err error) {
		group, ctx := errgroup.WithContext(ctx)
		for i := range sides {
			side := (i + n) % len(sides)
			group.Go(func() error {
				seen, err := t.load.run(ctx, sides[side].target(t), lasting)
				results[side] = seen
				return err
			})
		}
		return results, group.Wait()
	}
	if _, err := both(l.warm); err != nil {
		return pair{}, fmt.Errorf("warming up: %w", err)
	}
	before, err := l.read(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	results, err := both(l.measured)
	if err != nil {
		return pair{}, err
	}
	after, err := l.read(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	var samples [2]sample
	for i := range sides {
		if samples[i], err = t.sample(results[i], before[i], after[i]); err != nil {
			return pair{}, err
		}
		samples[i].peak, samples[i].grown = after[i].peak, after[i].peak-before[i].peak
	}
	return pair{subject: samples[0], other: samples[1]}, nil
}

// sample checks that the upstream has seen as much as the load did, and returns what
// the server did between two readings.
func (t task) sample(seen result, before, after reading) (sample, error) {
	s := sample{result: seen, answers: float64(seen.requests), cpu: after.cpu - before.cpu}
	if t.size > 0 {
		s.answers = float64(seen.bytes) / float64(t.size)
	}
	reached, posted := after.reached-before.reached, after.posted-before.posted
	switch {
	case s.answers <= 0:
		return s, errors.New("no request was answered")
	case reached < seen.requests && !t.decided:
		return s, fmt.Errorf("%d requests were answered, but only %d reached the upstream", seen.requests, reached)
	case posted < seen.requests*t.posted:
		return s, fmt.Errorf("%d requests were answered, but the upstream got only %d bytes of their bodies", seen.requests, posted)
	}
	return s, nil
}

// reading is what a server has used and forwarded so far.
type reading struct {
	cpu             time.Duration
	reached, posted int64 // requests that its upstream has answered, bytes of their bodies
	peak            int64 // bytes of memory
}

func (l *lab) read(ctx context.Context, sides [2]*server) (readings [2]reading, err error) {
	for i, side := range sides {
		_, counts, err := l.get(ctx, "http://"+side.upstream+countPath)
		if err != nil {
			return readings, err
		}
		if _, err := fmt.Sscan(counts, &readings[i].reached, &readings[i].posted); err != nil {
			return readings, fmt.Errorf("the upstream's counts: %w", err)
		}
		for _, p := range side.measured() {
			cpu, err := p.cpu()
			if err != nil {
				return readings, err
			}
			peak, err := p.memory(peakMemory)
			if err != nil {
				return readings, err
			}
			readings[i].cpu += cpu
			readings[i].peak += peak
		}
	}
	return readings, nil
}
