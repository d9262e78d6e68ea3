package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/logtest"
	"authgate/gateway/must"
	"authgate/gateway/store/storetest"
)

// wantCount reports an error unless so many entries of a kind are live.
func (s *Store) wantCount(t *testing.T, kind string, want int) {
	t.Helper()
	if got, err := s.Count(t.Context(), kind); err != nil || got != want {
		t.Errorf("Count(%q) = %d, %v; want %d", kind, got, err, want)
	}
}

// TestCensusAmongWrites counts a file of several steps while entries on both sides of
// the last counted key come, change and go.
func TestCensusAmongWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := openTest(t, Options{Path: path})
	must.Get(s.Count(t.Context(), ""))(t) // the census of the start does not meet the rows
	const rows = 3*censusStep + 5
	live := map[string]bool{}
	must.Get(s.write(t.Context(), "fill", func(b *batch) ([]byte, error) {
		for i := range rows {
			key := fmt.Sprintf("s:%06d", 2*i)
			if err := b.set(key, newEntry(nil, time.Time{})); err != nil {
				return nil, err
			}
			live[key] = true
		}
		return nil, nil
	}))(t)
	s.wantCount(t, "s:", rows)
	byHand(t, s, func(step func() bool) {
		for round := 0; step(); round++ {
			for at := 0; at < 2*rows; at += rows / 4 {
				gone, added, changed := fmt.Sprintf("s:%06d", at+2*round), fmt.Sprintf("s:%06d", at+2*round+1), fmt.Sprintf("s:%06d", at+2*round+20)
				must.Do(t, s.Delete(t.Context(), gone))
				delete(live, gone)
				storetest.Put(t, s, added, "")
				storetest.Put(t, s, changed, "changed")
				live[added], live[changed] = true, true
			}
		}
	})
	s.wantCount(t, "s:", len(live))
	s.wantCount(t, "", len(live))
	wantError(t, "Close", s.Close(), nil)
	openTest(t, Options{Path: path}).wantCount(t, "s:", len(live)) // also after a restart
}

// byHand begins a census that takes a step only when do says so.
func byHand(t *testing.T, s *Store, do func(step func() bool)) {
	t.Helper()
	must.Get(s.Count(t.Context(), ""))(t) // the store has ended its own
	must.Get(s.write(t.Context(), "reset", func(b *batch) ([]byte, error) {
		b.writer.census.reset()
		return nil, nil
	}))(t)
	do(func() bool {
		return must.Get(s.write(t.Context(), "count", func(b *batch) ([]byte, error) { return b.countNext() }))(t) == nil
	})
}

// TestCensusInOneTransaction has a step share its transaction with changes before and
// after it.
func TestCensusInOneTransaction(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	storetest.Put(t, s, "s:1", "")
	storetest.Put(t, s, "s:2", "")
	s.wantCount(t, "s:", 2)
	byHand(t, s, func(func() bool) {
		must.Get(s.write(t.Context(), "all", func(b *batch) ([]byte, error) {
			before := errors.Join(b.set("s:3", newEntry(nil, time.Time{})), b.remove("s:1"))
			_, counted := b.countNext()
			return nil, errors.Join(before, counted, b.set("s:4", newEntry(nil, time.Time{})), b.remove("s:2"))
		}))(t)
	})
	s.wantCount(t, "s:", 2)
}

// TestCensusAfterFailures begins again when a commit has failed, a statement has
// failed in the transaction of a step, or another program has written.
func TestCensusAfterFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		s.execute(t, "PRAGMA foreign_keys = ON", "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
			"CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
		storetest.Put(t, s, "s:1", "")
		s.wantCount(t, "s:", 1)
		err := s.set(t.Context(), "s:2", func(b *batch) error { _, err := b.tx.Exec("INSERT INTO child VALUES (1)"); return err })
		wantFailure(t, "a commit that fails", err, "commit: ")
		s.wantCount(t, "s:", 1)

		err = s.set(t.Context(), "s:5", func(b *batch) error { _, err := b.tx.Exec("COMMIT"); return err })
		wantFailure(t, "a commit that fails and takes effect", err, "commit: ")
		s.wantCount(t, "s:", 2)

		wantFailure(t, "a statement that fails", s.set(t.Context(), "s:3", func(b *batch) error {
			b.writer.census.restart()
			_, err := b.countNext()
			_, failed := b.tx.Exec("INSERT INTO nowhere VALUES (1)")
			return errors.Join(err, failed)
		}), "no such table")
		s.wantCount(t, "s:", 2)

		other := must.Get(sql.Open("sqlite", s.db.path))(t)
		must.Get(other.Exec("INSERT INTO entries VALUES (CAST('s:9' AS BLOB), 0, x'')"))(t)
		must.Do(t, other.Close())
		storetest.Put(t, s, "s:4", "") // notices it
		s.wantCount(t, "s:", 4)
	})
}

// TestCountDuringCensus waits for the census, and for no longer than its context.
func TestCountDuringCensus(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		release := hold(t, s)
		s.census.restart() // the first one may have ended before
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Count(ctx, "s:")
		wantError(t, "Count before the census", err, context.DeadlineExceeded)
		wantError(t, "Count before the census", err, errCounting)
		release()
		synctest.Wait()
		s.wantCount(t, "s:", 0)
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
