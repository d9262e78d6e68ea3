package sqlitestore

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/storetest"
)

// The suite asks a store to count and to be pinged only if it says it can.
var (
	_ store.Counter = (*Store)(nil)
	_ store.Pinger  = (*Store)(nil)
)

// openTest opens a store that ends with the test, in a new directory unless
// o names a path.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "test.db")
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Store {
		return openTest(t, Options{Now: now})
	})
}

// TestConformanceCold runs the suite with a cache of one entry in each shard,
// so that entries are evicted and read from the disk again all the time.
func TestConformanceCold(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Store {
		return openTest(t, Options{Now: now, CacheEntries: 1})
	})
}

func put(t testing.TB, s *Store, key, value string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(value), time.Time{}); err != nil {
		t.Errorf("Put(%q): %v", key, err)
	}
}

// wantValue reports an error unless key has the live value want.
func wantValue(t testing.TB, s *Store, key, want string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); err != nil || string(got) != want {
		t.Errorf("Get(%q) = %q, %v; want %q", key, got, err, want)
	}
}

// wantAbsent reports an error unless the store says that key has no value.
func wantAbsent(t testing.TB, s *Store, key string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get(%q) = %q, %v; want ErrNotFound", key, got, err)
	}
}
