package redisstore_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/gateway/store/storetest"
)

// How soon a call returns while Redis is away, and the store works when it is back.
// docs/scaling.md promises it for a machine that is not overloaded.
const (
	callLimit = 2 * time.Second
	backLimit = 3 * time.Second
)

// BenchmarkOutage measures how soon calls return while Redis is frozen, also
// when more are under way than the connection's queue holds, and while it is
// gone; and how soon the store works when Redis is back.
func BenchmarkOutage(b *testing.B) {
	redis := startServer(b)
	s := openTest(b, at(redis.Address))
	storetest.Put(b, s, "key", "value")
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
		limited("frozen-ms", callLimit, func() { everyCall(b, s, func(string, error) {}) })
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
		limited("gone-ms", callLimit, func() { everyCall(b, s, func(string, error) {}) })
		redis.Run(b)
		limited("back-ms", backLimit, back)
	}
}
