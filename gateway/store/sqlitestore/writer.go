package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	ctx     context.Context
	do      func(*batch) ([]byte, error)
	ends    bool  // it removes an entry or is marked by store.Ending: it may use the reserve
	probe   bool  // it comes from Ping
	large   bool  // it is a probe that writes as much as a login
	expires int64 // of the entry that it stores, or never
	size    int   // of key and value, in bytes
	value   []byte
	err     error
	done    chan struct{}
}

// writer is the one goroutine that changes the database. Changes that arrive
// while a transaction is under way join it, and those that arrive while it is
// being committed share the next: one fsync acknowledges many of them.
type writer struct {
	db     *sql.DB
	files  *openFiles
	room   *room
	now    func() time.Time
	cache  *cache
	writes chan *write   // unbuffered: what was handed over is answered
	quit   chan struct{} // closed to end run

	filling byte // what the last probe wrote

	logger  *slog.Logger
	version int64 // of the database, which changes when another program commits

	get, set, remove, sweep, probe, read *sql.Stmt
}

// newWriter prepares a writer on db. Its caller starts run.
func newWriter(ctx context.Context, db *database, c *cache, now func() time.Time, logger *slog.Logger) (*writer, error) {
	w := &writer{
		db:     db.writer,
		files:  db.files,
		room:   db.room,
		logger: logger,
		now:    now,
		cache:  c,
		writes: make(chan *write),
		quit:   make(chan struct{}),
	}
	for statement, query := range map[**sql.Stmt]string{
		&w.get:    selectEntry,
		&w.set:    upsertEntry,
		&w.remove: deleteEntry,
		&w.sweep:  deleteExpired,
		&w.probe:  upsertProbe,
		&w.read:   selectVersion,
	} {
		prepared, err := w.db.PrepareContext(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", query, err)
		}
		*statement = prepared
	}
	return w, w.read.QueryRowContext(ctx).Scan(&w.version)
}

const (
	selectEntry = `SELECT expires, value FROM entries WHERE key = ?`
	upsertEntry = `INSERT INTO entries (key, expires, value) VALUES (?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET expires = excluded.expires, value = excluded.value`
	deleteEntry   = `DELETE FROM entries WHERE key = ?`
	deleteExpired = `DELETE FROM entries WHERE key IN
		(SELECT key FROM entries WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?) RETURNING key`
	selectVersion = `SELECT data_version FROM pragma_data_version`
	upsertProbe   = `INSERT INTO probe (id, at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at`
)

// do hands a change to the writer and waits for its result. An error other
// than store.ErrNotFound and store.ErrConflict leaves the outcome open.
func (w *writer) do(ctx context.Context, mine *write) ([]byte, error) {
	mine.ctx, mine.done = ctx, make(chan struct{})
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

// run serves writes until quit is closed, and answers every write it took.
func (w *writer) run() {
	for {
		select {
		case <-w.quit:
			return
		case first := <-w.writes:
			w.serve(first)
		}
	}
}

// serve carries out first, and whatever arrives before that is committed, in
// one transaction, and lets the callers go. When a statement fails, each
// write gets a transaction of its own instead, so that one that cannot be
// done does not take others with it.
func (w *writer) serve(first *write) {
	w.room.restore()
	writes, err := w.transact([]*write{first}, maxBatch)
	switch {
	case err == nil:
		w.confirm(writes)
		answer(writes, nil)
	case noRoom(err):
		w.squeeze(writes, err)
	case errors.Is(err, errStatement) && len(writes) > 1:
		w.alone(writes)
	default:
		answer(writes, err)
	}
}

// alone carries out each write in a transaction of its own.
func (w *writer) alone(writes []*write) {
	for i := range writes {
		_, err := w.transact(writes[i:i+1], 1)
		if noRoom(err) {
			w.squeeze(writes[i:i+1], err)
			continue
		}
		answer(writes[i:i+1], err)
	}
}

// answer lets the callers of writes go, with err if that is not nil and
// otherwise with the result of each.
func answer(writes []*write, err error) {
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

// transact carries out writes, and adds to them what arrives meanwhile up to
// limit, in one transaction. It returns all of them, and nil when their
// results stand and are in the cache.
func (w *writer) transact(writes []*write, limit int) ([]*write, error) {
	if err := w.files.check(); err != nil {
		return writes, err
	}
	// Nobody's context: the transaction belongs to all of its writes.
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return writes, fmt.Errorf("begin: %w", err)
	}
	if err := w.noticeOthers(tx); err != nil {
		return writes, errors.Join(err, tx.Rollback())
	}
	b := &batch{writer: w, tx: tx, changes: make(map[string]entry)}
	for i := 0; i < len(writes); i++ {
		if err := b.carryOut(writes[i]); err != nil {
			return writes, fmt.Errorf("%w: %w", errStatement, errors.Join(err, tx.Rollback()))
		}
		if i == len(writes)-1 && len(writes) < limit {
			writes = w.appendWaiting(writes)
		}
	}
	w.cache.begin(b.changes)
	err = tx.Commit()
	w.cache.finish(b.changes, err == nil)
	if err != nil {
		return writes, fmt.Errorf("commit: %w", err)
	}
	return writes, w.files.check() // what was committed to a lost file is not acknowledged
}

// noticeOthers empties the cache if another program has committed to the database
// since the last transaction, as a restore into the running gateway does.
func (w *writer) noticeOthers(tx *sql.Tx) error {
	var version int64
	if err := tx.Stmt(w.read).QueryRow().Scan(&version); err != nil {
		return fmt.Errorf("read the version: %w", err)
	}
	if version == w.version {
		return nil
	}
	w.version = version
	w.cache.forget()
	w.logger.LogAttrs(context.Background(), slog.LevelError,
		"another program has written to the database of the running gateway; the gateway goes on with what is there now")
	return nil
}

// appendWaiting adds the next write to writes, if there is one.
func (w *writer) appendWaiting(writes []*write) []*write {
	select {
	case next := <-w.writes:
		return append(writes, next)
	default:
		return writes
	}
}

// batch is a transaction at work.
type batch struct {
	writer  *writer
	tx      *sql.Tx
	now     int64            // Unix time in nanoseconds, as of the write at hand
	changes map[string]entry // what the transaction leaves behind
}

// carryOut does one write and keeps its result in it. It returns an error if
// the transaction has come to nothing.
func (b *batch) carryOut(one *write) error {
	if one.err = one.ctx.Err(); one.err != nil {
		return nil // its caller has left
	}
	b.now = b.writer.now().UnixNano()
	one.ends = one.ends || one.expires != never && one.expires <= b.now // what has expired is removed
	if !one.ends && !b.writer.room.kept {
		one.err = b.writer.room.blocked()
		return nil
	}
	one.value, one.err = one.do(b)
	if errors.Is(one.err, store.ErrNotFound) || errors.Is(one.err, store.ErrConflict) || errors.Is(one.err, errNoRoom) {
		return nil // it has changed nothing
	}
	return one.err
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

// probeKey is the key of what a probe writes. It has always expired.
const probeKey = "\x00probe"

// probe writes as much as a login does, in an entry that has expired, or only a
// little where a probe has just done so. It reports which.
func (b *batch) probe() (large bool, err error) {
	if _, err := b.tx.Stmt(b.writer.probe).Exec(b.now); err != nil {
		return false, err
	}
	r := b.writer.room
	if r.short.Load() {
		if time.Since(r.refused) < roomEvery {
			return false, errNoRoom
		}
	} else if time.Since(r.filled) < roomEvery {
		return false, nil
	}
	// SQLite writes nothing where nothing changes.
	b.writer.filling++
	content := bytes.Repeat([]byte{b.writer.filling}, loginRoom+2*r.need)
	_, err = b.tx.Stmt(b.writer.set).Exec([]byte(probeKey), int64(math.MinInt64), content)
	return true, err
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
