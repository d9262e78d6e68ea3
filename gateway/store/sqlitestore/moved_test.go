package sqlitestore

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
				var log bytes.Buffer
				s := openTest(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				put(t, s, "key", "value")
				path := s.db.path + suffix
				if err := lose(path); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					wantMoved(t, s, path)
				}
				wantValue(t, s, "key", "value") // from memory, where it is still true
				if got := strings.Count(log.String(), "level=ERROR"); got != 1 || !strings.Contains(log.String(), "stop the gateway") {
					t.Errorf("want one error in the log that says what to do:\n%s", &log)
				}
				if how == "deleted" {
					return
				}
				if err := os.Rename(path+".old", path); err != nil {
					t.Fatal(err)
				}
				put(t, s, "key", "newer value")
				if err := s.Ping(t.Context()); err != nil || !strings.Contains(log.String(), "the files of the store are back") {
					t.Errorf("with the file in its place again: %v\n%s", err, &log)
				}
			})
		}
	}
}

// wantMoved reports an error unless whatever needs the files fails, and says
// why and what to do.
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
		if !errors.Is(err, errMoved) {
			t.Errorf("%s: error %v, want that of a file that has gone", operation, err)
			continue
		}
		for _, part := range []string{operation + " in ", path + " was deleted or replaced", "stop the gateway"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}
}

// TestFileLostDuringCommit replaces the file after a transaction has begun: the
// write is not acknowledged.
func TestFileLostDuringCommit(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	_, err := s.write(t.Context(), "put", func(b *batch) ([]byte, error) {
		if err := os.Remove(s.db.path); err != nil {
			return nil, err
		}
		return nil, b.set("key", newEntry([]byte("value"), time.Time{}))
	})
	if !errors.Is(err, errMoved) {
		t.Errorf("error %v, want that of a file that has gone", err)
	}
}

// TestStopSavesWhatALostLogHolds deletes the companions of an open database.
// The log stays open, and Close saves it to the database.
func TestStopSavesWhatALostLogHolds(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{walSuffix, shmSuffix} {
		path := filepath.Join(t.TempDir(), "test.db")
		s := openTest(t, Options{Path: path})
		put(t, s, "key", "value")
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close without %s: %v", suffix, err)
		}
		wantValue(t, openTest(t, Options{Path: path}), "key", "value")
	}
}
