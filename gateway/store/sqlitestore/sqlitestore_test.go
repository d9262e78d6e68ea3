package sqlitestore

import (
	"path/filepath"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/storetest"
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
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		return openTest(t, Options{Now: now})
	})
}

// TestConformanceCold runs the suite with a cache of one entry in each shard,
// so that entries are evicted and read from the disk again all the time.
func TestConformanceCold(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		return openTest(t, Options{Now: now, CacheEntries: 1})
	})
}
