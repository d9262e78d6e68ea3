package dnschallenge

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Exec changes a zone by a program of the operator, which is called with present or cleanup,
// the name of the record, and its value.
type Exec struct{ Command string }

const (
	// outputTime is how long children of a program may hold its output open after its end.
	outputTime = 2 * time.Second
	// maxComplaint is how much of the complaint of a program an error has, in bytes.
	maxComplaint = 300
)

// Add implements Provider.
func (p Exec) Add(ctx context.Context, record Record) error { return p.run(ctx, "present", record) }

// Remove implements Provider.
func (p Exec) Remove(ctx context.Context, record Record) error { return p.run(ctx, "cleanup", record) }

func (p Exec) run(ctx context.Context, what string, record Record) error {
	var complaints tail
	cmd := exec.CommandContext(ctx, p.Command, what, record.Name, record.Value)
	cmd.Stderr, cmd.WaitDelay = &complaints, outputTime
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s %s: %w%s", p.Command, what, record.Name, err, complaints.last())
	}
	return nil
}

// tail is a writer that keeps the last bytes.
type tail struct{ end []byte }

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.end = append(t.end, text...)
	t.end = t.end[max(0, len(t.end)-maxComplaint):]
	return len(text), nil
}

// last returns the last line for the end of a message.
func (t *tail) last() string {
	line := bytes.TrimSpace(t.end)
	if line = line[bytes.LastIndexByte(line, '\n')+1:]; len(line) == 0 {
		return ""
	}
	return ": " + strings.ToValidUTF8(string(line), "?")
}
