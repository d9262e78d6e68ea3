package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"authgate/gateway/store"
)

// maxBatch bounds the writes of one transaction, and so how long the first
// of them waits for the last.
const maxBatch = 256

var errClosed = errors.New("the store is closed")

// write is one change on its way through the writer. The fields value and
// err are the writer's until done is closed, and then the caller's.
type write struct {
	ctx   context.Context
	do    func(*batch) ([]byte, error)
	value []byte
	err   error
	done  chan struct{}
}

// writer is the one goroutine that changes the database. Changes that arrive
// while a transaction is being committed wait together and share the next
// one: one fsync acknowledges many of them.
type writer struct {
	db     *sql.DB
	now    func() time.Time
	cache  *cache
	writes chan *write   // unbuffered: what was handed over is answered
	quit   chan struct{} // closed to stop
	ended  chan struct{} // closed by the writer when it has stopped

	get, set, remove, sweep, probe *sql.Stmt
}

// newWriter prepares a writer on db. Its caller starts run.
func newWriter(ctx context.Context, db *sql.DB, c *cache, now func() time.Time) (*writer, error) {
	w := &writer{
		db:     db,
		now:    now,
		cache:  c,
		writes: make(chan *write),
		quit:   make(chan struct{}),
		ended:  make(chan struct{}),
	}
	for statement, query := range map[**sql.Stmt]string{
		&w.get:    selectEntry,
		&w.set:    upsertEntry,
		&w.remove: deleteEntry,
		&w.sweep:  deleteExpired,
		&w.probe:  upsertProbe,
	} {
		prepared, err := db.PrepareContext(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", query, err)
		}
		*statement = prepared
	}
	return w, nil
}

const (
	selectEntry = `SELECT expires, value FROM entries WHERE key = ?`
	upsertEntry = `INSERT INTO entries (key, expires, value) VALUES (?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET expires = excluded.expires, value = excluded.value`
	deleteEntry   = `DELETE FROM entries WHERE key = ?`
	deleteExpired = `DELETE FROM entries WHERE key IN
		(SELECT key FROM entries WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?) RETURNING key`
	upsertProbe = `INSERT INTO probe (id, at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at`
)

// do hands a change to the writer and waits for its result. An error other
// than store.ErrNotFound and store.ErrConflict leaves the outcome open.
func (w *writer) do(ctx context.Context, do func(*batch) ([]byte, error)) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	mine := &write{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case w.writes <- mine:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.quit:
		return nil, errClosed
	}
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run serves writes until stop is called.
func (w *writer) run() {
	defer close(w.ended)
	writes := make([]*write, 0, maxBatch)
	for {
		select {
		case <-w.quit:
			return
		case first := <-w.writes:
			// Those who write at the same moment get here by this pause; it
			// halves the commits of a login, which writes several entries.
			runtime.Gosched()
			writes = w.collect(append(writes[:0], first))
			w.answer(writes)
			clear(writes)
		}
	}
}

// stop ends run once the batch at hand is answered. It is called once.
func (w *writer) stop() {
	close(w.quit)
	<-w.ended
}

// collect adds the writes that are waiting by now.
func (w *writer) collect(writes []*write) []*write {
	for len(writes) < maxBatch {
		select {
		case next := <-w.writes:
			writes = append(writes, next)
		default:
			return writes
		}
	}
	return writes
}

// answer carries out writes in one transaction and lets their callers go.
// When a statement fails, each write gets a transaction of its own instead,
// so that one that cannot be done does not take others with it.
func (w *writer) answer(writes []*write) {
	err := w.commit(writes)
	if errors.Is(err, errStatement) && len(writes) > 1 {
		for i := range writes {
			w.answer(writes[i : i+1])
		}
		return
	}
	for _, one := range writes {
		if err != nil {
			one.value, one.err = nil, err
		}
		close(one.done)
	}
}

// errStatement marks the failure of a statement, as opposed to that of the
// transaction around it.
var errStatement = errors.New("statement failed")

// commit carries out writes in one transaction. It returns nil when their
// results stand and are in the cache.
func (w *writer) commit(writes []*write) error {
	// Nobody's context: the transaction belongs to all of its writes.
	ctx := context.Background()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	b := &batch{writer: w, tx: tx, now: w.now().UnixNano(), changes: make(map[string]entry, len(writes))}
	for _, one := range writes {
		if one.err = one.ctx.Err(); one.err != nil {
			continue // its caller has left
		}
		one.value, one.err = one.do(b)
		if one.err != nil && !errors.Is(one.err, store.ErrNotFound) && !errors.Is(one.err, store.ErrConflict) {
			return fmt.Errorf("%w: %w", errStatement, errors.Join(one.err, tx.Rollback()))
		}
	}
	w.cache.begin(b.changes)
	err = tx.Commit()
	w.cache.finish(b.changes, err == nil)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// batch is a transaction at work.
type batch struct {
	writer  *writer
	tx      *sql.Tx
	now     int64            // Unix time in nanoseconds
	changes map[string]entry // what the transaction leaves behind
}

// live returns the live value of key, or store.ErrNotFound.
func (b *batch) live(key string) ([]byte, error) {
	e, err := readEntry(context.Background(), b.tx.Stmt(b.writer.get), key)
	if err != nil {
		return nil, err
	}
	if !e.live(b.now) {
		return nil, store.ErrNotFound
	}
	return e.value, nil
}

// set stores e under key, or removes the key if e has already expired.
func (b *batch) set(key string, e entry) error {
	if !e.live(b.now) {
		return b.remove(key)
	}
	_, err := b.tx.Stmt(b.writer.set).Exec([]byte(key), e.expires, e.value)
	b.changes[key] = e
	return err
}

func (b *batch) remove(key string) error {
	_, err := b.tx.Stmt(b.writer.remove).Exec([]byte(key))
	b.changes[key] = entry{}
	return err
}

// sweep removes up to limit expired entries and returns how many there were.
func (b *batch) sweep(limit int) (int, error) {
	rows, err := b.tx.Stmt(b.writer.sweep).Query(b.now, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	swept := 0
	for ; rows.Next(); swept++ {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return 0, err
		}
		b.changes[string(key)] = entry{}
	}
	return swept, rows.Err()
}

// probe writes something that leaves the entries alone.
func (b *batch) probe() error {
	_, err := b.tx.Stmt(b.writer.probe).Exec(b.now)
	return err
}

// readEntry returns what the database holds under key, dead or alive, and
// the zero entry if that is nothing.
func readEntry(ctx context.Context, get *sql.Stmt, key string) (entry, error) {
	var e entry
	err := get.QueryRowContext(ctx, []byte(key)).Scan(&e.expires, &e.value)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return entry{}, nil
	case err != nil:
		return entry{}, err
	case e.value == nil:
		e.value = []byte{} // the driver returns an empty blob as nil
	}
	return e, nil
}
