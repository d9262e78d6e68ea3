package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
)

// metrics returns what /metrics shows.
func (r *rig) metrics() string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// The gauge counts live sessions, and keeps a count for half a minute. It is -1 while
// the store cannot tell, and absent with Redis.
func TestSessionsActive(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	want := func(n float64) {
		t.Helper()
		if got := r.sample("authgate_sessions_active"); got != n {
			t.Errorf("%v sessions, want %v", got, n)
		}
	}
	want(0)
	s := r.login(aliceIn)
	r.login(bobIn)
	r.want(200, "POST", "/login?mechanism=bearer", bobIn, jsonType)
	r.clock.Advance(countKept - 1)
	want(0)
	r.clock.Advance(1)
	want(2)
	r.want(200, "POST", "/logout", "", s.cookie)
	r.clock.Advance(countKept)
	want(1)
	r.clock.Advance(-time.Hour) // the clock is set back: a count of the future is not kept
	r.login(aliceIn)
	want(2)
	r.store.breakIf(func(operation string, _ int64, _ string) bool { return operation == "walk" })
	r.clock.Advance(countKept)
	want(-1)
	r.store.heal()
	want(-1)
	r.clock.Advance(2 * time.Hour)
	want(0)
	onRedis := Options{Config: &config.Config{Store: config.Store{Driver: config.StoreRedis}}, Store: r.store}
	if newSessionCount(onRedis) != nil {
		t.Error("sessions in Redis are counted")
	}
}

// Metrics that are registered already are an error, not a panic.
func TestNewMetricsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	_, err := New(Options{Config: r.Config(), Store: r.store, Registerer: r.registry, Logger: r.service.Logger})
	if _, taken := errors.AsType[prometheus.AlreadyRegisteredError](err); !taken {
		t.Errorf("got %v", err)
	}
}

// lostStore is a store that can lose contact.
type lostStore struct {
	store.Store
	ping error
}

func (s lostStore) Ping(context.Context) error { return s.ping }

func TestReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store store.Store
		open  bool
		want  error
	}{
		{&brittleStore{}, true, nil}, // cannot lose contact
		{lostStore{}, true, nil},
		{lostStore{}, false, guard.NewGate(nil).Check("settle")},
		{lostStore{ping: errBroken}, true, errBroken},
	} {
		g := &Gateway{storage: storage{raw: c.store}}
		gate := guard.NewGate(nil)
		if c.open {
			gate.Open()
		}
		g.state.Store(&state{gate: gate})
		if got := g.Ready(t.Context()); (got == nil) != (c.want == nil) || got != nil && got.Error() != c.want.Error() {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.login(aliceIn)
	r.want(404, "GET", "/nowhere/"+strings.Repeat("x", 100), "")
	text := r.metrics()
	for _, want := range []string{
		`authgate_requests_total{code="200",decision="allow",mechanism="session",route="authgate/login"} 1`,
		`authgate_requests_total{code="404",decision="error",mechanism="none",route="none"} 1`,
		`authgate_request_duration_seconds_count{route="none"} 1`,
		`authgate_logins_total{mechanism="session",result="success"} 1`,
		`authgate_tokens_total{event="issued"} 1`,
		`authgate_sessions_active 1`,
		`authgate_requests_in_flight 0`,
		`authgate_http_requests_total{version="1"} 2`, `authgate_http_requests_total{version="3"} 0`,
		`authgate_store_duration_seconds_count{operation="put"} 4`,
		`authgate_build_info{goversion="go`, `version="test"} 1`, "go_goroutines ", "process_",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "xxx") {
		t.Error("/metrics holds what a client chose")
	}
}
