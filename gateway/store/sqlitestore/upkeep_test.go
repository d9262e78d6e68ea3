package sqlitestore

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// wantRows reports an error unless so many entries are on the disk, dead ones
// included.
func (s *Store) wantRows(t *testing.T, want int) {
	t.Helper()
	var got int
	if err := s.db.reader.QueryRow("SELECT count(*) FROM entries").Scan(&got); err != nil || got != want {
		t.Errorf("%d entries on the disk, %v; want %d", got, err, want)
	}
}

func TestSweeper(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		const each = 3*sweepBatch + 1
		fill(t, s, 3*each, time.Now().Add(30*time.Second), time.Now().Add(90*time.Second))
		for _, step := range []struct {
			wait time.Duration
			want int
		}{
			{59 * time.Second, 3 * each}, // dead already, not yet swept
			{2 * time.Second, 2 * each},  // the steps have pauses
			{time.Minute, each},
			{time.Hour, each},
		} {
			time.Sleep(step.wait) // moves the clock of the bubble
			synctest.Wait()
			s.wantRows(t, step.want)
		}
		storetest.WantNone(t, s, "key 0")
		storetest.WantValue(t, s, "key 2", string(make([]byte, 256)))
	})
}

// TestSweepSteps proves the bounds of a step: how many rows it removes, and that
// writes of others get their turn before the next.
func TestSweepSteps(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	s := openTest(t, Options{Now: clock.Now})
	const steps = 5
	fill(t, s, 3*steps*sweepBatch, clock.Now().Add(time.Second))
	clock.Advance(time.Second)
	rows := func() (n int) {
		must.Do(t, s.db.reader.QueryRow("SELECT count(*) FROM entries WHERE key <> CAST('other' AS BLOB)").Scan(&n))
		return n
	}
	before, rests := rows(), 0
	ended := errors.New("ended")
	wantError(t, "sweep", s.sweepAll(t.Context(), func(time.Duration) error {
		now := rows()
		if removed := before - now; removed < 1 || removed > sweepBatch {
			t.Errorf("a step removes %d rows, want at most %d", removed, sweepBatch)
		}
		storetest.Put(t, s, "other", "") // a writer that is not free would never do it
		before, rests = now, rests+1
		if rests == steps {
			return ended
		}
		return nil
	}), ended)
}

// TestSweeperReports has the sweeper fail and then recover.
func TestSweeperReports(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, log *logtest.Buffer) {
		storetest.Put(t, s, "key", "", time.Now().Add(time.Second))
		s.execute(t, "PRAGMA query_only = ON")
		time.Sleep(sweepInterval)
		synctest.Wait()
		record := log.Last(t, "cannot remove expired entries")
		if told, _ := record["error"].(string); record["level"] != "WARN" ||
			!strings.Contains(told, "readonly database") || !strings.Contains(told, s.db.path) {
			t.Errorf("the log has %v, want a warning with the reason and the file", record)
		}
		s.execute(t, "PRAGMA query_only = OFF")
		time.Sleep(sweepInterval)
		synctest.Wait()
		s.wantRows(t, 0)
	})
}

// TestQueriesUseTheirIndexes asks SQLite how it means to find things: no statement
// may walk the whole table.
func TestQueriesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	for query, want := range map[string]string{
		selectEntry:   "SEARCH entries USING PRIMARY KEY (key=?)",
		deleteEntry:   "SEARCH entries USING PRIMARY KEY (key=?)",
		deleteExpired: "SEARCH entries USING COVERING INDEX entries_by_expiry (expires<?)",
		selectKeys:    "SEARCH entries USING PRIMARY KEY (key>?)",
	} {
		if plan := s.plan(t, query); !strings.Contains(plan, want) || strings.Contains(plan, "SCAN") {
			t.Errorf("plan of %s:\n%s\nwant %s", query, plan, want)
		}
	}
}

// plan returns SQLite's plan for a query, one step on a line.
func (s *Store) plan(t *testing.T, query string) (steps string) {
	t.Helper()
	rows := must.Get(s.db.writer.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...))(t)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		wantError(t, "Scan", rows.Scan(&id, &parent, &unused, &step), nil)
		steps += step + "\n"
	}
	wantError(t, "EXPLAIN", rows.Err(), nil)
	return steps
}

// TestPingTellsTheTruth breaks the writer, and then the readers.
func TestPingTellsTheTruth(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		wantError(t, "Ping of a sound store", s.Ping(t.Context()), nil)

		release := hold(t, s)
		began := time.Now()
		wantError(t, "Ping of a stuck writer", s.Ping(t.Context()), context.DeadlineExceeded)
		if took := time.Since(began); took != pingTimeout {
			t.Errorf("Ping of a stuck writer takes %v, want %v", took, pingTimeout)
		}
		release()

		s.execute(t, "PRAGMA query_only = ON")
		wantFailure(t, "Ping of a read-only store", s.Ping(t.Context()), "ping in "+s.db.path)
		s.execute(t, "PRAGMA query_only = OFF")
		wantError(t, "Ping of a store that recovered", s.Ping(t.Context()), nil)
		wantError(t, "Close", s.db.reader.Close(), nil)
		wantFailure(t, "Ping of a store that cannot read", s.Ping(t.Context()))
	})
}

// TestUnreadableIsNotAbsent damages the table under an open store: a cold read
// fails, and the failure is not remembered as an answer.
func TestUnreadableIsNotAbsent(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	storetest.Put(t, s, "key", "value")
	s.cache.evict("key")
	s.execute(t, "ALTER TABLE entries RENAME TO hidden")
	_, err := s.Get(t.Context(), "key")
	wantFailure(t, "Get without a table", err, "get in "+s.db.path+": ")
	s.execute(t, "ALTER TABLE hidden RENAME TO entries")
	storetest.WantValue(t, s, "key", "value")
}

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
				if all := log.Records(t, "the store refuses all writes"); len(all) != 1 ||
					!strings.Contains(log.String(), "stop the gateway") {
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
	for operation, err := range map[string]error{
		"put":    s.Put(t.Context(), "other", []byte("value"), time.Time{}),
		"swap":   s.Swap(t.Context(), "key", []byte("value"), []byte("other"), time.Time{}),
		"delete": s.Delete(t.Context(), "key"),
		"ping":   s.Ping(t.Context()),
		"walk":   s.Walk(t.Context(), "", func([]string) error { return nil }),
		"take":   take, "get": get,
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
