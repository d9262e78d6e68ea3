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
	// reserveSize is enough for a checkpoint of a log of usual length, after
	// which the log has room for some hundred logouts.
	reserveSize = 4 << 20
	// loginRoom is at least what a login writes.
	loginRoom = 64 << 10
	// roomEvery is how often at most the store looks for room on a full disk,
	// and how often at most a probe writes as much as a login.
	roomEvery = time.Second
)

// errNoRoom: the disk is full, over quota, or fails.
var errNoRoom = errors.New("there is no room on the disk: free some")

// room is what the writer knows about the space on the disk. All but short is
// the writer's alone. Times are those of the machine: none is compared with what
// is stored.
type room struct {
	logger *slog.Logger
	path   string // of the reserve

	kept    bool        // the reserve is there
	failure error       // why it could not be made
	need    int         // bytes of the largest write that was refused
	made    time.Time   // when the reserve was last to be made
	filled  time.Time   // when a probe last wrote as much as a login
	refused time.Time   // when a probe last found no room
	emptied time.Time   // when the log was last to be emptied
	short   atomic.Bool // a write was refused, and no probe has found room since
}

// newRoom takes over the reserve beside the database at path, or makes it.
func newRoom(path string, logger *slog.Logger) *room {
	r := &room{logger: logger, path: path + reserveSuffix, made: time.Now()}
	r.failure = makeReserve(r.path)
	if r.kept = r.failure == nil; !r.kept {
		r.refuse(0, r.failure)
	}
	return r
}

// makeReserve makes a file that has its blocks on the disk.
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

// noRoom reports whether SQLite could not write for want of space. A quota and
// a limit on the size of files are I/O errors in its terms.
func noRoom(err error) bool {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return false
	}
	primary := failure.Code() & 0xff // without details
	return primary == sqlite3.SQLITE_FULL || primary == sqlite3.SQLITE_IOERR
}

// refuse notes that a write of so many bytes was refused.
func (r *room) refuse(size int, err error) {
	r.need = max(r.need, size)
	if r.short.Swap(true) {
		return
	}
	r.log(slog.LevelError, "the disk is full or fails: logins are refused until there is room", err)
}

// found notes that a probe has written as much as a login, and that there is
// room for more.
func (r *room) found() {
	r.need = 0
	if r.short.Swap(false) {
		r.log(slog.LevelInfo, "the disk has room again", nil)
	}
}

// release gives the reserve back to the file system, and reports whether there
// was one. Until restore, only writes that end something are carried out.
func (r *room) release() bool {
	if !r.kept {
		return false
	}
	r.kept, r.made, r.failure = false, time.Now(), nil
	r.short.Store(true)
	err := os.Remove(r.path)
	r.log(slog.LevelWarn, "the reserve for logouts is in use: all other writes are refused until there is room for a new one", err)
	return err == nil
}

// restore makes the reserve anew if it was released, now and then.
func (r *room) restore() {
	if r.kept || time.Since(r.made) < roomEvery {
		return
	}
	r.made = time.Now()
	r.failure = makeReserve(r.path)
	r.kept = r.failure == nil
}

// blocked is the error of a write that must not use the space of the reserve.
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

// squeeze carries out writes for which there was no room: first those that end
// something, with the help of the reserve, and then the others.
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
		w.end(endings)
	}
	for i, one := range others {
		failure := err
		if emptied || len(writes) > 1 { // one alone would fail again
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

// end carries out writes that end something, if need be in the space of the
// reserve.
func (w *writer) end(endings []*write) {
	_, err := w.transact(endings, len(endings))
	if noRoom(err) && w.room.release() {
		_ = w.emptyLog(true) // it may have failed for want of the space that there is now
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

// emptyLog moves what the log holds to the database. The next transaction then
// begins at the start of the log, in space that the log has already. A nil error
// means that all was moved. Unless it is urgent this is done now and then only,
// because what fails has written much.
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

// confirm notes that probes were committed. On a disk that had no room it empties
// the log: only then does the next login fit in the space that the probe took.
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

// fillFile gives f the size by writing bytes that no file system compresses.
func fillFile(f *os.File, size int64) error {
	if info, err := f.Stat(); err == nil && info.Size() == size {
		return nil // it was filled before
	}
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		return err
	}
	return f.Sync() // some file systems find out only now that they are full
}
