package app

import (
	"fmt"
	"log"
	"strings"
	"sync"
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
			logger.Debug("below the level")
			want(6, "below the level")
			for i := 1; i <= 6; i++ {
				line := strings.Split(written.String(), "\n")[i-1]
				if !strings.Contains(line, fmt.Sprintf(`"n":%d`, i)) && !strings.Contains(line, fmt.Sprintf("n=%d", i)) {
					t.Errorf("line %d is %s", i, line)
				}
			}
			out.Flush()
			wait(time.Hour)
			want(6, "long after")
		})
	}
}

// Under load the buffer is written whenever it is full, by whole lines.
func TestLogBuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		written := &logtest.Buffer{}
		out := newLogOutput(written)
		logger := newLogger(config.Log{Level: "debug"}, out)
		var all sync.WaitGroup
		const writers, lines = 4, 200
		for range writers {
			all.Go(func() {
				for range lines {
					logger.Info(web.AccessMessage, "x", strings.Repeat("x", 100))
				}
			})
		}
		all.Wait()
		if got := len(written.String()); got < logBuffer {
			t.Errorf("%d bytes were written of a buffer of %d that ran over", got, logBuffer)
		}
		out.Flush()
		if got := len(written.Records(t, web.AccessMessage)); got != writers*lines {
			t.Errorf("%d lines of %d", got, writers*lines)
		}
	})
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		written := &logtest.Buffer{}
		logger := newLogger(config.Log{Level: level, Format: "json"}, newLogOutput(written))
		logger.Debug("x")
		logger.Info("x")
		logger.Warn("x")
		logger.Error("x")
		if got := len(written.Records(t, "x")); got != want {
			t.Errorf("at level %s %d records are written, want %d", level, got, want)
		}
	}
}

// TestTakeStandardLog: a library's line is a record, without what it quotes.
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
