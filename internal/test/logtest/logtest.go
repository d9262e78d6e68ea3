// Package logtest reads back what a test's log has, one JSON object a line.
package logtest

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"testing"
)

// Buffer keeps what a [log/slog.JSONHandler] writes. Its methods may be called
// concurrently.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(line)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Reset forgets what was written.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}

// Lines yields the lines, oldest first. It leaves out one that has not come whole yet.
func (b *Buffer) Lines() iter.Seq[string] {
	all := b.String()
	return strings.Lines(all[:strings.LastIndexByte(all, '\n')+1])
}

// Records returns the records with the message, oldest first.
func (b *Buffer) Records(t testing.TB, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range b.Lines() {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("a line of the log is not JSON: %v: %s", err, line)
		}
		if record["msg"] == message {
			found = append(found, record)
		}
	}
	return found
}

// Last returns the newest record with the message, which the log must have.
func (b *Buffer) Last(t testing.TB, message string) map[string]any {
	t.Helper()
	all := b.Records(t, message)
	if len(all) == 0 {
		t.Fatalf("the log has no %q:\n%s", message, b)
	}
	return all[len(all)-1]
}
