package gateway

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/store"
)

// What a store says of an entry passes as it is; what it says of itself is
// marked, so that it ends in 503.
func TestObservedStore(t *testing.T) {
	t.Parallel()
	histogram := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, []string{"operation"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(histogram)
	memory := store.NewMemory(nil)
	defer memory.Close()
	brittle := &brittleStore{Store: memory}
	o := &observedStore{store: brittle, duration: observers(histogram)}
	ctx, later := t.Context(), time.Now().Add(time.Hour)
	operations := []struct {
		name string
		call func() error
		want error // while the store works
	}{
		{"get", func() error { _, err := o.Get(ctx, "k"); return err }, store.ErrNotFound},
		{"take", func() error { _, err := o.Take(ctx, "k"); return err }, store.ErrNotFound},
		{"swap", func() error { return o.Swap(ctx, "k", []byte("x"), []byte("y"), later) }, store.ErrConflict},
		{"put", func() error { return o.Put(ctx, "k", []byte("v"), later) }, nil},
		{"delete", func() error { return o.Delete(ctx, "k") }, nil},
	}
	for _, op := range operations {
		if err := op.call(); !errors.Is(err, op.want) || errors.As(err, new(*storeError)) {
			t.Errorf("%s: %v, want %v", op.name, err, op.want)
		}
	}
	brittle.breakIf(func(string, int64, string) bool { return true })
	for _, op := range operations {
		err := op.call()
		var marked *storeError
		if !errors.As(err, &marked) || marked.operation != op.name || !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want a *storeError", op.name, err)
		}
		if got := sample(t, registry, "took", "operation="+op.name); got != 2 {
			t.Errorf("%s: observed %v times, want 2", op.name, got)
		}
	}
	brittle.heal()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := o.Get(canceled, "k"); toHTTP(err).status != statusClientGone {
		t.Errorf("a client that left: %v", err)
	}
	if err := o.Put(ctx, "k", []byte("v"), later); err != nil {
		t.Fatal(err)
	}
	if value, err := o.Get(ctx, "k"); string(value) != "v" || err != nil {
		t.Errorf("Get: %q, %v", value, err)
	}
}

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
	_, err := New(Options{Config: r.Config(), Store: r.store, Registerer: r.registry, Logger: r.logger})
	var taken prometheus.AlreadyRegisteredError
	if !errors.As(err, &taken) {
		t.Errorf("got %v", err)
	}
}
