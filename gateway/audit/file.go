package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"authgate/gateway/store/rewrite"
)

// retryTime is how long after a failure the file is tried again.
const retryTime = time.Second

// file is the file of events. A mutex makes it safe for concurrent use, so that the lines have the
// order of their numbers. It has no goroutine but, while it cannot be written, a timer.
type file struct {
	path, statePath string
	key             Key
	logger          *slog.Logger
	written         func(slog.Record) // is called with the events that the file adds by itself
	count           func()            // counts an event that is lost

	mu      sync.Mutex
	events  *os.File // nil: not open
	state   *os.File // the last position, for the next start; nil: not open
	size    int64    // of events, up to its last whole line
	last    Position
	moved   bool          // the next line says where the lines before it have ended
	own     []slog.Record // the lines after that: a start has found damage
	lost    int           // events since it cannot be written
	problem string        // why it cannot be written; empty: it can
	retry   *time.Timer
	closed  bool
}

// newFile returns the file at path, which the first write opens.
func newFile(path, dataDir string, key Key, logger *slog.Logger) *file {
	f := &file{path: path, statePath: filepath.Join(dataDir, "audit.state"), key: key, logger: logger}
	f.retry = time.AfterFunc(math.MaxInt64, f.recover) // rests until a failure
	return f
}

// why returns why the file cannot be written, or an empty string.
func (f *file) why() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}

// write writes the events of the file itself that are due, and an event unless it is nil. It returns the
// event with its seq and mac, or as it is if it cannot write it. After a failure, a call without an event
// alone tries again.
func (f *file) write(event *slog.Record) (written slog.Record) {
	var own []slog.Record
	f.mu.Lock()
	before := f.problem
	if !f.closed && (before == "" || event == nil) {
		var err error
		own, written, err = f.try(event)
		if f.problem = ""; err != nil {
			f.problem = err.Error()
			f.retry.Reset(retryTime)
		}
	}
	after := f.problem
	if event != nil && (after != "" || f.closed) {
		written = *event
		f.lost++
		f.count()
	}
	if after != "" && f.lost > 0 {
		f.keepLost()
	}
	f.mu.Unlock()
	// Without the lock: the log may wait for its reader.
	for _, event := range own {
		f.written(event)
	}
	switch {
	case before == "" && after != "":
		f.logger.Error("the audit file cannot be written: requests go on, and their events are in the log alone, "+
			"until it can", "audit_file", f.path, "error", after)
	case before != "" && after == "":
		f.logger.Info("the audit file is written again", "audit_file", f.path)
	}
	return written
}

// recover tries again to write after a failure.
func (f *file) recover() { f.write(nil) }

// try is write without the lock and after no failure. It returns the events of the file itself too.
func (f *file) try(event *slog.Record) (own []slog.Record, written slog.Record, err error) {
	if own, err = f.writeOwn(); err == nil && event != nil {
		written, err = f.append(*event)
	}
	return own, written, err
}

// writeOwn makes the file ready for the next event: it is open, and the events of the file itself
// are written, which it returns.
func (f *file) writeOwn() (written []slog.Record, err error) {
	if err := f.follow(); err != nil {
		return nil, err
	}
	add := func(event slog.Record) error {
		event, err := f.append(event)
		if err == nil {
			written = append(written, event)
		}
		return err
	}
	if f.moved && f.last.Seq > 0 {
		last := []slog.Attr{slog.Uint64("last_seq", f.last.Seq), slog.String("last_mac", f.last.MAC)}
		if err := add(newRecord(continued, last...)); err != nil {
			return written, err
		}
	}
	f.moved = false
	for ; len(f.own) > 0; f.own = f.own[1:] {
		if err := add(f.own[0]); err != nil {
			return written, err
		}
	}
	if f.lost > 0 {
		if err := add(newRecord(lost, slog.Int("count", f.lost))); err != nil {
			return written, err
		}
		f.lost = 0
	}
	return written, nil
}

// follow opens the file, again if the one at its path is another, and looks whether it has become
// smaller.
func (f *file) follow() error {
	if f.events == nil {
		return f.open()
	}
	at, err := os.Stat(f.path)
	is, failed := f.events.Stat()
	switch {
	case failed != nil:
		return errors.Join(failed, f.drop())
	case errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(at, is):
		events, err := openLocked(f.path, os.O_APPEND)
		if err != nil {
			return err
		}
		_ = f.events.Close()
		f.events, f.size = events, math.MaxInt64 // if trim fails, the file is looked at again
	case err != nil:
		return err
	case is.Size() >= f.size:
		f.size = is.Size() // more if somebody else has added to the file, which verify shows
		return nil
	}
	if _, _, err := f.trim(); err != nil {
		return err
	}
	f.moved = true
	return nil
}

// open opens the file and its state, and finds where the chain goes on.
func (f *file) open() (err error) {
	if f.state == nil {
		if f.state, err = openLocked(f.statePath, 0); err != nil {
			f.state = nil
			return err
		}
		_, _, count, _ := f.readState() // an error comes again
		f.lost += count
	}
	if f.events, err = openLocked(f.path, os.O_APPEND); err != nil {
		f.events = nil
		return err
	}
	if err := f.resume(); err != nil {
		return errors.Join(err, f.drop())
	}
	return nil
}

// drop closes the file, so that the next attempt opens it and reads its end.
func (f *file) drop() error {
	err := f.events.Close()
	f.events = nil
	return err
}

// resume finds the last position of a file that was just opened, and removes a part of a line at its
// end.
func (f *file) resume() error {
	known, begun, _, err := f.readState()
	if err != nil {
		return err
	}
	if err := f.checkHead(); err != nil {
		return err
	}
	line, cutOff, err := f.trim()
	if err != nil {
		return err
	}
	f.last, f.moved, f.own = known, false, nil
	_, at, ok := cutLine(line)
	switch {
	case ok && at.Seq < known.Seq:
		f.own = append(f.own, newRecord(lost, slog.Uint64("last_seq", known.Seq), slog.Uint64("file_seq", at.Seq)))
		f.last = at
	case ok:
		f.last = at // begun, if the process was killed after that line
	case f.size == 0:
		if begun.Seq > 0 && f.movedWith(begun) {
			f.last = begun
		}
		f.moved = true
	}
	if cutOff {
		f.own = append(f.own, newRecord(cut))
	}
	return nil
}

// movedWith reports whether the line at a position is the last one of another file in the folder:
// the process was killed after that line, and then the file was moved away.
func (f *file) movedWith(p Position) bool {
	folder := filepath.Dir(f.path)
	entries, _ := os.ReadDir(folder)
	end := macMember + p.MAC + lineEnd + "\n"
	for _, entry := range entries {
		if !entry.Type().IsRegular() { // others may block
			continue
		}
		other, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			continue
		}
		tail := make([]byte, len(end))
		if _, err = other.Seek(-int64(len(end)), io.SeekEnd); err == nil {
			_, err = io.ReadFull(other, tail)
		}
		_ = other.Close()
		if err == nil && string(tail) == end {
			return true
		}
	}
	return false
}

// lineStart begins each line of a file of events.
const lineStart = `{"time":"`

// checkHead refuses a file that does not begin with a line of events, or a part of one: it is another one, such
// as a key.
func (f *file) checkHead() error {
	head := make([]byte, len(lineStart))
	n, err := f.events.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !strings.HasPrefix(lineStart, string(head[:n])) {
		return errors.New(f.path + " is not a file of audit events; name another in log.audit_file")
	}
	return nil
}

// trim removes a part of a line at the end of the file. It returns the last line, and whether it
// removed something.
func (f *file) trim() (line []byte, removed bool, err error) {
	line, end, partial, err := lastLine(f.events)
	if err == nil && partial {
		err = f.events.Truncate(end) // else the next line would continue this one
	}
	if err == nil {
		f.size = end
	}
	return line, partial, err
}

// The state is a line: the last position and, while the next line is written, the position of that.
// A process that is killed then leaves both, and the file tells which one holds. While the file cannot be written,
// how many events are lost follows.

func (f *file) readState() (last, begun Position, count int, err error) {
	text := make([]byte, 256) // a line is shorter
	n, err := f.state.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return last, begun, 0, err
	}
	text, _, _ = bytes.Cut(text[:n], []byte("\n"))
	fields := append(strings.Split(string(text), " "), "", "")
	last, _ = ParsePosition(fields[0]) // there is none yet, or somebody has changed it
	begun, _ = ParsePosition(fields[1])
	count, _ = strconv.Atoi(fields[2])
	return last, begun, max(count, 0), nil
}

// keepLost keeps in the state how many events are lost, for a start before the file can be written. The disk may
// refuse that too.
func (f *file) keepLost() {
	if f.state == nil {
		return
	}
	if last, begun, _, err := f.readState(); err == nil {
		_ = f.writeState(fmt.Sprint(last, " ", begun, " ", f.lost))
	}
}

func (f *file) writeState(text string) error {
	_, err := f.state.WriteAt([]byte(text+"\n"), 0)
	return err
}

// append writes an event as the next line, and returns it with its seq and mac. After an error the
// file is as it was.
func (f *file) append(event slog.Record) (slog.Record, error) {
	event = event.Clone()
	event.AddAttrs(slog.Uint64("seq", f.last.Seq+1))
	var buffer bytes.Buffer
	if err := slog.NewJSONHandler(&buffer, nil).Handle(context.Background(), event); err != nil {
		return event, err
	}
	object := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	next := f.key.next(f.last, object)
	line := finish(object, next.MAC)
	err := f.writeState(f.last.String() + " " + next.String())
	if err != nil {
		return event, err
	}
	if _, err = f.events.Write(line); err == nil {
		err = f.writeState(next.String())
	}
	if err != nil {
		return event, errors.Join(err, f.takeBack())
	}
	f.size, f.last = f.size+int64(len(line)), next
	event.AddAttrs(slog.String("mac", next.MAC))
	return event, nil
}

// takeBack removes the part of a line that was written.
func (f *file) takeBack() error {
	if err := f.events.Truncate(f.size); err != nil {
		return errors.Join(err, f.drop())
	}
	return f.writeState(f.last.String())
}

// close tries once more to write after a failure, ends the attempts, and drops the locks.
func (f *file) close() error {
	if f.why() != "" {
		f.recover()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.retry.Stop()
	var errs []error
	for _, file := range []*os.File{f.events, f.state} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// openLocked opens a regular file to read and write, with one more flag, and locks it.
func openLocked(path string, flag int) (*os.File, error) {
	opened, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(path + " is not a regular file")
	}
	if err == nil {
		var locked bool
		if locked, err = rewrite.TryLock(opened); err == nil && !locked {
			err = errors.New(path + " is in use by another process")
		}
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// lastLine returns the last whole line of a file without its line break, where it ends, and whether a
// part of another one follows.
func lastLine(events *os.File) (line []byte, end int64, partial bool, err error) {
	size, err := events.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, false, err
	}
	for length := int64(64 << 10); ; length *= 2 {
		tail := make([]byte, min(length, size))
		at := size - int64(len(tail))
		if _, err := events.ReadAt(tail, at); err != nil {
			return nil, 0, false, err
		}
		whole := tail[:bytes.LastIndexByte(tail, '\n')+1]
		lines := bytes.TrimSuffix(whole, []byte("\n"))
		if before := bytes.LastIndexByte(lines, '\n'); before >= 0 || at == 0 {
			return lines[before+1:], at + int64(len(whole)), len(whole) < len(tail), nil
		}
	}
}
