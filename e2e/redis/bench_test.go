package redis

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// The times that docs/scaling.md gives. A busy machine takes longer, so only these
// benchmarks fail over them.
const (
	// From the answer to a logout on one instance to the answer of the first request
	// that the other one refuses.
	medianAllowed  = 5 * time.Millisecond
	maximumAllowed = 100 * time.Millisecond
	// In which a request gets its 503, and in which everything works again when Redis
	// is back.
	outageAnswer = 2 * time.Second
	recovery     = 3 * time.Second
)

// BenchmarkRedisRevocation measures logouts of sessions and tokens that the other
// instance has in its cache.
func BenchmarkRedisRevocation(b *testing.B) {
	p := startPair(b, world.StartRedis(b), "")
	for _, kind := range []string{"session", "token"} {
		b.Run(kind, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				took = measureLogouts(b, p, kind, 200)
			}
			median, maximum := took[len(took)/2], took[len(took)-1]
			b.ReportMetric(float64(median.Microseconds()), "median-µs")
			b.ReportMetric(float64(maximum.Microseconds()), "maximum-µs")
			if median > medianAllowed || maximum > maximumAllowed {
				b.Errorf("median %v and maximum %v, expected less than %v and %v", median, maximum, medianAllowed, maximumAllowed)
			}
		})
	}
}

// BenchmarkRedisOutage measures how soon requests get their 503 while Redis is
// frozen or gone, and how soon everything works again when it is back.
func BenchmarkRedisOutage(b *testing.B) {
	p := startPair(b, world.StartRedis(b, "--appendonly", "yes"), "")
	atA, s := p.client(p.a), p.signIn("alice")
	limited := func(metric string, limit time.Duration, do func()) {
		began := time.Now()
		do()
		took := time.Since(began)
		b.ReportMetric(float64(took.Milliseconds()), metric)
		if took > limit {
			b.Errorf("%s: %v, expected %v at most", metric, took, limit)
		}
	}
	refused := func(when string) {
		limited(when+"-use-ms", outageAnswer, func() {
			wantOutage(b,
				"use", p.a.Do(atA, "GET", "/me", "", "Cookie", s.Session))
		})
		for _, r := range changesOf(s) {
			limited(when+"-"+r.what+"-ms", outageAnswer,
				func() { wantOutage(b, r.what, p.a.Do(atA, "POST", r.path, r.body, r.headers...)) })
		}
	}
	for b.Loop() {
		p.redis.Freeze(b)
		world.Until(b, "cached values to expire", func() bool {
			return p.a.Status(atA, "GET", "/me", "Cookie", s.Session) == http.StatusServiceUnavailable
		})
		refused("frozen")
		p.redis.Signal(b, syscall.SIGCONT)
		limited("thawed-ms", recovery, func() { p.recovers(b) })
		p.redis.Kill()
		refused("gone")
		p.redis.Run(b)
		limited("back-ms", recovery, func() { p.recovers(b) })
	}
}
