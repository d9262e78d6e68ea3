package app

import (
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/web"
	"authgate/internal/test/logtest"
)

// Lines of the access log wait a little, others do not, and none overtakes
// another.
func TestLogWaits(t *testing.T) {
	t.Parallel()
	for format, line := range map[string]string{"json": `"n":%d`, "text": ` n=%d`} {
		synctest.Test(t, func(t *testing.T) {
			written := &logtest.Buffer{}
			out := newLogOutput(written)
			logger := newLogger(config.Log{Level: "info", Format: format}, out, false)
			access := func(n int) func() { return func() { logger.Info(web.AccessMessage, "n", n) } }
			for _, step := range []struct {
				name string
				do   func()
				want int // lines
			}{
				{"a request", access(1), 0},
				{"another one", access(2), 0},
				{"just before the delay", func() { wait(logDelay - 1) }, 0},
				{"after the delay", func() { wait(1) }, 2},
				{"the next request", access(3), 2},
				{"nothing is under way", out.Flush, 3},
				{"a request after that", access(4), 3},
				{"another message", func() { logger.With("a", 1).WithGroup("g").Info("audit", "n", 5) }, 5},
				{"a request that failed", func() { logger.Warn(web.AccessMessage, "n", 6) }, 6},
				{"nothing more", func() { out.Flush(); wait(time.Hour) }, 6},
			} {
				step.do()
				lines := strings.SplitAfter(written.String(), "\n")
				for i, got := range lines[:len(lines)-1] {
					if want := fmt.Sprintf(line, i+1); !strings.Contains(strings.ReplaceAll(got, "g.n=", "n="), want) {
						t.Errorf("%s, %s: line %d is %s", format, step.name, i+1, got)
					}
				}
				if got := len(lines) - 1; got != step.want {
					t.Errorf("%s, %s: %d lines, want %d:\n%s", format, step.name, got, step.want, written)
				}
			}
		})
	}
}

// Under load the buffer is written whenever it is full, by whole lines.
func TestLogBuffer(t *testing.T) {
	t.Parallel()
	written := &logtest.Buffer{}
	out := newLogOutput(written)
	logger := newLogger(config.Log{Level: "debug"}, out, false)
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
		logger := newLogger(config.Log{Level: level, Format: "json"}, newLogOutput(written), true)
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
	a := open(t, folder(t, t.TempDir(), withAccounts(alice)), stderr)
	defer shut(t, a)
	a.TakeStandardLog()
	log.Printf("a response starts with %q", "Set-Cookie: sesame")
	if n := len(stderr.Records(t, `a response starts with "..."`)); n != 1 || strings.Contains(stderr.String(), "sesame") {
		t.Errorf("logged %s", stderr)
	}
}

// Without a format, people at a terminal read text, and programs read JSON.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format   string
		terminal bool
		want     string
	}{
		{"", false, "{"}, {"", true, "time="}, {"json", true, "{"}, {"text", false, "time="},
	} {
		written := &logtest.Buffer{}
		newLogger(config.Log{Level: "info", Format: c.format}, newLogOutput(written), c.terminal).Info("x",
			"listeners", loggedListeners{{"https", ":443"}, {"admin", "127.0.0.1:9090"}},
			"routes", loggedRoutes{{"blog.example/", "blog", "none", "public"}, {"/", "app", "session", "every user"}})
		line := written.String()
		text := `listeners="https :443, admin 127.0.0.1:9090" ` +
			`routes="blog.example/ to blog: public (none); / to app: every user (session)"`
		if c.want == "{" {
			text = `"listeners":{"admin":"127.0.0.1:9090","https":":443"},` +
				`"routes":[{"route":"blog.example/","upstream":"blog","auth":"none","rule":"public"},`
		}
		if !strings.HasPrefix(line, c.want) || !strings.Contains(line, text) {
			t.Errorf("%q, a terminal %t: %s", c.format, c.terminal, line)
		}
	}
}
