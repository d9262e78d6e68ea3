package app

import (
	"log"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/logtest"
	"authgate/gateway/web"
)

// Lines of the access log wait a little, others do not, and none overtakes
// another.
func TestLogWaits(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		synctest.Test(t, func(t *testing.T) {
			written := &logtest.Buffer{}
			out := newLogOutput(written)
			logger := newLogger(config.Log{Level: "info", Format: format}, out)
			want := func(n int, when string) {
				t.Helper()
				if got := strings.Count(written.String(), "\n"); got != n {
					t.Errorf("%s, %s: %d lines, want %d:\n%s", format, when, got, n, written.String())
				}
			}
			logger.Info(web.AccessMessage, "n", 1)
			logger.Info(web.AccessMessage, "n", 2)
			want(0, "at once")
			wait(logDelay - 1)
			want(0, "just before the delay")
			wait(1)
			want(2, "after the delay")
			logger.Info(web.AccessMessage, "n", 3)
			out.Flush()
			want(3, "when nothing is under way")
			logger.Info(web.AccessMessage, "n", 4)
			logger.With("a", 1).WithGroup("g").Info("audit", "n", 5)
			want(5, "after another message")
			logger.Warn(web.AccessMessage, "n", 6)
			want(6, "after a request that failed")
			out.Flush()
			wait(time.Hour)
			want(6, "long after")
			var order []string
			for _, match := range regexp.MustCompile(`\bn"?[:=](\d)`).FindAllStringSubmatch(written.String(), -1) {
				order = append(order, match[1])
			}
			if got := strings.Join(order, ""); got != "123456" {
				t.Errorf("%s: the lines are in the order %s", format, got)
			}
		})
	}
}

// Under load the buffer is written whenever it is full, by whole lines.
func TestLogBuffer(t *testing.T) {
	t.Parallel()
	written := &logtest.Buffer{}
	out := newLogOutput(written)
	logger := newLogger(config.Log{Level: "debug"}, out)
	const lines = 800
	for range lines {
		logger.Info(web.AccessMessage, "x", strings.Repeat("x", 100))
	}
	if got := len(written.String()); got < logBuffer {
		t.Errorf("%d bytes were written of a buffer of %d that ran over", got, logBuffer)
	}
	out.Flush()
	if got := len(written.Records(t, web.AccessMessage)); got != lines {
		t.Errorf("%d lines of %d", got, lines)
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for i, level := range []string{"error", "warn", "info", "debug"} {
		written := &logtest.Buffer{}
		logger := newLogger(config.Log{Level: level, Format: "json"}, newLogOutput(written))
		for _, each := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			logger.Log(t.Context(), each, "x")
		}
		if got := len(written.Records(t, "x")); got != i+1 {
			t.Errorf("at level %s %d records are written, want %d", level, got, i+1)
		}
	}
}

// A line of a library is a record, without what it quotes.
// The standard logger is the process's, so this test is not parallel.
func TestTakeStandardLog(t *testing.T) {
	writer, flags := log.Writer(), log.Flags()
	defer log.SetFlags(flags)
	defer log.SetOutput(writer)
	stderr := &logtest.Buffer{}
	a := open(t, folder(t, t.TempDir(), accounts(alice)), stderr)
	defer shut(t, a)
	a.TakeStandardLog()
	log.Printf("a response starts with %q", "Set-Cookie: sesame")
	if n := len(stderr.Records(t, `a response starts with "..."`)); n != 1 || strings.Contains(stderr.String(), "sesame") {
		t.Errorf("logged %s", stderr)
	}
}
