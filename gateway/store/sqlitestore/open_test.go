package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEntriesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	// Every character that means something in a data source name.
	path := filepath.Join(t.TempDir(), "a?b#c%20d&e=f;g h'i.db")
	clock := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
	o := Options{Path: path, Now: func() time.Time { return clock }}

	s := openTest(t, o)
	for key, expires := range map[string]time.Time{
		"never": {}, "soon": clock.Add(time.Minute), "later": clock.Add(time.Hour), "deleted": {},
	} {
		if err := s.Put(t.Context(), key, []byte("value of "+key), expires); err != nil {
			t.Fatalf("Put: %v", err)
		}
	}
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left over after Close: %v", name, err)
		}
	}

	clock = clock.Add(time.Minute)
	s = openTest(t, o)
	for _, key := range []string{"never", "later"} {
		if got, err := s.Get(t.Context(), key); err != nil || string(got) != "value of "+key {
			t.Errorf("Get(%q) = %q, %v", key, got, err)
		}
	}
	for _, key := range []string{"soon", "deleted"} {
		wantAbsent(t, s, key)
	}
}

// TestOpenRefuses lists what Open must not start with, and that the error
// names the file and the reason.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, path string) Options
		want    string
	}{
		"newer schema": {
			func(t *testing.T, path string) Options {
				execute(t, path, createSchema, "PRAGMA user_version = 2")
				return Options{Path: path}
			}, "its schema has version 2, and this authgate knows versions up to 1",
		},
		"a database of another program": {
			func(t *testing.T, path string) Options {
				execute(t, path, "CREATE TABLE recipes (cake TEXT)")
				return Options{Path: path}
			}, "authgate did not make",
		},
		"a negative schema version": {
			func(t *testing.T, path string) Options {
				execute(t, path, "PRAGMA user_version = -1")
				return Options{Path: path}
			}, "authgate did not make",
		},
		"our version without our tables": {
			func(t *testing.T, path string) Options {
				execute(t, path, "PRAGMA user_version = 1")
				return Options{Path: path}
			}, "no such table",
		},
		"no database": {
			func(t *testing.T, path string) Options {
				overwrite(t, path, 0, bytes.Repeat([]byte("not a database. "), 1000))
				return Options{Path: path}
			}, "the database is damaged",
		},
		"damaged pages": {
			func(t *testing.T, path string) Options {
				fillAndClose(t, path)
				overwrite(t, path, 8*4096, bytes.Repeat([]byte{0xa5}, 4096))
				return Options{Path: path}
			}, "move the file away",
		},
		"cut short": {
			func(t *testing.T, path string) Options {
				fillAndClose(t, path)
				if err := os.Truncate(path, 5*4096); err != nil {
					t.Fatal(err)
				}
				return Options{Path: path}
			}, "the database is damaged",
		},
		"a directory": {
			func(t *testing.T, path string) Options {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
				return Options{Path: path}
			}, "is a directory",
		},
		"no directory": {
			func(_ *testing.T, path string) Options {
				return Options{Path: filepath.Join(path, "missing", "test.db")}
			}, "its directory must exist",
		},
		"no path": {
			func(*testing.T, string) Options { return Options{} }, "no path given",
		},
		"a negative cache": {
			func(_ *testing.T, path string) Options { return Options{Path: path, CacheEntries: -1} },
			"a cache of -1 entries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := test.prepare(t, filepath.Join(t.TempDir(), "test.db"))
			s, err := Open(t.Context(), o)
			if err == nil {
				t.Fatalf("Open succeeded; Close: %v", s.Close())
			}
			for _, part := range []string{"sqlitestore: open " + o.Path, test.want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestOpenHonoursItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Open(ctx, Options{Path: path}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Open with an ended context: %v, %v", s, err)
	}
	openTest(t, Options{Path: path}) // the failure left nothing locked
}

// TestEmptyFileIsTaken finds an interrupted first start: an empty file.
func TestEmptyFileIsTaken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	overwrite(t, path, 0, nil)
	wantAbsent(t, openTest(t, Options{Path: path}), "key")
}

// execute runs statements on the file at path as another program would.
func execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// overwrite puts text at an offset of a file, which it creates if need be.
func overwrite(t *testing.T, path string, offset int64, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, offset); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// fillAndClose makes a database of some dozens of pages.
func fillAndClose(t *testing.T, path string) {
	t.Helper()
	s := openTest(t, Options{Path: path})
	fill(t, s, 500)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// fill puts n entries, key 0 to key n-1, in one transaction.
func fill(t testing.TB, s *Store, n int) {
	t.Helper()
	_, err := s.write(t.Context(), "fill", func(b *batch) ([]byte, error) {
		for i := range n {
			if err := b.set(fmt.Sprintf("key %d", i), newEntry(benchmarkValue, time.Time{})); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
