package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Events that a recorder writes to its file by itself.
const (
	continued = "audit_continued" // in a new file: where the one before ended
	cut       = "audit_cut"       // a crash has left a part of a line, which was removed
	lost      = "audit_lost"      // events, or lines at the end of the file, are missing
)

// Summary tells about files of one chain.
type Summary struct {
	Events    int
	From, To  time.Time // of the first event and of the last
	Cut, Lost int       // how many events audit_cut and audit_lost there are
	Continues bool      // an earlier file, which was not seen
	Last      Position
}

// BrokenError is the error of the first line that is not as a gateway wrote it.
type BrokenError struct {
	File   string
	Line   int // counted from 1
	Reason string
}

// Error implements error.
func (e *BrokenError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Verifier reads files of one chain, the oldest first. Its fields Key and, if a position must be
// among the lines, Want are set before.
type Verifier struct {
	Key  Key
	Want Position

	Summary
	found bool
	begun bool // a line was read
}

// Read verifies the lines of one file. The error is a *BrokenError, or that of reading.
func (v *Verifier) Read(name string, file io.Reader) error {
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		reason := "the line was cut off, or its line break removed"
		if whole {
			reason = v.readLine(line, number == 1)
		}
		if reason != "" {
			return &BrokenError{name, number, reason}
		}
	}
}

// Holds reports whether the files have the position that is wanted, if one is.
func (v *Verifier) Holds() bool { return v.found || v.Want == Position{} }

// readLine verifies a line, and returns why it is not the one that follows, or an empty string.
func (v *Verifier) readLine(line []byte, first bool) (reason string) {
	object, p, ok := cutLine(line)
	if !ok {
		return "this is not a line of an audit file: it was changed or added"
	}
	var event struct {
		Event   string    `json:"event"`
		Time    time.Time `json:"time"`
		LastSeq uint64    `json:"last_seq"`
		LastMAC string    `json:"last_mac"`
	}
	if err := json.Unmarshal(object, &event); err != nil {
		return "this is not a line of an audit file: it was changed or added"
	}
	if !v.begun && first && event.Event == continued {
		v.Continues, v.Last = true, Position{event.LastSeq, event.LastMAC}
	}
	if p.Seq != v.Last.Seq+1 {
		return fmt.Sprintf("seq is %d, and %d follows the line before: a line was removed, moved, added or changed",
			p.Seq, v.Last.Seq+1)
	}
	if v.Key.next(v.Last, object) != p {
		return "mac is wrong: this line or the one before was changed, moved, removed or added, " +
			"or the line is of another gateway"
	}
	v.begun, v.Last, v.To = true, p, event.Time
	if v.Events++; v.Events == 1 {
		v.From = event.Time
	}
	switch event.Event {
	case cut:
		v.Cut++
	case lost:
		v.Lost++
	}
	v.found = v.found || p == v.Want
	return ""
}
