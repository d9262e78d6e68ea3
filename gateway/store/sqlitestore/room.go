package sqlitestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// reserveSuffix names the file that holds the reserve.
	reserveSuffix = "-reserve"
	// reserveSize is enough for a checkpoint of a log of usual length. After
	// that the log has room for some hundred logouts.
	reserveSize = 4 << 20
	// loginRoom is an upper bound for the writes of a login.
	loginRoom = 64 << 10
	// roomEvery is the shortest time between two checks for room on a full
	// disk, and between two probes that write as much as a login.
	roomEvery = time.Second
)

// errNoRoom means that the disk is full, over quota, or fails.
var errNoRoom = errors.New("there is no room on the disk: free some")

// room is the knowledge of the writer about the space on the disk. Only the
// writer uses it, except for short. Its times come from the local clock.
type room struct {
	logger *slog.Logger
	path   string // of the reserve

	kept    bool        // the reserve exists
	failure error       // why it could not be created
	need    int         // bytes of the largest write that was refused
	made    time.Time   // the last attempt to create the reserve
	filled  time.Time   // when a probe last wrote as much as a login
	refused time.Time   // when a probe last found no room
	emptied time.Time   // the last attempt to empty the log
	short   atomic.Bool // a write was refused, and no probe has found room since
}

// newRoom uses the reserve beside the database at path, or creates it.
func newRoom(path string, logger *slog.Logger) *room {
	r := &room{logger: logger, path: path + reserveSuffix, made: time.Now()}
	r.failure = makeReserve(r.path)
	if r.kept = r.failure == nil; !r.kept {
		r.refuse(0, r.failure)
	}
	return r
}

// makeReserve creates the reserve, a file whose blocks are on the disk.
func makeReserve(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(0o600), allocate(f, reserveSize), f.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("make %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// noRoom reports whether SQLite could not write for lack of space. SQLite reports
// a quota and a limit on the file size as I/O errors.
func noRoom(err error) bool {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return false
	}
	primary := failure.Code() & 0xff // without details
	return primary == sqlite3.SQLITE_FULL || primary == sqlite3.SQLITE_IOERR
}

// refuse records that a write of size bytes was refused.
func (r *room) refuse(size int, err error) {
	r.need = max(r.need, size)
	if r.short.Swap(true) {
		return
	}
	r.log(slog.LevelError, "the disk is full or fails: logins are refused until there is room", err)
}

// found records that a probe has written as much as a login.
func (r *room) found() {
	r.need = 0
	if r.short.Swap(false) {
		r.log(slog.LevelInfo, "the disk has room again", nil)
	}
}

// release deletes the reserve and reports whether it did. Until restore has
// created it again, only writes that end something are carried out.
func (r *room) release() bool {
	if !r.kept {
		return false
	}
	r.kept, r.made, r.failure = false, time.Now(), nil
	r.short.Store(true)
	err := os.Remove(r.path)
	r.log(slog.LevelWarn, "the reserve for logouts is in use: all other writes are refused until there is room for a "+
		"new one", err)
	return err == nil
}

// restore creates the reserve again after release, at most once in roomEvery.
func (r *room) restore() {
	if r.kept || time.Since(r.made) < roomEvery {
		return
	}
	r.made = time.Now()
	r.failure = makeReserve(r.path)
	r.kept = r.failure == nil
}

// blocked returns the error of a write that must not use the reserve.
func (r *room) blocked() error {
	err := fmt.Errorf("%w, at least %d MiB, which are kept for logouts", errNoRoom, reserveSize>>20)
	if r.failure != nil {
		return fmt.Errorf("%w (%w)", err, r.failure)
	}
	return err
}

func (r *room) log(level slog.Level, message string, err error) {
	attrs := []slog.Attr{slog.String("path", r.path)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	r.logger.LogAttrs(context.Background(), level, message, attrs...)
}

// squeeze carries out writes that found no room: first those that end something,
// which may use the reserve, and then the others.
func (w *writer) squeeze(writes []*write, err error) {
	emptied := w.emptyLog(false) == nil
	var endings, others []*write
	for _, one := range writes {
		if one.ends {
			endings = append(endings, one)
		} else {
			others = append(others, one)
		}
	}
	if len(endings) > 0 {
		w.writeEndings(endings)
	}
	for i, one := range others {
		failure := err
		if emptied || len(writes) > 1 { // a single write would fail again
			_, failure = w.transact(others[i:i+1], 1)
		}
		if noRoom(failure) {
			failure = fmt.Errorf("%w (%w)", errNoRoom, failure)
			w.room.refuse(one.size, failure)
			if one.probe {
				w.room.refused = time.Now()
			}
		}
		answer(others[i:i+1], failure)
	}
}

// writeEndings carries out writes that end something, in the space of the
// reserve if necessary.
func (w *writer) writeEndings(endings []*write) {
	_, err := w.transact(endings, len(endings))
	if noRoom(err) && w.room.release() {
		_ = w.emptyLog(true) // with the space that is free now
		_, err = w.transact(endings, len(endings))
	}
	if noRoom(err) {
		err = fmt.Errorf("%w (%w)", errNoRoom, err)
		w.room.refuse(0, err)
	}
	if errors.Is(err, errStatement) && len(endings) > 1 {
		w.alone(endings)
		return
	}
	answer(endings, err)
}

// emptyLog moves the content of the log to the database, so that the next
// transaction reuses the space of the log. A nil error means that all was moved.
// Unless it is urgent, this happens at most once in roomEvery, because an attempt
// that fails also writes much.
func (w *writer) emptyLog(urgent bool) error {
	if !urgent && time.Since(w.room.emptied) < roomEvery {
		return errNoRoom
	}
	w.room.emptied = time.Now()
	var busy, frames, moved int
	if err := w.db.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if moved < frames {
		return fmt.Errorf("checkpoint: %d of %d pages were moved, the others are being read", moved, frames)
	}
	return nil
}

// confirm records that probes were committed. If the disk had no room, it empties
// the log, so that the next login fits in the space that the probe took.
func (w *writer) confirm(writes []*write) {
	for _, one := range writes {
		if !one.large || one.err != nil {
			continue
		}
		w.room.filled = time.Now()
		if !w.room.short.Load() {
			continue
		}
		if one.err = w.emptyLog(true); one.err == nil {
			w.room.found()
		} else {
			w.room.refused = w.room.filled
		}
	}
}

// fillFile sets the size of f by writing bytes that no file system compresses.
func fillFile(f *os.File, size int64) error {
	if info, err := f.Stat(); err == nil && info.Size() == size {
		return nil // it was filled before
	}
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		return err
	}
	return f.Sync() // some file systems find out only now that they are full
}
