package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store"
)

// sizingStore notes the largest value that is put into it.
type sizingStore struct {
	store.Store
	largest int
}

func (s *sizingStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	s.largest = max(s.largest, len(value))
	return s.Store.Put(ctx, key, value, expires)
}

// Anybody can begin to log in at a provider. What that leaves in the store is
// bounded for each client: one that begins more than a person can has to wait.
func TestAttemptsOfOneClientAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	const begun, enough = 3000, 1000
	last := 0
	for range begun {
		last = r.do("GET", "/login", "").Code
	}
	kept, err := r.store.Store.(store.Counter).Count(t.Context(), "attempt:")
	if err != nil {
		t.Fatal(err)
	}
	if kept > enough || last == http.StatusFound {
		t.Errorf("of %d attempts from one address %d are kept, and the last is answered %d; want no more than %d, and the last refused", begun, kept, last, enough)
	}
}

// The place to return to is kept with the attempt, so it cannot be of any
// length: one that is too long is dropped, as one on another origin is.
func TestAttemptsKeepNoLongPath(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	sized := &sizingStore{Store: r.store.Store}
	r.store.Store = sized
	for _, length := range []int{10, 1000, 10_000, 60_000} {
		if w := r.do("GET", "/login?return_to=/"+strings.Repeat("x", length), ""); w.Code != http.StatusFound {
			t.Fatalf("a path of %d bytes: %d", length, w.Code)
		}
	}
	if sized.largest > 8<<10 {
		t.Errorf("an attempt of anybody takes %d bytes in the store, want 8 KiB at most", sized.largest)
	}
}
