package sqlitestore

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/logtest"
	"authgate/gateway/must"
	"authgate/gateway/store"
	"authgate/gateway/store/storetest"
)

// The suite asks a store to count and to be pinged only if it says it can.
var (
	_ store.Counter = (*Store)(nil)
	_ store.Pinger  = (*Store)(nil)
)

// openTest opens a store that ends with the test, in a new directory unless o
// names a path. Its commits do not wait for the disk.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "test.db")
	}
	s := must.Get(Open(t.Context(), o))(t)
	t.Cleanup(func() { wantError(t, "Close", s.Close(), nil) })
	s.execute(t, "PRAGMA synchronous = OFF")
	return s
}

// inBubble runs f with a store on the clock of a bubble, beside other tests.
func inBubble(t *testing.T, f func(t *testing.T, s *Store, log *logtest.Buffer)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		f(t, openTest(t, Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}), log)
	})
}

// TestConformance runs the suite with a usual cache, and with one of one entry
// in each shard, so that most reads go to the disk.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string]int{"warm": 0, "cold": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Store {
				return openTest(t, Options{Now: now, CacheEntries: entries})
			})
		})
	}
}

// execute runs statements on the connection that writes.
func (s *Store) execute(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		must.Get(s.db.writer.Exec(statement))(t)
	}
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// wantFailure reports an error unless err is no answer of a store, and says all
// parts.
func wantFailure(t testing.TB, what string, err error, parts ...string) {
	t.Helper()
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		t.Errorf("%s: error %v, want a failure", what, err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %q does not say %q", what, err, part)
		}
	}
}
