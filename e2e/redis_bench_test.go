package e2e

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

// The time in which the other instance must know of a logout: from the answer to
// the logout to the answer of the first request that is refused.
const (
	medianAllowed  = 5 * time.Millisecond
	maximumAllowed = 100 * time.Millisecond
)

// BenchmarkRedisRevocation measures it for sessions and tokens that the other
// instance has in its cache.
func BenchmarkRedisRevocation(b *testing.B) {
	p := startPair(b, startRedis(b), "")
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
	p := startPair(b, startRedis(b, "--appendonly", "yes"), "")
	atA := p.client(p.a)
	s := p.signIn("alice")
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
		for what, ask := range map[string]func() answer{
			"login":  func() answer { return p.a.do(atA, "POST", "/login", right, "Content-Type", typeJSON) },
			"logout": func() answer { return p.a.do(atA, "POST", "/logout", "", "Cookie", s.session) },
			"use":    func() answer { return p.a.do(atA, "GET", "/me", "", "Cookie", s.session) },
		} {
			limited(when+"-"+what+"-ms", outageAnswer, func() {
				if a := ask(); a.status != http.StatusServiceUnavailable {
					b.Errorf("%s: %d, expected 503", what, a.status)
				}
			})
		}
	}
	back := func() {
		until(b, "logins work again", func() bool { return p.works() && p.ready() })
	}
	for b.Loop() {
		p.redis.Freeze(b)
		until(b, "cached values to expire", func() bool {
			return p.a.status(atA, "GET", "/me", "Cookie", s.session) == http.StatusServiceUnavailable
		})
		refused("frozen")
		p.redis.Signal(b, syscall.SIGCONT)
		limited("thawed-ms", recovery, back)
		p.redis.Kill()
		refused("gone")
		p.redis.Run(b)
		limited("back-ms", recovery, back)
	}
}
