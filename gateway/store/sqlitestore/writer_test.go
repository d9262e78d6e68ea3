package sqlitestore

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/logtest"
	"authgate/internal/test/storetest"
)

// hold keeps the writer in the midst of a transaction until the returned
// function is called. Writes that come meanwhile share that transaction.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	holding, released := make(chan struct{}), make(chan struct{})
	var once sync.Once // a write is carried out again if another one fails
	var held sync.WaitGroup
	held.Go(func() {
		_, _ = s.write(t.Context(), "hold", func(*batch) ([]byte, error) {
			once.Do(func() { close(holding) })
			<-released
			return nil, nil
		})
	})
	<-holding
	return func() { close(released); held.Wait() }
}

// together has calls wait for the writer, in order, so that they share one
// transaction. It needs a bubble.
func together(t *testing.T, s *Store, calls ...func()) {
	t.Helper()
	release := hold(t, s)
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
		synctest.Wait()
	}
	release()
	all.Wait()
}

// set writes key within a transaction, and then does more.
func (s *Store) set(ctx context.Context, key string, more func(*batch) error) error {
	_, err := s.write(ctx, "set", func(b *batch) ([]byte, error) {
		if err := b.set(key, newEntry([]byte("value"), time.Time{})); err != nil {
			return nil, err
		}
		return []byte("a result"), more(b)
	})
	return err
}

// TestGroupCommit queues writes behind a busy writer: they share one transaction,
// and each gets its own result. A statement that fails, fails alone. If COMMIT
// fails, here by a constraint that is checked no earlier, all fail.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, fails, others string }{
		"sound":     {"SELECT 1", "", ""},
		"statement": {"INSERT INTO nowhere VALUES (1)", "no such table: nowhere", ""},
		"commit":    {"INSERT INTO child VALUES (1)", "commit: ", "commit: "},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
				s.execute(t, "PRAGMA foreign_keys = ON", "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
					"CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
				storetest.Put(t, s, "kept", "old")
				storetest.Put(t, s, "taken", "old")
				batches := make(map[*batch]bool)
				result := func(what string, err error, fails string, want error) {
					if fails != "" {
						wantFailure(t, what, err, fails)
					} else {
						wantError(t, what, err, want)
					}
				}
				joins := func() {
					result("set", s.set(t.Context(), "joined", func(b *batch) error { batches[b] = true; return nil }), c.others, nil)
				}
				together(t, s, joins,
					func() { result("put", s.Put(t.Context(), "kept", []byte("new"), time.Time{}), c.others, nil) },
					func() {
						result("statement", s.set(t.Context(), "statement", func(b *batch) error {
							_, err := b.tx.Exec(c.statement)
							return err
						}), c.fails, nil)
					},
					func() {
						result("create", s.Swap(t.Context(), "created", nil, []byte("new"), time.Time{}), c.others, nil)
					},
					func() {
						result("swap", s.Swap(t.Context(), "kept", []byte("other"), nil, time.Time{}), c.others, store.ErrConflict)
					},
					func() {
						value, err := s.Take(t.Context(), "taken")
						if result("take", err, c.others, nil); err == nil && string(value) != "old" {
							t.Errorf("took %q, want old", value)
						}
					},
					func() {
						_, err := s.Take(t.Context(), "nothing")
						result("take of nothing", err, c.others, store.ErrNotFound)
					}, joins)
				if c.fails == "" && len(batches) != 1 {
					t.Errorf("the writes took %d transactions, want 1", len(batches))
				}
				if c.fails != "" {
					storetest.WantNone(t, s, "statement")
				}
				if c.others == "" {
					storetest.WantValue(t, s, "kept", "new")
					storetest.WantValue(t, s, "created", "new")
					storetest.WantNone(t, s, "taken")
				} else {
					storetest.WantValue(t, s, "kept", "old")
					storetest.WantNone(t, s, "created")
					storetest.WantValue(t, s, "taken", "old")
				}
				storetest.Put(t, s, "kept", "newer") // the store works on
				storetest.WantValue(t, s, "kept", "newer")
			})
		})
	}
}

// TestTimePassesWithinATransaction lets an entry expire after a transaction has
// begun and before a write joins it.
func TestTimePassesWithinATransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		storetest.Put(t, s, "key", "old", time.Now().Add(time.Second))
		release := hold(t, s)
		time.Sleep(time.Second) // moves the clock of the bubble
		var all sync.WaitGroup
		all.Go(func() {
			wantError(t, "Swap of an expired entry", s.Swap(t.Context(), "key", nil, []byte("new"), time.Time{}), nil)
		})
		synctest.Wait()
		release()
		all.Wait()
		storetest.WantValue(t, s, "key", "new")
	})
}

// TestDiskRefusesWrites has SQLite find the disk full, or the file read-only.
func TestDiskRefusesWrites(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct{ refuse, relent string }{
		"database or disk is full": {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"},
		"readonly database":        {"PRAGMA query_only = ON", "PRAGMA query_only = OFF"},
	} {
		s := openTest(t, Options{})
		big := make([]byte, 100_000)
		storetest.Put(t, s, "key", "old")
		s.execute(t, test.refuse)
		wantFailure(t, want, s.Put(t.Context(), "key", big, time.Time{}), "put in "+s.db.path, want)
		wantFailure(t, want, s.Swap(t.Context(), "other", nil, big, time.Time{}), "swap in "+s.db.path, want)
		storetest.WantValue(t, s, "key", "old")
		storetest.WantNone(t, s, "other")
		s.execute(t, test.relent)
		storetest.Put(t, s, "key", string(big))
		storetest.WantValue(t, s, "key", string(big))
	}
}

// TestWaitingEndsWithTheContext gives up on a busy writer before it has taken the
// write: the write is not carried out.
func TestWaitingEndsWithTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		storetest.Put(t, s, "key", "old")
		release := hold(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, "Put behind a busy writer", s.Put(ctx, "key", []byte("new"), time.Time{}), context.DeadlineExceeded)
		release()
		storetest.WantValue(t, s, "key", "old")

		late := &write{ctx: ctx, done: make(chan struct{}), do: func(*batch) ([]byte, error) {
			t.Error("a write whose context has ended is carried out")
			return nil, nil
		}}
		s.writer.writes <- late
		<-late.done
		wantError(t, "a write whose context has ended", late.err, context.DeadlineExceeded)
	})
}

// TestSlicesAreTheCallersOnceItLeaves gives up on a Swap that the writer has in
// hand, and reuses the slices: the Swap goes by what they held.
func TestSlicesAreTheCallersOnceItLeaves(t *testing.T) {
	t.Parallel()
	reached, proceed := make(chan struct{}), make(chan struct{})
	var stop atomic.Bool
	s := openTest(t, Options{Now: func() time.Time {
		if stop.CompareAndSwap(true, false) { // the writer looks at the clock before it acts
			close(reached)
			<-proceed
		}
		return time.Now()
	}})
	storetest.Put(t, s, "key", "old")

	old, value := []byte("old"), []byte("new")
	ctx, cancel := context.WithCancel(t.Context())
	stop.Store(true)
	var leaving sync.WaitGroup
	leaving.Go(func() {
		wantError(t, "Swap", s.Swap(ctx, "key", old, value, time.Time{}), context.Canceled)
		clear(old) // the caller's again
		clear(value)
	})
	<-reached
	cancel()
	leaving.Wait()
	close(proceed)
	storetest.Put(t, s, "other", "value") // comes after the Swap
	storetest.WantValue(t, s, "key", "new")
}

// TestCloseReleasesThoseWhoWait closes the store over a queue of writes.
func TestCloseReleasesThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Store, _ *logtest.Buffer) {
		release := hold(t, s)
		var waiting, closing sync.WaitGroup
		for range 10 {
			waiting.Go(func() { wantError(t, "Put", s.Put(t.Context(), "key", nil, time.Time{}), errClosed) })
		}
		synctest.Wait()
		closing.Go(func() { wantError(t, "Close", s.Close(), nil) })
		waiting.Wait() // without waiting for the writer
		release()
		closing.Wait()
	})
}

// TestOtherProgramsWrite has another program write to an open database, as a
// restore does: from the next write on, the cache does not hide it.
func TestOtherProgramsWrite(t *testing.T) {
	t.Parallel()
	log := &logtest.Buffer{}
	path := filepath.Join(t.TempDir(), "test.db")
	s := openTest(t, Options{Path: path, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	storetest.Put(t, s, "changed", "ours")
	storetest.Put(t, s, "deleted", "ours")
	storetest.WantNone(t, s, "created")
	storetest.Put(t, s, "other", "value")
	if log.String() != "" {
		t.Fatalf("before another program has written, the log has %s", log)
	}
	execute(t, path, "UPDATE entries SET value = X'31' WHERE key = CAST('changed' AS BLOB)",
		"DELETE FROM entries WHERE key = CAST('deleted' AS BLOB)",
		"INSERT INTO entries VALUES (CAST('created' AS BLOB), 0, X'32')")
	storetest.Put(t, s, "other", "newer value")
	storetest.WantValue(t, s, "changed", "1")
	storetest.WantNone(t, s, "deleted")
	storetest.WantValue(t, s, "created", "2")
	storetest.WantValue(t, s, "other", "newer value")
	storetest.Put(t, s, "other", "newest value")
	const message = "another program has written to the database of the running gateway; " +
		"the gateway continues with the changed data"
	if got := log.Records(t, message); len(got) != 1 {
		t.Errorf("the log says it %d times, want once: %s", len(got), log)
	}
}
