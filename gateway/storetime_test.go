package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

// farStore is a store on another machine: each call takes that long, and then
// happens, unless its context ends before.
type farStore struct {
	store.Store
	away atomic.Int64 // nanoseconds
}

func (s *farStore) travel(ctx context.Context) error {
	pause := time.NewTimer(time.Duration(s.away.Load()))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *farStore) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.travel(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

func (s *farStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, value, expires)
}

func (s *farStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	return s.Store.Swap(ctx, key, old, value, expires)
}

func (s *farStore) Take(ctx context.Context, key string) ([]byte, error) {
	if err := s.travel(ctx); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, key)
}

func (s *farStore) Delete(ctx context.Context, key string) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// TestStoreTime makes each kind of request on a store that is slow or does not
// answer. The answer comes within two seconds: it is the usual one, and true,
// or 503 without a cookie, after which the request can be made again.
func TestStoreTime(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Hour} {
		for _, i := range interruptions() {
			t.Run(i.name+", "+away.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, baseConfig)
					far := &farStore{Store: r.store.Store}
					r.store.Store = far
					s := r.login(aliceIn)
					far.away.Store(int64(away))
					began := time.Now()
					w := r.serve(i.request(s))
					took := time.Since(began)
					far.away.Store(0)
					time.Sleep(time.Minute) // nothing is under way any more
					t.Logf("%d after %v", w.Code, took)
					if took > 2*time.Second {
						t.Errorf("%d after %v", w.Code, took)
					}
					switch w.Code {
					case i.status:
						i.done(t, r, s, w)
					case http.StatusServiceUnavailable:
						if away <= 200*time.Millisecond || len(w.Result().Cookies()) > 0 || w.Header().Get("Retry-After") == "" {
							t.Errorf("%d %v", w.Code, w.Header())
						}
						i.undone(t, r, s, w)
					default:
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			})
		}
	}
}
