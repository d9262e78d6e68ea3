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

	"authgate/gateway/store"
	"authgate/gateway/store/guard"
)

func TestSessionsActive(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	active := func() float64 { return r.sample("authgate_sessions_active") }
	want := func(n float64, when string) {
		t.Helper()
		if got := active(); got != n {
			t.Errorf("%s: %v sessions, want %v", when, got, n)
		}
	}
	want(0, "at first")
	s := r.login(aliceIn)
	r.login(bobIn)
	r.do("POST", "/login?mechanism=bearer", bobIn, jsonType)
	want(2, "after two logins and one without a session")
	r.do("POST", "/logout", "", s.cookie)
	want(1, "after a logout")
	r.store.breakIf(func(operation string, _ int64, _ string) bool { return operation == "count" })
	want(-1, "while the store cannot tell")
	r.store.heal()
	r.clock.Advance(time.Hour)
	want(0, "when they have expired")
}

// uncounted is a store that cannot count.
type uncounted struct{ store.Store }

func TestSessionsActiveUncounted(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory(nil)
	defer memory.Close()
	r, err := startRig(t, t.TempDir(), baseConfig, uncounted{memory}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "authgate_sessions_active" {
			t.Error("a store that cannot count has a gauge")
		}
	}
}

// Metrics that are registered already are an error, not a panic.
func TestNewMetricsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	_, err := New(Options{Config: r.Config(), Store: r.store, Registerer: r.registry, Logger: r.service.Logger})
	var taken prometheus.AlreadyRegisteredError
	if !errors.As(err, &taken) {
		t.Errorf("got %v", err)
	}
}

// lostStore is a store that can lose contact.
type lostStore struct {
	store.Store
	ping func(context.Context) error
}

func (s *lostStore) Ping(ctx context.Context) error { return s.ping(ctx) }

func TestReady(t *testing.T) {
	t.Parallel()
	pinged := func(err error) store.Store {
		return &lostStore{ping: func(context.Context) error { return err }}
	}
	closed := guard.NewGate(nil).Check("settle")
	for _, c := range []struct {
		name  string
		store store.Store
		open  bool
		want  error
	}{
		{"a store that cannot lose contact", &brittleStore{}, true, nil},
		{"contact", pinged(nil), true, nil},
		{"a closed gate", pinged(nil), false, closed},
		{"no contact", pinged(errBroken), true, errBroken},
	} {
		g := &Gateway{storage: storage{raw: c.store}}
		gate := guard.NewGate(nil)
		if c.open {
			gate.Open()
		}
		g.state.Store(&state{gate: gate})
		if got := g.Ready(t.Context()); (got == nil) != (c.want == nil) || got != nil && got.Error() != c.want.Error() {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.login(aliceIn)
	r.do("GET", "/nowhere/"+strings.Repeat("x", 100), "")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`authgate_requests_total{code="200",decision="allow",mechanism="session",route="authgate/login"} 1`,
		`authgate_requests_total{code="404",decision="error",mechanism="none",route="none"} 1`,
		`authgate_request_duration_seconds_count{route="none"} 1`,
		`authgate_logins_total{mechanism="session",result="success"} 1`,
		`authgate_tokens_total{event="issued"} 1`,
		`authgate_sessions_active 1`,
		`authgate_requests_in_flight 0`,
		`authgate_store_duration_seconds_count{operation="put"} 3`,
		`authgate_build_info{goversion="go`,
		`version="test"} 1`,
		"go_goroutines ", "process_",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "xxx") {
		t.Error("/metrics holds what a client chose")
	}
}
