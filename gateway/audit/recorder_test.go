package audit

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

// An event is one line of the log with its name and its attributes, at the level info.
func TestRecord(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{slog.LevelInfo: 1, slog.LevelWarn: 0} {
		var log logtest.Buffer
		recorder := NewRecorder(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level})))
		recorder.Record("login", slog.String("subject", "local:alice"))
		events := log.Records(t, Message)
		if len(events) != want {
			t.Fatalf("at the level %v there are %d events, want %d", level, len(events), want)
		}
		for _, e := range events {
			if e["event"] != "login" || e["subject"] != "local:alice" || e["level"] != "INFO" || e["time"] == nil {
				t.Errorf("the event is %v", e)
			}
		}
	}
}

// Control and format characters, and bytes that are not UTF-8, are escaped, and a field without a
// value is left out.
func TestRecordEscapes(t *testing.T) {
	t.Parallel()
	var log logtest.Buffer
	NewRecorder(slog.New(slog.NewTextHandler(&log, nil))).Record("login", slog.String("reason", "a\nb\x1b\u202e\xffé"),
		slog.String("login", ""), slog.Any("roles", []string{"x\u0085"}))
	for _, want := range []string{`reason=a\nb\x1b\u202e\xffé`, `roles=[x\u0085]`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has %s, want %s", log.String(), want)
		}
	}
	if strings.Contains(log.String(), "login=") {
		t.Errorf("the log has a field without a value: %s", log.String())
	}
}

// A function that a recorder has gets each event whatever the level of the log, and with a file also its seq and mac.
func TestRecordSends(t *testing.T) {
	t.Parallel()
	var got []string
	send := func(event slog.Record) {
		line := ""
		event.Attrs(func(a slog.Attr) bool { line += a.Key + " "; return true })
		got = append(got, line)
	}
	dir := t.TempDir()
	NewRecorder(slog.New(slog.DiscardHandler), send).Record("login", slog.String("subject", "x"))
	r := must.Get(WithFile(slog.New(slog.DiscardHandler), filepath.Join(dir, "audit.jsonl"), dir,
		prometheus.NewRegistry(), send))(t)
	r.Record("login", slog.String("subject", "x"))
	must.Do(t, r.Close())
	if want := []string{"event subject ", "event subject seq mac "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
