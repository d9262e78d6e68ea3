package acme

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
)

// journal is a log that can be read while it is written.
type journal struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.String()
}

// newJournal returns a journal and a logger that writes to it from level on.
func newJournal(level slog.Level) (*journal, *slog.Logger) {
	j := &journal{}
	return j, slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: level}))
}

// records returns what was written, without the time.
func (j *journal) records(t *testing.T) []map[string]any {
	t.Helper()
	var records []map[string]any
	for line := range strings.Lines(j.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		delete(record, "time")
		records = append(records, record)
	}
	return records
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	all := []string{"DEBUG", "INFO", "WARN", "ERROR", "ERROR"}
	for i, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError + 1} {
		j, logger := newJournal(level)
		z := newLogger(logger)
		z.Debug("1")
		z.Info("2")
		z.Warn("3")
		z.Error("4")
		z.DPanic("5") // outside of development it is a line and no more
		want := all[min(i, 3):]
		if i == 4 {
			want = nil
		}
		var got []string
		for _, record := range j.records(t) {
			got = append(got, record["level"].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %v on (-want +got):\n%s", level, diff)
		}
		if err := z.Sync(); err != nil {
			t.Errorf("Sync: %v", err)
		}
	}
}

func TestLogAttributes(t *testing.T) {
	t.Parallel()
	j, logger := newJournal(slog.LevelInfo)
	z := newLogger(logger.With("instance", "one")).With(zap.String("domain", "gate.example")).Named("obtain")
	z.Error("refused",
		zap.Error(errors.New("no such host")), zap.Error(nil),
		zap.Duration("elapsed", 1500*time.Millisecond), zap.Strings("names", []string{"a", "b"}),
		zap.Int("attempt", 2), zap.Bool("forced", true), zap.Time("at", time.Unix(0, 0).UTC()), zap.Timep("next", nil),
		zap.Any("problem", map[string]int{"status": 429}))
	z.Info("done")
	want := []map[string]any{{
		"level": "ERROR", "msg": "certificates: refused", "instance": "one", "domain": "gate.example", "error": "no such host",
		"elapsed": 1.5e9, "names": []any{"a", "b"}, "attempt": 2.0, "forced": true, "at": "1970-01-01T00:00:00Z", "next": nil,
		"problem": map[string]any{"status": 429.0},
	}, {"level": "INFO", "msg": "certificates: done", "instance": "one", "domain": "gate.example"}}
	if diff := cmp.Diff(want, j.records(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A client that makes certmagic log the same line over and over gets a few of
// them a minute, however the attributes differ, and hides no other line.
func TestLogFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, logger := newJournal(slog.LevelInfo)
		z := newLogger(logger)
		for i := range 1000 {
			z.With(zap.Int("connection", i)).Named(fmt.Sprint(i)).Error("flood", zap.String("remote", fmt.Sprint(i)))
		}
		z.Error("renewal failed")
		if got := len(j.records(t)); got != sameLines+1 {
			t.Errorf("%d lines, want %d of the flood and another one", got, sameLines)
		}
		time.Sleep(samePeriod)
		z.Error("flood")
		if got := len(j.records(t)); got != sameLines+2 {
			t.Errorf("%d lines after %v", got, samePeriod)
		}
	})
}

// certmagic logs the storage it works on: by its name, and neither what it
// holds nor while a lock is taken.
func TestLogNamesTheStorage(t *testing.T) {
	t.Parallel()
	var out journal
	s := NewStorage(newMemory(t), newBox(t, "a"), time.Now)
	z := newLogger(slog.New(slog.NewTextHandler(&out, nil)))
	var locking sync.WaitGroup
	locking.Go(func() {
		for i := range 100 {
			lock(t, s, fmt.Sprint(i))
		}
	})
	for range 100 {
		z.With(zap.Any("storage", s)).Debug("cleaning")
	}
	locking.Wait()
	z.Info("cleaning", zap.Any("storage", s))
	if line := out.String(); !strings.Contains(line, "storage=store\n") {
		t.Errorf("logged: %s", line)
	}
}
