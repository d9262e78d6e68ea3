package redisstore_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// How soon a change is seen elsewhere, and a call returns while Redis is away.
// docs/scaling.md promises it for a machine that is not overloaded.
const (
	pushLimit  = 100 * time.Millisecond
	callLimit  = 2 * time.Second
	backLimit  = 3 * time.Second
	pushMedian = 5 * time.Millisecond
)

// BenchmarkPush measures how long after a change was acknowledged on one store
// another one, whose cache holds the key, sees it.
func BenchmarkPush(b *testing.B) {
	redis := startServer(b)
	s, other := openTest(b, at(redis.Address)), openTest(b, at(redis.Address))
	var took []time.Duration
	for b.Loop() {
		want := fmt.Sprint(len(took))
		warm(b, other, "key", redis)
		put(b, s, "key", want)
		acknowledged := time.Now()
		for holds(b, other, "key", want) != nil {
			runtime.Gosched()
		}
		took = append(took, time.Since(acknowledged))
	}
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	b.ReportMetric(float64(median.Microseconds()), "median-µs")
	b.ReportMetric(float64(slowest.Microseconds()), "slowest-µs")
	if median > pushMedian || slowest > pushLimit {
		b.Errorf("a change is seen elsewhere after %v, at most %v; want %v and %v", median, slowest, pushMedian, pushLimit)
	}
}

// BenchmarkOutage measures how soon calls return while Redis is frozen, also
// when more are under way than the connection's queue holds, and while it is
// gone; and how soon the store works when Redis is back.
func BenchmarkOutage(b *testing.B) {
	redis := startServer(b)
	s := openTest(b, at(redis.Address))
	put(b, s, "key", "value")
	limited := func(metric string, limit time.Duration, do func()) {
		began := time.Now()
		do()
		took := time.Since(began)
		b.ReportMetric(float64(took.Milliseconds()), metric)
		if took > limit {
			b.Errorf("%s: %v, want at most %v", metric, took, limit)
		}
	}
	back := func() { eventually(b, "the store works", func() error { return works(b, s, "new", "") }) }
	for b.Loop() {
		redis.Freeze(b)
		limited("frozen-ms", callLimit, func() { everyCall(b, s) })
		limited("frozen-queue-ms", callLimit, func() {
			var all sync.WaitGroup
			for range frozenWrites {
				all.Go(func() { _ = s.Put(b.Context(), "key", nil, time.Time{}) }) // it fails
			}
			all.Wait()
		})
		redis.Signal(b, syscall.SIGCONT)
		limited("thawed-ms", backLimit, back)
		redis.Kill()
		limited("gone-ms", callLimit, func() { everyCall(b, s) })
		redis.Run(b)
		limited("back-ms", backLimit, back)
	}
}
