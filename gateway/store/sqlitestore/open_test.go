package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

func TestEntriesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	// Every character that means something in a data source name.
	o := Options{Path: filepath.Join(t.TempDir(), "a?b#c%20d&e=f;g h'i.db"), Now: clock.Now}
	s := openTest(t, o)
	for key, life := range map[string]time.Duration{"soon": time.Minute, "later": time.Hour} {
		storetest.Put(t, s, key, "value", clock.Now().Add(life))
	}
	storetest.Put(t, s, "never", "value")
	storetest.Put(t, s, "deleted", "value")
	wantError(t, "Delete", s.Delete(t.Context(), "deleted"), nil)
	wantError(t, "Close", s.Close(), nil)
	for _, suffix := range []string{walSuffix, shmSuffix} {
		_, err := os.Stat(o.Path + suffix)
		wantError(t, suffix+" after Close", err, os.ErrNotExist)
	}

	clock.Advance(time.Minute)
	s = openTest(t, o)
	storetest.WantValue(t, s, "never", "value")
	storetest.WantValue(t, s, "later", "value")
	storetest.WantNone(t, s, "soon")
	storetest.WantNone(t, s, "deleted")
}

// TestOpenRefuses lists what Open must not start with. The error names the file
// and the reason.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	executed := func(statements ...string) func(*testing.T, string) {
		return func(t *testing.T, path string) { execute(t, path, statements...) }
	}
	filled := func(spoil func(t *testing.T, path string)) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			s := openTest(t, Options{Path: path})
			fill(t, s, 500)
			wantError(t, "Close", s.Close(), nil)
			spoil(t, path)
		}
	}
	for name, test := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    string
	}{
		"newer schema": {executed(createSchema, "PRAGMA user_version = 2"),
			"its schema has version 2, and this authgate knows versions up to 1"},
		"a database of another program":  {executed("CREATE TABLE recipes (cake TEXT)"), "authgate did not make"},
		"a negative schema version":      {executed("PRAGMA user_version = -1"), "authgate did not make"},
		"our version without our tables": {executed("PRAGMA user_version = 1"), "no such table"},
		"no database": {func(t *testing.T, path string) {
			overwrite(t, path, 0, bytes.Repeat([]byte("not a database. "), 1000))
		}, "the database is damaged"},
		"damaged pages": {filled(func(t *testing.T, path string) {
			overwrite(t, path, 8*4096, bytes.Repeat([]byte{0xa5}, 4096))
		}), "move the file away"},
		"cut short": {filled(func(t *testing.T, path string) {
			wantError(t, "cut", os.Truncate(path, 5*4096), nil)
		}), "the database is damaged"},
		"a directory": {func(t *testing.T, path string) {
			wantError(t, "mkdir", os.Mkdir(path, 0o700), nil)
		}, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			test.prepare(t, path)
			wantRefused(t, Options{Path: path}, test.want)
		})
	}
	directory := t.TempDir()
	wantRefused(t, Options{}, "no path given")
	wantRefused(t, Options{Path: filepath.Join(directory, "missing", "test.db")}, "its directory must exist")
	wantRefused(t, Options{Path: filepath.Join(directory, "test.db"), CacheEntries: -1}, "a cache of -1 entries")
}

func wantRefused(t *testing.T, o Options, parts ...string) {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err == nil {
		t.Fatalf("Open of %+v succeeded; Close: %v", o, s.Close())
	}
	wantFailure(t, "Open", err, append(parts, "sqlitestore: open "+o.Path)...)
}

// TestOpenAfterAnAttempt finds an interrupted first start: an empty file. Open
// honours its context, and leaves nothing locked.
func TestOpenAfterAnAttempt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	overwrite(t, path, 0, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, Options{Path: path})
	wantError(t, "Open with an ended context", err, context.Canceled)
	storetest.WantNone(t, openTest(t, Options{Path: path}), "key")
}

// execute runs statements on the file at path as another program would.
func execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	for _, statement := range statements {
		must.Get(db.ExecContext(t.Context(), statement))(t)
	}
}

// overwrite puts text at an offset of a file, which it creates if need be.
func overwrite(t *testing.T, path string, offset int64, text []byte) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))(t)
	_, err := f.WriteAt(text, offset)
	wantError(t, "write "+path, errors.Join(err, f.Close()), nil)
}

// fill puts n entries, key 0 to key n-1, in one transaction.
func fill(t testing.TB, s *Store, n int, expires ...time.Time) {
	t.Helper()
	expires = append(expires, time.Time{})
	_, err := s.write(t.Context(), "fill", func(b *batch) ([]byte, error) {
		for i := range n {
			if err := b.set(fmt.Sprintf("key %d", i), newEntry(make([]byte, 256), expires[i%len(expires)])); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	wantError(t, "fill", err, nil)
}

// The suite pings a store only if it says that it can be pinged.
var _ store.Pinger = (*Store)(nil)

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
