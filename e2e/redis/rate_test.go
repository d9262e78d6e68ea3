package redis

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"authgate/e2e/world"
)

// Two instances share the rate of a route over Redis: they let at least the limit
// through, and at most a third more, and one instance alone exactly the limit.
// Without Redis, nothing goes through.
func TestRedisRate(t *testing.T) {
	t.Parallel()
	p := preparePair(t, world.StartRedis(t))
	const rated = shared + `
  - {match: /both, upstream: app, auth: [none], rate: {requests: 30, per: 10m}}
  - {match: /alone, upstream: app, auth: [none], rate: {requests: 30, per: 10m}}
  - {match: /outage, upstream: app, auth: [none], rate: {requests: 30, per: 10m}}
`
	for _, g := range p.both() {
		g.Configure(rated + world.App(p.up.URL) + world.OnRedis(p.redis.Address))
	}
	p.run()
	flood := func(path string, instances ...*world.Instance) int {
		var passed atomic.Int64
		var group sync.WaitGroup
		for _, g := range instances {
			c := p.client(g)
			for range 4 {
				group.Go(func() {
					for range 15 {
						switch status := g.Status(c, "GET", path); status {
						case http.StatusOK:
							passed.Add(1)
						case http.StatusTooManyRequests:
						default:
							t.Errorf("%s: %d", path, status)
						}
					}
				})
			}
		}
		group.Wait()
		if reached := len(p.up.AskedFor(path)); reached != int(passed.Load()) {
			t.Errorf("%s: %d requests reached the upstream, and %d were answered with 200", path, reached, passed.Load())
		}
		return int(passed.Load())
	}
	if got := flood("/both", p.a, p.b); got < 30 || got > 40 {
		t.Errorf("%d of 120 requests at two instances go through, want 30 to 40", got)
	}
	if got := flood("/alone", p.b); got != 30 {
		t.Errorf("%d of 60 requests at one instance go through, want 30", got)
	}
	p.redis.Kill()
	if got := p.a.Status(p.client(p.a), "GET", "/outage"); got != http.StatusServiceUnavailable {
		t.Errorf("without Redis: %d, want 503", got)
	}
}
