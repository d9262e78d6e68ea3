package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rows returns the number of entries on the disk, dead ones included.
func (s *Store) rows(t *testing.T) (n int) {
	t.Helper()
	if err := s.db.reader.QueryRow("SELECT count(*) FROM entries").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		const each = 3*sweepBatch + 1
		_, err := s.write(t.Context(), "fill", func(b *batch) ([]byte, error) {
			for i := range each {
				for kind, expires := range map[string]time.Time{
					"short": time.Now().Add(30 * time.Second),
					"long":  time.Now().Add(90 * time.Second),
					"never": {},
				} {
					if err := b.set(fmt.Sprintf("%s %d", kind, i), newEntry(nil, expires)); err != nil {
						return nil, err
					}
				}
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{
			{59 * time.Second, 3 * each}, // dead already, not yet swept
			{time.Second, 2 * each},
			{time.Minute, each},
			{time.Hour, each},
		} {
			time.Sleep(step.wait) // moves the clock of the bubble
			synctest.Wait()
			if got := s.rows(t); got != step.want {
				t.Fatalf("%d entries on the disk, want %d", got, step.want)
			}
		}
		wantAbsent(t, s, "short 1")
		wantValue(t, s, "never 1", "")
	})
}

// TestSweeperReports has the sweeper fail and then recover.
func TestSweeperReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := openTest(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err := s.Put(t.Context(), "key", nil, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.db.writer.Exec("PRAGMA query_only = ON"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sweepInterval)
		synctest.Wait()
		for _, part := range []string{"level=WARN", "cannot remove expired entries", "readonly database", s.db.path} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("log %q does not say %q", log.String(), part)
			}
		}
		if _, err := s.db.writer.Exec("PRAGMA query_only = OFF"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sweepInterval)
		synctest.Wait()
		if got := s.rows(t); got != 0 {
			t.Errorf("%d entries on the disk, want 0", got)
		}
	})
}

// TestQueriesUseTheirIndexes asks SQLite how it means to find things: none
// of the statements may walk the whole table.
func TestQueriesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	for query, want := range map[string]string{
		selectEntry:   "SEARCH entries USING PRIMARY KEY (key=?)",
		deleteEntry:   "SEARCH entries USING PRIMARY KEY (key=?)",
		deleteExpired: "SEARCH entries USING COVERING INDEX entries_by_expiry (expires<?)",
		countRange:    "SEARCH entries USING PRIMARY KEY (key>? AND key<?)",
	} {
		if plan := s.plan(t, query); !strings.Contains(plan, want) || strings.Contains(plan, "SCAN") {
			t.Errorf("plan of %s:\n%s\nwant %s", query, plan, want)
		}
	}
}

// plan returns SQLite's plan for a query, one step on a line.
func (s *Store) plan(t *testing.T, query string) string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	rows, err := s.db.writer.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(steps, "\n")
}

// TestPingTellsTheTruth breaks the writer, and then the readers.
func TestPingTellsTheTruth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		ping := func() error { return s.Ping(t.Context()) }
		if err := ping(); err != nil {
			t.Fatalf("Ping of a sound store: %v", err)
		}

		release := hold(t, s)
		began := time.Now()
		if err := ping(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != pingTimeout {
			t.Errorf("Ping of a stuck writer: %v after %v, want the deadline after %v", err, time.Since(began), pingTimeout)
		}
		release()

		if _, err := s.db.writer.Exec("PRAGMA query_only = ON"); err != nil {
			t.Fatal(err)
		}
		if err := ping(); err == nil || !strings.Contains(err.Error(), "ping in "+s.db.path) {
			t.Errorf("Ping of a read-only store: %v", err)
		}
		if _, err := s.db.writer.Exec("PRAGMA query_only = OFF"); err != nil {
			t.Fatal(err)
		}
		if err := ping(); err != nil {
			t.Errorf("Ping of a store that recovered: %v", err)
		}

		if err := s.db.reader.Close(); err != nil {
			t.Fatal(err)
		}
		if err := ping(); err == nil {
			t.Error("Ping of a store that cannot read succeeded")
		}
	})
}

// TestUnreadableIsNotAbsent damages the table under an open store: a cold
// read fails, and the failure is not remembered as an answer.
func TestUnreadableIsNotAbsent(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	put(t, s, "key", "value")
	s.cache.evict("key")
	if _, err := s.db.writer.Exec("ALTER TABLE entries RENAME TO hidden"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "key")
	if err == nil || !strings.Contains(err.Error(), "get in "+s.db.path+": ") {
		t.Fatalf("Get without a table: error %v, want that of SQLite", err)
	}
	if _, err := s.db.writer.Exec("ALTER TABLE hidden RENAME TO entries"); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "key", "value")
}
