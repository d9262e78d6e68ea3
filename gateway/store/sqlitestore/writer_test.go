package sqlitestore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
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

// TestGroupCommit queues writes behind a busy writer: they share one
// transaction, and each gets its own result.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const company = 50
		s := openTest(t, Options{})
		put(t, s, "taken", "value")
		release := hold(t, s)

		batches := make(map[*batch]int)
		var all sync.WaitGroup
		for i := range company {
			all.Go(func() {
				_, err := s.write(t.Context(), "join", func(b *batch) ([]byte, error) {
					batches[b]++
					return nil, b.set(fmt.Sprintf("key %d", i), newEntry([]byte("value"), time.Time{}))
				})
				if err != nil {
					t.Errorf("write %d: %v", i, err)
				}
			})
		}
		all.Go(func() {
			if err := s.Swap(t.Context(), "taken", []byte("other"), nil, time.Time{}); !errors.Is(err, store.ErrConflict) {
				t.Errorf("Swap in company: %v, want ErrConflict", err)
			}
		})
		all.Go(func() {
			if _, err := s.Take(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Take in company: %v, want ErrNotFound", err)
			}
		})
		all.Go(func() {
			if value, err := s.Take(t.Context(), "taken"); err != nil || string(value) != "value" {
				t.Errorf("Take in company = %q, %v", value, err)
			}
		})
		synctest.Wait() // all of them are waiting for the writer
		release()
		all.Wait()

		if len(batches) != 1 {
			t.Errorf("%d writes took %d transactions, want 1", company, len(batches))
		}
		for i := range company {
			wantValue(t, s, fmt.Sprintf("key %d", i), "value")
		}
	})
}

// TestFailedStatementFailsAlone puts a write that cannot be done between
// others.
func TestFailedStatementFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		release := hold(t, s)
		var all sync.WaitGroup
		for _, key := range []string{"before", "nonsense", "after"} {
			all.Go(func() {
				_, err := s.write(t.Context(), "set", func(b *batch) ([]byte, error) {
					if err := b.set(key, newEntry([]byte("value"), time.Time{})); err != nil || key != "nonsense" {
						return nil, err
					}
					_, err := b.tx.Exec("INSERT INTO nowhere VALUES (1)")
					return []byte("no result"), err
				})
				if failed := err != nil && strings.Contains(err.Error(), "no such table: nowhere"); failed != (key == "nonsense") {
					t.Errorf("%s: error %v", key, err)
				}
			})
			synctest.Wait() // it is in the queue, behind the one before it
		}
		release()
		all.Wait()
		wantValue(t, s, "before", "value")
		wantAbsent(t, s, "nonsense")
		wantValue(t, s, "after", "value")
	})
}

// TestTimePassesWithinATransaction lets an entry expire after a transaction
// has begun and before a write joins it.
func TestTimePassesWithinATransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		if err := s.Put(t.Context(), "key", []byte("old"), time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		release := hold(t, s)
		time.Sleep(time.Second) // moves the clock of the bubble
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Swap(t.Context(), "key", nil, []byte("new"), time.Time{}); err != nil {
				t.Errorf("Swap of an expired entry: %v", err)
			}
		})
		synctest.Wait()
		release()
		all.Wait()
		wantValue(t, s, "key", "new")
	})
}

// TestFailedCommitFailsAll makes COMMIT itself fail by a constraint that is
// checked no earlier.
func TestFailedCommitFailsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		put(t, s, "kept", "old")
		put(t, s, "taken", "old")
		for _, statement := range []string{
			"PRAGMA foreign_keys = ON",
			"CREATE TABLE parent (id INTEGER PRIMARY KEY)",
			"CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
		} {
			if _, err := s.db.writer.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		release := hold(t, s)
		var all sync.WaitGroup
		for name, call := range map[string]func() error{
			"orphan": func() error {
				_, err := s.write(t.Context(), "orphan", func(b *batch) ([]byte, error) {
					_, err := b.tx.Exec("INSERT INTO child VALUES (1)")
					return nil, err
				})
				return err
			},
			"Put":  func() error { return s.Put(t.Context(), "kept", []byte("new"), time.Time{}) },
			"Swap": func() error { return s.Swap(t.Context(), "created", nil, []byte("new"), time.Time{}) },
			"Take": func() error { _, err := s.Take(t.Context(), "taken"); return err },
			"lost": func() error { _, err := s.Take(t.Context(), "nothing"); return err },
		} {
			all.Go(func() {
				if err := call(); err == nil || !strings.Contains(err.Error(), "commit: ") || errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: error %v, want that of the commit", name, err)
				}
			})
		}
		synctest.Wait()
		release()
		all.Wait()

		wantValue(t, s, "kept", "old")
		wantValue(t, s, "taken", "old")
		wantAbsent(t, s, "created")
		put(t, s, "kept", "newer") // the store works on
		wantValue(t, s, "kept", "newer")
	})
}

// TestDiskRefusesWrites has SQLite find the disk full, or the file read-only.
func TestDiskRefusesWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ refuse, relent, want string }{
		"full":      {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", "database or disk is full"},
		"read-only": {"PRAGMA query_only = ON", "PRAGMA query_only = OFF", "readonly database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, Options{})
			big := make([]byte, 100_000)
			put(t, s, "key", "old")
			if _, err := s.db.writer.Exec(test.refuse); err != nil {
				t.Fatal(err)
			}
			for operation, err := range map[string]error{
				"put":  s.Put(t.Context(), "key", big, time.Time{}),
				"swap": s.Swap(t.Context(), "other", nil, big, time.Time{}),
			} {
				if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
					t.Fatalf("%s: error %v, want that of the disk", operation, err)
				}
				for _, part := range []string{operation + " in " + s.db.path, test.want} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error %q does not say %q", err, part)
					}
				}
			}
			wantValue(t, s, "key", "old")
			wantAbsent(t, s, "other")

			if _, err := s.db.writer.Exec(test.relent); err != nil {
				t.Fatal(err)
			}
			put(t, s, "key", string(big))
			wantValue(t, s, "key", string(big))
		})
	}
}

// TestWaitingEndsWithTheContext gives up on a busy writer, before and after
// it has taken the write.
func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		put(t, s, "key", "old")
		release := hold(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Put(ctx, "key", []byte("new"), time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put behind a busy writer: %v, want the deadline", err)
		}
		release()
		wantValue(t, s, "key", "old") // it was never handed over

		taken, released := make(chan struct{}), make(chan struct{})
		ctx, cancel = context.WithCancel(t.Context())
		var leaving sync.WaitGroup
		leaving.Go(func() {
			_, err := s.write(ctx, "slow", func(b *batch) ([]byte, error) {
				close(taken)
				<-released
				return nil, b.set("key", newEntry([]byte("slow"), time.Time{}))
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("slow write: %v, want that it was given up", err)
			}
		})
		<-taken
		cancel()
		leaving.Wait()
		close(released)
		put(t, s, "other", "value") // comes after the slow one
		wantValue(t, s, "key", "slow")
	})
}

// TestSlicesAreTheCallersOnceItLeaves gives up on a Swap that the writer has
// in hand, and reuses the slices: the Swap goes by what they held.
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
	put(t, s, "key", "old")

	old, value := []byte("old"), []byte("new")
	ctx, cancel := context.WithCancel(t.Context())
	stop.Store(true)
	var leaving sync.WaitGroup
	leaving.Go(func() {
		if err := s.Swap(ctx, "key", old, value, time.Time{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Swap: %v, want that it was given up", err)
		}
		clear(old) // the caller's again
		clear(value)
	})
	<-reached
	cancel()
	leaving.Wait()
	close(proceed)
	put(t, s, "other", "value") // comes after the Swap
	wantValue(t, s, "key", "new")
}

// TestWritesGivenUpInTheQueue hands the writer a write whose context has
// ended: it is not carried out.
func TestWritesGivenUpInTheQueue(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := &write{ctx: ctx, done: make(chan struct{}), do: func(b *batch) ([]byte, error) {
		return nil, b.set("late", newEntry([]byte("value"), time.Time{}))
	}}
	s.writer.writes <- late
	<-late.done
	if !errors.Is(late.err, context.Canceled) {
		t.Errorf("error %v, want that the context has ended", late.err)
	}
	wantAbsent(t, s, "late")
}

// TestCloseReleasesThoseWhoWait closes the store over a queue of writes.
func TestCloseReleasesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, Options{})
		release := hold(t, s)
		var waiting, closing sync.WaitGroup
		for i := range 10 {
			waiting.Go(func() {
				err := s.Put(t.Context(), fmt.Sprintf("key %d", i), nil, time.Time{})
				if !errors.Is(err, errClosed) {
					t.Errorf("Put %d: %v, want that the store is closed", i, err)
				}
			})
		}
		synctest.Wait()
		closing.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		waiting.Wait() // without waiting for the writer
		release()
		closing.Wait()
	})
}

// TestOtherProgramsWrite has another program write to an open database, as a
// restore does: from the next write on, the cache does not hide it.
func TestOtherProgramsWrite(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "test.db")
	s := openTest(t, Options{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	put(t, s, "changed", "ours")
	put(t, s, "deleted", "ours")
	wantAbsent(t, s, "created")
	put(t, s, "other", "value")
	if log.Len() > 0 {
		t.Fatalf("before another program has written, the log has %s", &log)
	}
	execute(t, path, "UPDATE entries SET value = X'31' WHERE key = X'"+hex.EncodeToString([]byte("changed"))+"'",
		"DELETE FROM entries WHERE key = X'"+hex.EncodeToString([]byte("deleted"))+"'",
		"INSERT INTO entries VALUES (X'"+hex.EncodeToString([]byte("created"))+"', 0, X'32')")
	put(t, s, "other", "newer value")
	wantValue(t, s, "changed", "1")
	wantAbsent(t, s, "deleted")
	wantValue(t, s, "created", "2")
	wantValue(t, s, "other", "newer value")
	put(t, s, "other", "newest value")
	if got := strings.Count(log.String(), "another program has written"); got != 1 {
		t.Errorf("the log says it %d times, want once: %s", got, &log)
	}
}
