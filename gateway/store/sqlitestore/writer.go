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

// maxBatch bounds the writes of one transaction, and so how long the first waits
// for the last.
const maxBatch = 256

var errClosed = errors.New("the store is closed")

// write is one change for the writer. The writer sets value and err before it
// closes done.
type write struct {
	ctx     context.Context
	do      func(*batch) ([]byte, error)
	ends    bool  // it removes an entry or is marked by store.Ending, so it may use the reserve
	probe   bool  // it comes from Ping
	large   bool  // it is a probe that writes as much as a login
	expires int64 // of the entry that it stores, or never
	size    int   // of key and value, in bytes
	value   []byte
	err     error
	done    chan struct{}
}

// writer is the one goroutine that changes the database. Changes that arrive
// during a transaction join it, and those that arrive during its commit share
// the next, so that many changes share one fsync.
type writer struct {
	db     *sql.DB
	files  *openFiles
	room   *room
	now    func() time.Time
	cache  *cache
	writes chan *write   // unbuffered: the writer answers each write that it receives
	quit   chan struct{} // closed to end run

	filling byte // the content of the last probe

	logger  *slog.Logger
	version int64 // of the database, which changes when another program commits

	get, set, remove, sweep, probe, read *sql.Stmt
}

// newWriter returns a writer on db. The caller must start run.
func newWriter(
	ctx context.Context, db *database, c *cache, now func() time.Time, logger *slog.Logger,
) (*writer, error) {
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

// do passes a change to the writer and waits for its result. After an error other
// than store.ErrNotFound and store.ErrConflict the outcome is unknown.
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

// run serves writes until quit is closed, and answers every write that it received.
func (w *writer) run() {
	for {
		select {
		case <-w.quit:
			return
		case first := <-w.writes:
			w.writeTogether(first)
		}
	}
}

// writeTogether carries out first, and the writes that arrive before the
// commit, in one transaction, and answers them. If a statement fails, each
// write gets its own transaction instead, so that one write does not fail the
// others.
func (w *writer) writeTogether(first *write) {
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

// answer ends the wait of the callers, with err if it is not nil, and otherwise
// with the result of each write.
func answer(writes []*write, err error) {
	for _, one := range writes {
		if err != nil {
			one.value, one.err = nil, err
		}
		close(one.done)
	}
}

// errStatement marks the failure of a statement, not of the transaction itself.
var errStatement = errors.New("statement failed")

// transact carries out writes, and further writes that arrive meanwhile, up to
// limit, in one transaction. It returns all of them. A nil error means that they
// are committed and in the cache.
func (w *writer) transact(writes []*write, limit int) ([]*write, error) {
	if err := w.files.checkPaths(); err != nil {
		return writes, err
	}
	// No caller's context: the transaction belongs to all of its writes.
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
	w.cache.beginCommit(b.changes)
	err = tx.Commit()
	w.cache.finish(b.changes, err == nil)
	if err != nil {
		return writes, fmt.Errorf("commit: %w", err)
	}
	return writes, w.files.checkPaths() // a commit to a deleted file must not succeed
}

// noticeOthers empties the cache if another program, such as one that restores a
// backup, has committed to the database since the last transaction.
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
		"another program has written to the database of the running gateway; "+
			"the gateway continues with the changed data")
	return nil
}

// appendWaiting adds the next waiting write to writes, if there is one.
func (w *writer) appendWaiting(writes []*write) []*write {
	select {
	case next := <-w.writes:
		return append(writes, next)
	default:
		return writes
	}
}

// batch is a transaction in progress.
type batch struct {
	writer  *writer
	tx      *sql.Tx
	now     int64            // Unix time in nanoseconds, read for each write
	changes map[string]entry // the entries after the transaction
}

// carryOut does one write and stores the result in it. It returns an error if
// the transaction must be rolled back.
func (b *batch) carryOut(one *write) error {
	if one.err = one.ctx.Err(); one.err != nil {
		return nil // its caller has left
	}
	b.now = b.writer.now().UnixNano()
	one.ends = one.ends || one.expires != never && one.expires <= b.now // a value that has expired removes the entry
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

// live returns the live value of key, or store.ErrNotFound. It asks the database only for a value
// that is not in memory: nothing else changes the database while the transaction runs.
func (b *batch) live(key string) ([]byte, error) {
	e, known := b.changes[key]
	if !known {
		e, known, _ = b.writer.cache.lookup(key, b.now)
	}
	if !known {
		var err error
		if e, err = readEntry(context.Background(), b.tx.Stmt(b.writer.get), key); err != nil {
			return nil, err
		}
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
	b.changes[key] = e
	_, err := b.tx.Stmt(b.writer.set).Exec([]byte(key), e.expires, e.value)
	return err
}

func (b *batch) remove(key string) error {
	b.changes[key] = entry{}
	_, err := b.tx.Stmt(b.writer.remove).Exec([]byte(key))
	return err
}

// sweep removes up to limit expired entries and returns their number.
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

// probeKey is the key of the entry that a probe writes. The entry has expired.
const probeKey = "\x00probe"

// probe writes as much as a login does, in an entry that has expired. If a probe
// has just done so, it writes only a little. It reports which.
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
	// SQLite writes nothing if nothing changes.
	b.writer.filling++
	content := bytes.Repeat([]byte{b.writer.filling}, loginRoom+2*r.need)
	_, err = b.tx.Stmt(b.writer.set).Exec([]byte(probeKey), int64(math.MinInt64), content)
	return true, err
}

// readEntry returns the entry of key, which may have expired, or the zero entry
// if there is none.
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
