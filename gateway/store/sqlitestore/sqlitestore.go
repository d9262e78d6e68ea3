// Package sqlitestore keeps the gateway's entries in one SQLite file, so that
// a single gateway remembers its logins and revocations across restarts.
//
// A write is acknowledged after it was committed to the write-ahead log and
// the log was synchronised to the disk (journal_mode WAL, synchronous FULL):
// neither kill -9 nor a power failure undoes it, as far as the disk keeps its
// word. One goroutine writes, and puts whatever waits for it into one
// transaction, so that many writers share the price of one fsync. Reads come
// from a cache in memory that knows both entries and absent keys; only a key
// that the cache does not know reads the file, without waiting for writers.
//
// # Limits and threats
//
// The cache makes this process the only one that may write. A lock beside
// the file (PATH.lock) keeps a second gateway out where the system has flock;
// reading with other tools is harmless. What they write is found out at the next
// write, at a Ping, or within a minute; until then the cache hides it. The file
// and its companions are readable by their owner alone. They are not
// encrypted: they hold what callers put there, which by the contract of
// package store is no usable credential.
//
// A damaged file, a foreign one, and one of a newer schema are refused by
// Open. A full disk or a failing one turns writes, and reads that need the
// disk, into errors; what is cached is still served, because it is still
// true. So does a file that was deleted or replaced under the running gateway:
// each group of writes looks whether the paths still lead to the open files,
// before it begins and before it is acknowledged.
//
// The file PATH-reserve holds space that is given back to a full disk when a
// write that ends something, such as a logout, finds no room. Until the file can
// be made again the store refuses all other writes, so that logins do not use
// that space up.
package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/store"
)

// defaultCacheEntries is what Options.CacheEntries of zero means.
const defaultCacheEntries = 65536

// Options say where the entries are and how the store does its work.
type Options struct {
	// Path names the database file. It is created with mode 0600 if it is
	// missing; its directory must exist. Beside it appear PATH-wal, PATH-shm,
	// PATH-reserve and PATH.lock.
	Path string
	// Now tells the time that entries expire by; nil means time.Now.
	Now func() time.Time
	// CacheEntries is about how many entries the cache holds, and also how
	// many absent keys; 0 means 65536. Values of any size count as one.
	CacheEntries int
	// Logger receives what goes wrong in the background; nil discards it.
	Logger *slog.Logger
}

// Store is a store.Store, a store.Counter and a store.Pinger on one file.
type Store struct {
	now    func() time.Time
	logger *slog.Logger
	db     *database
	cache  *cache
	writer *writer
	get    *sql.Stmt // on db.reader

	closed     atomic.Bool
	stopSweep  context.CancelFunc
	background sync.WaitGroup
}

// Open opens the store at o.Path, which must not be open anywhere else.
// The context bounds the opening alone. Open reads the whole file once to see
// that it is undamaged.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open %s: %w", o.Path, err)
	}
	return s, nil
}

func open(ctx context.Context, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CacheEntries == 0 {
		o.CacheEntries = defaultCacheEntries
	}
	if o.CacheEntries < 0 {
		return nil, fmt.Errorf("a cache of %d entries: want more than 0, or 0 for %d", o.CacheEntries, defaultCacheEntries)
	}
	db, err := openDatabase(ctx, o.Path, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &Store{now: o.Now, logger: o.Logger, db: db}
	if err := s.prepare(ctx, o.CacheEntries); err != nil {
		return nil, errors.Join(err, db.close())
	}
	s.start()
	return s, nil
}

func (s *Store) prepare(ctx context.Context, cacheEntries int) (err error) {
	if s.cache, err = newCache(cacheEntries); err != nil {
		return err
	}
	if s.get, err = s.db.reader.PrepareContext(ctx, selectEntry); err != nil {
		return err
	}
	s.writer, err = newWriter(ctx, s.db, s.cache, s.now, s.logger)
	return err
}

func (s *Store) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSweep = cancel
	s.background.Go(s.writer.run)
	s.background.Go(func() { s.sweepUntilDone(ctx) })
}

// Get implements store.Store. A key that was asked for or written lately is
// answered from memory.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.failed("get", err)
	}
	now := s.now().UnixNano()
	e, known, version := s.cache.lookup(key, now)
	if !known {
		fresh, err := readEntry(ctx, s.get, key)
		if err == nil {
			err = s.db.files.check() // the connection may be a new one, to another file
		}
		if err != nil {
			return nil, s.failed("get", err)
		}
		e = s.cache.fill(key, fresh, now, version)
	}
	if !e.live(now) {
		return nil, store.ErrNotFound
	}
	return e.value, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	e := newEntry(value, expires)
	_, err := s.submit(ctx, "put", &write{
		ends: store.IsEnding(ctx), expires: e.expires, size: len(key) + len(value),
		do: func(b *batch) ([]byte, error) { return nil, b.set(key, e) },
	})
	return err
}

// Swap implements store.Store.
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	e := newEntry(value, expires)
	old = bytes.Clone(old) // the writer may get to it after the caller has left
	_, err := s.submit(ctx, "swap", &write{
		ends: store.IsEnding(ctx), expires: e.expires, size: len(key) + len(value),
		do: func(b *batch) ([]byte, error) {
			current, err := b.live(key) // nil when there is none
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if (current == nil) != (old == nil) || !bytes.Equal(current, old) {
				return nil, store.ErrConflict
			}
			return nil, b.set(key, e)
		},
	})
	return err
}

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, key string) ([]byte, error) {
	return s.submit(ctx, "take", &write{ends: true, do: func(b *batch) ([]byte, error) {
		value, err := b.live(key)
		if err != nil {
			return nil, err
		}
		return value, b.remove(key)
	}})
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.submit(ctx, "delete", &write{ends: true, do: func(b *batch) ([]byte, error) { return nil, b.remove(key) }})
	return err
}

// Close lets writes that are being committed finish, and fails those that still
// wait. Later calls of the other methods fail. Close may be called twice.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stopSweep()
	close(s.writer.quit)
	s.background.Wait()
	if err := s.db.close(); err != nil {
		return s.failed("close", err)
	}
	return nil
}

// write lets the writer do a change that does not use the reserve.
func (s *Store) write(ctx context.Context, operation string, do func(*batch) ([]byte, error)) ([]byte, error) {
	return s.submit(ctx, operation, &write{do: do})
}

// submit hands a change to the writer. Its errors are store.ErrNotFound and
// store.ErrConflict as they are, and any other with the operation and file.
func (s *Store) submit(ctx context.Context, operation string, change *write) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.failed(operation, err)
	}
	value, err := s.writer.do(ctx, change)
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		return nil, err
	default:
		return nil, s.failed(operation, err)
	}
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

func (s *Store) failed(operation string, err error) error {
	return fmt.Errorf("sqlitestore: %s in %s: %w", operation, s.db.path, err)
}

// newEntry copies value, which stays its caller's.
func newEntry(value []byte, expires time.Time) entry {
	return entry{value: append([]byte{}, value...), expires: unixNano(expires)}
}
