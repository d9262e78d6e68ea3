package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/logtest"
)

// ErrBroken is the error of a store that fails on demand.
var ErrBroken = errors.New("the disk with the secret name is on fire")

// Store is a store that fails on demand, before anything happens.
type Store struct {
	store.Store
	calls  atomic.Int64
	before atomic.Pointer[func(ctx context.Context, operation string, call int64, key string) error]
}

// Do calls f before each operation, which fails if f does. Calls are counted
// from 0 again.
func (s *Store) Do(f func(ctx context.Context, operation string, call int64, key string) error) {
	s.calls.Store(0)
	s.before.Store(&f)
}

// BreakIf makes the operations fail for which f returns true.
func (s *Store) BreakIf(f func(operation string, call int64, key string) bool) {
	s.Do(func(_ context.Context, operation string, call int64, key string) error {
		if f(operation, call, key) {
			return ErrBroken
		}
		return nil
	})
}

// Calls returns how many calls there were since Do.
func (s *Store) Calls() int64 { return s.calls.Load() }

// Heal makes the store work again.
func (s *Store) Heal() { s.before.Store(nil) }

// brittle calls do unless the operation is to fail.
func brittle[T any](ctx context.Context, s *Store, operation, key string, do func() (T, error)) (none T, _ error) {
	call := s.calls.Add(1) - 1
	if f := s.before.Load(); f != nil {
		if err := (*f)(ctx, operation, call, key); err != nil {
			return none, err
		}
	}
	return do()
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return brittle(ctx, s, "get", key, func() ([]byte, error) { return s.Store.Get(ctx, key) })
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	_, err := brittle(ctx, s, "put", key, func() (any, error) { return nil, s.Store.Put(ctx, key, value, expires) })
	return err
}

// Swap implements store.Store.
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	_, err := brittle(ctx, s, "swap", key, func() (any, error) { return nil, s.Store.Swap(ctx, key, old, value, expires) })
	return err
}

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, key string) ([]byte, error) {
	return brittle(ctx, s, "take", key, func() ([]byte, error) { return s.Store.Take(ctx, key) })
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := brittle(ctx, s, "delete", key, func() (any, error) { return nil, s.Store.Delete(ctx, key) })
	return err
}

// Walk implements store.Walker.
func (s *Store) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	_, err := brittle(ctx, s, "walk", prefix, func() (any, error) { return nil, s.Store.Walk(ctx, prefix, visit) })
	return err
}

// Outages are how a store may fail during a request: in one operation, or from one
// operation on.
var Outages = map[string]func(n int64) func(string, int64, string) bool{
	"once": func(n int64) func(string, int64, string) bool {
		return func(_ string, call int64, _ string) bool { return call == n }
	},
	"from then": func(n int64) func(string, int64, string) bool {
		return func(_ string, call int64, _ string) bool { return call >= n }
	},
}

// EachFailure calls f for each operation of the store that a request makes. f
// sends one request by broken, during which the operation fails.
func EachFailure(
	c *Client, s *Store, outage func(int64) func(string, int64, string) bool,
	f func(broken func(*http.Request) *httptest.ResponseRecorder),
) {
	c.T.Helper()
	eachOperation(c, s, func(n int64) { s.BreakIf(outage(n)) }, f)
}

// EachMoment calls f for each operation of the store that a request makes. f sends one request by
// during, and meanwhile happens just before the operation.
func EachMoment(
	c *Client, s *Store, meanwhile func(), f func(during func(*http.Request) *httptest.ResponseRecorder),
) {
	c.T.Helper()
	eachOperation(c, s, func(n int64) {
		s.Do(func(_ context.Context, _ string, call int64, _ string) error {
			if call == n {
				s.Heal()
				meanwhile()
			}
			return nil
		})
	}, f)
}

// eachOperation calls f for each operation of the store that a request makes. f sends one request
// by send, before which arrange is called with the number of the operation.
func eachOperation(
	c *Client, s *Store, arrange func(n int64), f func(send func(*http.Request) *httptest.ResponseRecorder),
) {
	c.T.Helper()
	calls := int64(0)
	for n := int64(0); n <= calls; n++ { // in the last round, no operation is left
		calls = -1
		f(func(q *http.Request) *httptest.ResponseRecorder {
			arrange(n)
			defer s.Heal()
			w := c.Serve(q)
			calls = s.calls.Load()
			return w
		})
		if calls < 0 || n > 50 || c.T.Failed() {
			c.T.Fatalf("operation %d of %d", n, calls)
		}
	}
}

// CheckUnavailable checks that a 503 tells no internals and sets no cookie, and that the log
// has the cause.
func CheckUnavailable(t testing.TB, log *logtest.Buffer, w *httptest.ResponseRecorder) {
	t.Helper()
	if h := w.Header(); h.Get("Retry-After") != "1" || h["Set-Cookie"] != nil || h["Location"] != nil {
		t.Errorf("a 503 with %v", h)
	}
	if body := w.Body.String(); strings.Contains(body, "_token") || strings.Contains(body, ErrBroken.Error()) {
		t.Errorf("the body of the 503 shows internals: %s", body)
	}
	line := log.Last(t, "request")
	caused := strings.Contains(fmt.Sprint(line["error"]), ErrBroken.Error())
	if line["level"] != "WARN" || line["decision"] != "error" || !caused {
		t.Errorf("the log does not have the cause: %v", line)
	}
}
