package audit

import (
	"log/slog"
	"testing"

	"authgate/internal/test/logtest"
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
