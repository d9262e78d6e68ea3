package e2e

import (
	"net/http"
	"testing"
	"time"
)

// TestRedisFar: Redis is half a second away from one of two instances. What it
// is asked there is answered truthfully or with 503. TestStoreTime proves the
// bound on the time; here the log tells it.
func TestRedisFar(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	p := startPair(t, redis, startFarProxy(t, redis.Address, 500*time.Millisecond).Address)
	near, far := p.a.stranger(), p.b.stranger()
	one, two, three := p.a.signIn(near, "alice"), p.a.signIn(near, "alice"), p.a.signIn(near, "alice")
	for _, q := range []struct {
		what, path, body string
		headers          []string
		ends             *signIn // with 200
	}{
		{"login", "/login", right, []string{"Content-Type", typeJSON}, nil},
		{"login in place of another one", "/login", right, []string{"Content-Type", typeJSON, "Cookie", one.session}, &one},
		{"refresh", "/refresh", `{"refresh_token":"` + two.refresh + `"}`, []string{"Content-Type", typeJSON}, nil},
		{"logout", "/logout", "", []string{"Cookie", two.session}, &two},
		{"logout of all", "/logout", "", []string{"Cookie", three.session, "Authorization", three.access}, &three},
	} {
		began := time.Now()
		a := p.b.do(far, "POST", q.path, q.body, q.headers...)
		t.Logf("%s: %d after %v", q.what, a.status, time.Since(began).Round(time.Millisecond))
		if a.status != http.StatusOK {
			wantOutage(t, q.what, a, began)
			continue
		}
		if q.ends != nil {
			if status := p.a.status(near, "GET", "/secure-resource", "Cookie", q.ends.session); status != http.StatusUnauthorized {
				t.Errorf("%s: 200, and the session is %d", q.what, status)
			}
		}
	}
}
