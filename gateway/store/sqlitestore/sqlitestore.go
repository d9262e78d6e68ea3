// Package sqlitestore is a store in one SQLite file, for a single gateway that
// must remember its logins and revocations across restarts.
//
// A write returns after it was committed to the write-ahead log and the log was
// synchronised to the disk (journal_mode WAL, synchronous FULL). So neither kill
// -9 nor a power failure undoes it. One goroutine writes. It puts all waiting
// writes into one transaction, so that they share one fsync. Reads are answered
// from a cache in memory, which knows entries and absent keys. Only a key that
// is not in the cache is read from the file, without waiting for the writer.
//
// Expired entries are removed in short steps between other writes.
//
// # Limits and threats
//
// Because of the cache, only this process may write to the file. A lock
// (PATH.lock) keeps a second gateway out where the system has flock. Other
// programs may read. If one writes, the store notices at the next write, at a
// Ping, or within a minute; until then the cache hides the change.
//
// Only their owner can read the file and the files that SQLite keeps beside it.
// They are not encrypted: by the contract of package store they hold no usable
// credential.
//
// Open refuses a damaged file, a database of another program, and one of a newer
// schema. On a full or failing disk, writes and uncached reads fail; cached
// values, which are still true, are served. The same holds if a file was deleted
// or replaced while the gateway runs: before and after each transaction the
// store checks that the paths still lead to the open files.
//
// The file PATH-reserve keeps space free for writes that end something, such as
// a logout. When such a write finds the disk full, the store deletes the file.
// It then refuses all other writes until it can create the file again, so that
// logins do not use up the space.
package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/store"
)

// defaultCacheEntries is the size for Options.CacheEntries of zero.
const defaultCacheEntries = 65536

// Options configure a Store.
type Options struct {
	// Path is the database file. Open creates it with mode 0600 if it is
	// missing; its directory must exist. The store keeps PATH-wal, PATH-shm,
	// PATH-reserve and PATH.lock beside it.
	Path string
	// Now is the clock by which entries expire; nil means time.Now.
	Now func() time.Time
	// CacheEntries is about how many entries the cache holds, and how many
	// absent keys; 0 means 65536.
	CacheEntries int
	// Logger logs failures in the background; nil discards them.
	Logger *slog.Logger
}

// Store is a store.Store, a store.Applier and a store.Pinger on one file.
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

// Open opens the store at o.Path, which must not be open elsewhere. The context
// bounds the opening only. Open reads the whole file once to check that it is
// undamaged.
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
		return nil, fmt.Errorf("a cache of %d entries: want more than 0, or 0 for %d",
			o.CacheEntries, defaultCacheEntries)
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

// Get implements store.Store. A key that was read or written lately is answered
// from memory.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.failed("get", err)
	}
	now := s.now().UnixNano()
	e, known, version := s.cache.lookup(key, now)
	if !known {
		fresh, err := readEntry(ctx, s.get, key)
		if err == nil {
			err = s.db.files.checkPaths() // the connection may be a new one, to another file
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

// Recall implements store.Recaller.
func (s *Store) Recall(key string) (value []byte, known bool) {
	if s.closed.Load() {
		return nil, false
	}
	e, known, _ := s.cache.lookup(key, s.now().UnixNano()) // without a value if it has expired
	return e.value, known
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
	return s.apply(ctx, "swap", &write{ends: store.IsEnding(ctx), expires: unixNano(expires)},
		[]store.Change{{Key: key, Old: old, Edit: store.Edit{Value: value, Expires: expires}}})
}

// Applies implements store.Applier.
func (s *Store) Applies() bool { return true }

// Apply implements store.Applier.
func (s *Store) Apply(ctx context.Context, changes []store.Change) error {
	return s.apply(ctx, "apply", &write{ends: true}, slices.Clone(changes))
}

// apply makes changes by one write. It clones values: the writer may use them after the caller has left.
func (s *Store) apply(ctx context.Context, operation string, all *write, changes []store.Change) error {
	entries := make([]entry, len(changes))
	for i, c := range changes {
		changes[i].Old, entries[i] = bytes.Clone(c.Old), newEntry(c.Value, c.Expires)
		all.size += len(c.Key) + len(c.Value)
	}
	all.do = func(b *batch) ([]byte, error) {
		for _, c := range changes {
			if c.Any {
				continue
			}
			current, err := b.live(c.Key) // nil when there is none
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if (current == nil) != (c.Old == nil) || !bytes.Equal(current, c.Old) {
				return nil, store.ErrConflict
			}
		}
		for i, c := range changes {
			if err := b.set(c.Key, entries[i]); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	_, err := s.submit(ctx, operation, all)
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
	remove := func(b *batch) ([]byte, error) { return nil, b.remove(key) }
	_, err := s.submit(ctx, "delete", &write{ends: true, do: remove})
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

// write makes a change that must not use the reserve.
func (s *Store) write(ctx context.Context, operation string, do func(*batch) ([]byte, error)) ([]byte, error) {
	return s.submit(ctx, operation, &write{do: do})
}

// submit makes a change. It returns store.ErrNotFound and store.ErrConflict as
// they are, and adds the operation and the file to any other error.
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

// newEntry returns an entry with a copy of value.
func newEntry(value []byte, expires time.Time) entry {
	return entry{value: append([]byte{}, value...), expires: unixNano(expires)}
}
