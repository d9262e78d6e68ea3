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

// openVolatile is openTest without the wait for the disk at each commit, for
// tests of what is not durability.
func openVolatile(t testing.TB, o Options) *Store {
	t.Helper()
	s := openTest(t, o)
	if _, err := s.db.writer.Exec("PRAGMA synchronous = OFF"); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformance runs the suite with a usual cache, and with one of one entry
// in each shard, so that most reads go to the disk.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string]int{"warm": 0, "cold": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Store {
				return openVolatile(t, Options{Now: now, CacheEntries: entries})
			})
		})
	}
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
