package sqlitestore

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/logtest"
	"authgate/gateway/store/storetest"
)

// TestLostFiles deletes and replaces the files of an open store: nothing is
// acknowledged that a restart would not find.
func TestLostFiles(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", walSuffix, shmSuffix} {
		for how, lose := range map[string]func(path string) error{
			"deleted": os.Remove,
			"replaced": func(path string) error {
				return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
			},
		} {
			t.Run("test.db"+suffix+" "+how, func(t *testing.T) {
				t.Parallel()
				log := &logtest.Buffer{}
				s := openTest(t, Options{Logger: slog.New(slog.NewJSONHandler(log, nil))})
				storetest.Put(t, s, "key", "value")
				path := s.db.path + suffix
				wantError(t, "lose", lose(path), nil)
				for range 2 {
					wantMoved(t, s, path)
				}
				storetest.WantValue(t, s, "key", "value") // from memory, where it is still true
				if all := log.Records(t, "the store refuses all writes"); len(all) != 1 || !strings.Contains(log.String(), "stop the gateway") {
					t.Errorf("want one error in the log that says what to do:\n%s", log)
				}
				if how == "deleted" {
					return
				}
				wantError(t, "rename", os.Rename(path+".old", path), nil)
				storetest.Put(t, s, "key", "newer value")
				wantError(t, "Ping with the file in its place again", s.Ping(t.Context()), nil)
				log.Last(t, "the files of the store are back")
			})
		}
	}
}

// wantMoved reports an error unless whatever needs the files fails, and says why
// and what to do.
func wantMoved(t *testing.T, s *Store, path string) {
	t.Helper()
	_, take := s.Take(t.Context(), "key")
	_, get := s.Get(t.Context(), "cold")
	_, count := s.Count(t.Context(), "")
	for operation, err := range map[string]error{
		"put":    s.Put(t.Context(), "other", []byte("value"), time.Time{}),
		"swap":   s.Swap(t.Context(), "key", []byte("value"), []byte("other"), time.Time{}),
		"delete": s.Delete(t.Context(), "key"),
		"ping":   s.Ping(t.Context()),
		"take":   take, "get": get, "count": count,
	} {
		wantError(t, operation, err, errMoved)
		wantFailure(t, operation, err, operation+" in ", path+" was deleted or replaced", "stop the gateway")
	}
}

// TestFileLostDuringCommit replaces the file after a transaction has begun: the
// write is not acknowledged.
func TestFileLostDuringCommit(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	err := s.set(t.Context(), "key", func(*batch) error { return os.Remove(s.db.path) })
	wantError(t, "a write to a file that has gone", err, errMoved)
}

// TestStopSavesWhatALostLogHolds deletes the companions of an open database. The
// log stays open, and Close saves it to the database.
func TestStopSavesWhatALostLogHolds(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{walSuffix, shmSuffix} {
		path := filepath.Join(t.TempDir(), "test.db")
		s := openTest(t, Options{Path: path})
		storetest.Put(t, s, "key", "value")
		wantError(t, "remove", os.Remove(path+suffix), nil)
		wantError(t, "Close without "+suffix, s.Close(), nil)
		storetest.WantValue(t, openTest(t, Options{Path: path}), "key", "value")
	}
}
