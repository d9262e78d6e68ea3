package gateway

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/store"
)

func TestSessionsActive(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	active := func() float64 { return sample(t, r.registry, "authgate_sessions_active") }
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
	r.clock.advance(time.Hour)
	want(0, "when they have expired")
}

// uncounted hides that a store can count.
type uncounted struct{ store.Store }

func TestSessionsActiveUncounted(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory(nil)
	defer memory.Close()
	registry := prometheus.NewRegistry()
	_, err := New(Options{
		Config: parseConfig(t, t.TempDir(), baseConfig), Store: uncounted{memory}, Registerer: registry, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "authgate_sessions_active" {
			t.Error("a store that cannot count has a gauge")
		}
	}
}

// Metrics that are taken already are an error, not a panic.
func TestNewMetricsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	_, err := New(Options{Config: r.Config(), Store: r.store, Registerer: r.registry, Logger: r.service.Logger})
	var taken prometheus.AlreadyRegisteredError
	if !errors.As(err, &taken) {
		t.Errorf("got %v", err)
	}
}
