package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// schemaVersion is the value of PRAGMA user_version in databases of this
// layout.
const schemaVersion = 1

// createSchema creates the tables in an empty database. Keys are blobs, because
// they may hold any bytes and compare byte by byte. The column expires precedes
// value so that a walk does not read the values. Ping writes to the table
// probe.
const createSchema = `
CREATE TABLE entries (
	key     BLOB    NOT NULL PRIMARY KEY,
	expires INTEGER NOT NULL, -- Unix time in nanoseconds, 0: never
	value   BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_by_expiry ON entries (expires) WHERE expires <> 0;
CREATE TABLE probe (
	id INTEGER NOT NULL PRIMARY KEY,
	at INTEGER NOT NULL -- Unix time in nanoseconds
) STRICT;
PRAGMA user_version = 1;`

const (
	// busyTimeout is how long, in milliseconds, a connection waits for a
	// program that reads the database.
	busyTimeout = "busy_timeout(5000)"
	// readers is the number of connections for uncached reads.
	readers = 4
)

// SQLite appends these suffixes to the path of the database: for the write-ahead
// log, and for the index of that log in shared memory.
const (
	walSuffix = "-wal"
	shmSuffix = "-shm"
)

// database is the file, opened for this process alone.
type database struct {
	path   string // free of symbolic links
	lock   io.Closer
	files  *openFiles
	room   *room
	writer *sql.DB // one connection
	reader *sql.DB // a few that can only read
}

// openDatabase locks and opens the database at path, and creates it if necessary.
func openDatabase(ctx context.Context, path string, logger *slog.Logger) (*database, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	d := &database{path: path}
	if d.lock, err = lockFile(path + ".lock"); err != nil {
		return nil, err
	}
	// This must follow the lock: closing a file that SQLite has open elsewhere
	// in this process would drop the locks that SQLite holds on it.
	if err = restrict(path); err == nil {
		d.writer, err = openWriter(ctx, path, indexInFile)
	}
	if noRoom(err) && os.Remove(path+reserveSuffix) == nil {
		d.writer, err = openWriter(ctx, path, indexInFile)
	}
	index := indexInFile
	if noRoom(err) && runtime.GOOS != "windows" { // whose VFS has no such place
		index = indexInMemory
		if d.writer, err = openWriter(ctx, path, index); err == nil {
			logger.Warn("the disk is full: the database is open in a way that keeps other programs out "+
				"until the next start, such as those that make backups", slog.String("path", path))
		}
	}
	if err == nil {
		d.reader, err = openReader(path, index)
	}
	if err == nil {
		d.files, err = holdFiles(path, index, logger)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.room = newRoom(path, logger)
	return d, nil
}

// close closes all connections. The writer comes last, because the last
// connection removes the log, and readers cannot.
func (d *database) close() error {
	var failures []error
	for _, db := range []*sql.DB{d.reader, d.writer} {
		if db != nil {
			failures = append(failures, db.Close())
		}
	}
	return errors.Join(append(failures, d.lock.Close())...)
}

// resolve returns the path without symbolic links, so that all names of a file
// lead to the same lock.
func resolve(path string) (string, error) {
	if path == "" {
		return "", errors.New("no path given")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	directory, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	if err != nil {
		return "", fmt.Errorf("its directory must exist: %w", err)
	}
	return filepath.Join(directory, filepath.Base(absolute)), nil
}

// restrict creates the database file if it is missing, and makes it and the
// files that SQLite keeps beside it accessible to their owner only. SQLite gives
// new files the mode of the main file.
func restrict(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, name := range []string{path, path + walSuffix, path + shmSuffix} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// index says where SQLite keeps the index of the log: a name of its VFS.
type index string

const (
	// indexInFile is shared memory, by which other programs can read the database.
	indexInFile index = ""
	// indexInMemory needs no room on the disk. Only this process can read the database.
	indexInMemory index = "unix-excl"
)

// connect returns a pool of at most size connections to the file at path.
func connect(path string, at index, size int, parameters url.Values) (*sql.DB, error) {
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/x is written file:///C:/x
	}
	parameters.Set("_error_rc", "1") // no stale message in errors
	if at != indexInFile {
		parameters.Set("vfs", string(at))
	}
	source := url.URL{Scheme: "file", Path: name, RawQuery: parameters.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// openWriter opens the one connection that writes, and checks that the database
// is durable, undamaged, and made by authgate.
func openWriter(ctx context.Context, path string, at index) (*sql.DB, error) {
	db, err := connect(path, at, 1, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {busyTimeout, "journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(67108864)"},
	})
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *sql.DB) error{demandDurability, demandHealth, demandSchema} {
		if err := step(ctx, db); err != nil {
			return nil, errors.Join(explain(err), db.Close())
		}
	}
	return db, nil
}

// openReader opens the connections for uncached reads.
func openReader(path string, at index) (*sql.DB, error) {
	return connect(path, at, readers, url.Values{"mode": {"ro"}, "_pragma": {busyTimeout}})
}

// demandDurability checks the journal mode: some file systems cannot hold a
// write-ahead log, and SQLite then works without one.
func demandDurability(ctx context.Context, db *sql.DB) error {
	var journal string
	var synchronous int
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	const full = 2
	if journal != "wal" || synchronous != full {
		return fmt.Errorf("journal_mode is %s and synchronous is %d, want wal and %d: use a local file system",
			journal, synchronous, full)
	}
	return nil
}

// demandHealth reads the whole database once. A store that has lost a revocation
// to a damaged page must not start.
func demandHealth(ctx context.Context, db *sql.DB) error {
	var finding string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&finding); err != nil {
		return err
	}
	if finding != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, finding)
	}
	return nil
}

// demandSchema creates the schema in an empty database. It refuses the database
// of another program or of a newer authgate.
func demandSchema(ctx context.Context, db *sql.DB) error {
	var version, objects int
	const query = "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
	if err := db.QueryRowContext(ctx, query).Scan(&version, &objects); err != nil {
		return err
	}
	switch {
	case version == schemaVersion:
		return nil
	case version > schemaVersion:
		return fmt.Errorf("its schema has version %d, and this authgate knows versions up to %d: "+
			"run the newer authgate that wrote it",
			version, schemaVersion)
	case version != 0 || objects != 0:
		return fmt.Errorf("is a database (version %d, %d tables and indexes) that authgate did not make: "+
			"give another path",
			version, objects)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, createSchema); err != nil {
		return errors.Join(fmt.Errorf("create schema: %w", err), tx.Rollback())
	}
	return tx.Commit()
}

var errDamaged = errors.New("the database is damaged")

// explain adds advice for the operator to an error of Open.
func explain(err error) error {
	var failure *sqlite.Error
	if errors.As(err, &failure) {
		switch failure.Code() & 0xff { // the primary code, without details
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			err = fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	if errors.Is(err, errDamaged) {
		return fmt.Errorf("%w: restore a copy, or move the file away to start with none"+
			" (everyone signs in again, and revoked tokens work until they expire)", err)
	}
	return err
}
