package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/store"
)

// observedStore times a store's operations and marks its failures as
// *storeError, which answers the request with 503.
type observedStore struct {
	store    store.Store
	duration map[string]prometheus.Observer
}

// observers resolves the histogram's labels once.
func observers(h *prometheus.HistogramVec) map[string]prometheus.Observer {
	m := map[string]prometheus.Observer{}
	for _, operation := range []string{"get", "put", "swap", "take", "delete"} {
		m[operation] = h.WithLabelValues(operation)
	}
	return m
}

func (o *observedStore) done(operation string, start time.Time, err error) error {
	o.duration[operation].Observe(time.Since(start).Seconds())
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return err
	}
	return &storeError{operation: operation, err: err}
}

// Get implements store.Store.
func (o *observedStore) Get(ctx context.Context, key string) ([]byte, error) {
	start := time.Now()
	value, err := o.store.Get(ctx, key)
	return value, o.done("get", start, err)
}

// Put implements store.Store.
func (o *observedStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	start := time.Now()
	return o.done("put", start, o.store.Put(ctx, key, value, expires))
}

// Swap implements store.Store.
func (o *observedStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	start := time.Now()
	return o.done("swap", start, o.store.Swap(ctx, key, old, value, expires))
}

// Take implements store.Store.
func (o *observedStore) Take(ctx context.Context, key string) ([]byte, error) {
	start := time.Now()
	value, err := o.store.Take(ctx, key)
	return value, o.done("take", start, err)
}

// Delete implements store.Store.
func (o *observedStore) Delete(ctx context.Context, key string) error {
	start := time.Now()
	return o.done("delete", start, o.store.Delete(ctx, key))
}

// Close implements store.Store; the one who opened the store closes it.
func (o *observedStore) Close() error { return nil }
