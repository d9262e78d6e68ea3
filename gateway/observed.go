package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/store"
)

// observedStore times a store's operations, ends those that go beyond
// storeTime, and marks failures as *storeError, which answers the request with
// 503.
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

func (o *observedStore) done(operation string, start time.Time, end callEnd, err error) error {
	took := time.Since(start)
	end.at(start.Add(took))
	o.duration[operation].Observe(took.Seconds())
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return err
	}
	return &storeError{operation: operation, err: err}
}

// Get implements store.Store.
func (o *observedStore) Get(ctx context.Context, key string) (value []byte, err error) {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err == nil {
		value, err = o.store.Get(call, key)
		err = o.done("get", start, end, err)
	}
	return value, err
}

// Put implements store.Store.
func (o *observedStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return o.done("put", start, end, o.store.Put(call, key, value, expires))
}

// Swap implements store.Store.
func (o *observedStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return o.done("swap", start, end, o.store.Swap(call, key, old, value, expires))
}

// Take implements store.Store.
func (o *observedStore) Take(ctx context.Context, key string) (value []byte, err error) {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err == nil {
		value, err = o.store.Take(call, key)
		err = o.done("take", start, end, err)
	}
	return value, err
}

// Delete implements store.Store.
func (o *observedStore) Delete(ctx context.Context, key string) error {
	start := time.Now()
	call, end, err := limitCall(ctx, start)
	if err != nil {
		return err
	}
	return o.done("delete", start, end, o.store.Delete(call, key))
}
