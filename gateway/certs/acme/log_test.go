package acme

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"authgate/internal/test/logtest"
)

// A line has its level, and is written from that level on.
func TestLogLevels(t *testing.T) {
	for level, want := range map[zapcore.Level]slog.Level{
		zap.DebugLevel: slog.LevelDebug, zap.InfoLevel: slog.LevelInfo,
		zap.WarnLevel: slog.LevelWarn, zap.ErrorLevel: slog.LevelError,
		zap.DPanicLevel: slog.LevelError, // outside of development it is a line and no more
	} {
		for _, from := range []slog.Level{want, want + 1} {
			var log logtest.Buffer
			newLogger(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: from}))).Log(level, "x")
			got := log.Records(t, "certificates: x")
			if len(got) != int(want+1-from) || len(got) == 1 && got[0]["level"] != want.String() {
				t.Errorf("%v, in a log from %v on: %v, want %v", level, from, got, want)
			}
		}
	}
}

// Attributes keep their types, and a storage is logged by its name.
func TestLogAttributes(t *testing.T) {
	var log logtest.Buffer
	z := newLogger(slog.New(slog.NewJSONHandler(&log, nil)).With("instance", "one")).
		With(zap.String("domain", "gate.example")).Named("obtain")
	z.Error("refused", zap.Error(errors.New("no such host")), zap.Error(nil),
		zap.Any("storage", newStorage(t, newSpy(t), "a")),
		zap.Duration("elapsed", 1500*time.Millisecond), zap.Strings("names", []string{"a", "b"}), zap.Timep("next", nil),
		zap.Int("attempt", 2), zap.Bool("forced", true), zap.Time("at", time.Unix(0, 0).UTC()),
		zap.Any("problem", map[string]int{"status": 429}))
	got := log.Last(t, "certificates: refused")
	delete(got, "time")
	want := map[string]any{
		"level": "ERROR", "msg": "certificates: refused", "instance": "one", "domain": "gate.example",
		"error": "no such host", "storage": "store",
		"elapsed": 1.5e9, "names": []any{"a", "b"}, "attempt": 2.0, "forced": true, "at": "1970-01-01T00:00:00Z", "next": nil,
		"problem": map[string]any{"status": 429.0},
	}
	if diff := cmp.Diff(want, got); diff != "" || z.Sync() != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A client that makes certmagic log the same line over and over gets a few of
// them a minute, however the attributes differ, and hides no other line.
func TestLogFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		z := newLogger(slog.New(slog.NewJSONHandler(&log, nil)))
		for i := range 1000 {
			z.With(zap.Int("connection", i)).Named(fmt.Sprint(i)).Error("flood", zap.String("remote", fmt.Sprint(i)))
		}
		z.Error("renewal failed")
		flood, other := log.Records(t, "certificates: flood"), log.Records(t, "certificates: renewal failed")
		if len(flood) != sameLines || len(other) != 1 {
			t.Errorf("%d lines of the flood, want %d; %d others, want 1", len(flood), sameLines, len(other))
		}
		time.Sleep(samePeriod)
		z.Error("flood")
		if got := len(log.Records(t, "certificates: flood")); got != sameLines+1 {
			t.Errorf("%d lines after %v, want one more", got, samePeriod)
		}
	})
}
