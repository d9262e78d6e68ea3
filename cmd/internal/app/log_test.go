package app

import (
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/cmd/internal/logqueue"
	"authgate/gateway/audit"
	"authgate/gateway/config"
	"authgate/internal/test/logtest"
)

// Lines of the access log wait a little, others do not, and none overtakes
// another.
func TestLogWaits(t *testing.T) {
	t.Parallel()
	for format, line := range map[string]string{"json": `"n":%d`, "text": ` n=%d`} {
		logging(t, config.Log{Level: "info", Format: format}, func(t *testing.T, l *logged) {
			access := func(n int) func() { return func() { l.logger.Info(config.AccessMessage, "n", n) } }
			for _, step := range []struct {
				name string
				do   func()
				want int // lines
			}{
				{"a request", access(1), 0},
				{"another one", access(2), 0},
				{"just before the delay", func() { wait(logqueue.Delay - 1) }, 0},
				{"after the delay", func() { wait(1) }, 2},
				{"the next request", access(3), 2},
				{"another message", func() { l.logger.With("a", 1).WithGroup("g").Info("audit", "n", 4) }, 4},
				{"a request that failed", func() { l.logger.Warn(config.AccessMessage, "n", 5) }, 5},
				{"nothing more", func() { l.queue.Flush(); wait(time.Hour) }, 5},
			} {
				step.do()
				synctest.Wait()
				lines := strings.SplitAfter(l.written.String(), "\n")
				for i, got := range lines[:len(lines)-1] {
					if want := fmt.Sprintf(line, i+1); !strings.Contains(strings.ReplaceAll(got, "g.n=", "n="), want) {
						t.Errorf("%s, %s: line %d is %s", format, step.name, i+1, got)
					}
				}
				if got := len(lines) - 1; got != step.want {
					t.Errorf("%s, %s: %d lines, want %d:\n%s", format, step.name, got, step.want, &l.written)
				}
			}
		})
	}
}

// logged is a log in a bubble.
type logged struct {
	queue   *logqueue.Queue
	logger  *slog.Logger
	written logtest.Buffer
	reading chan struct{} // closed: something reads the log
}

// Write implements io.Writer for what reads the log.
func (l *logged) Write(lines []byte) (int, error) {
	<-l.reading
	return l.written.Write(lines)
}

// logging runs f with a log that something reads.
func logging(t *testing.T, cfg config.Log, f func(*testing.T, *logged)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &logged{reading: make(chan struct{})}
		close(l.reading)
		l.queue, l.logger = newLog(cfg, l, false)
		f(t, l)
		l.queue.Close(time.Hour)
	})
}

// lose logs lines that nothing reads, until one of them is lost.
func (l *logged) lose() {
	l.reading = make(chan struct{})
	for before := l.queue.Dropped(); l.queue.Dropped() == before; {
		l.logger.Error("x", "x", strings.Repeat("x", 10_000))
		synctest.Wait()
	}
}

// read lets something read the log again.
func (l *logged) read() {
	close(l.reading)
	synctest.Wait()
}

// Where lines are lost, the log has a line in its format with their number, whatever its level.
func TestLostLines(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"json": `"level":"WARN","msg":"lines of the log are lost here: nothing read it","lines":2}`,
		"text": `level=WARN msg="lines of the log are lost here: nothing read it" lines=2`,
	} {
		logging(t, config.Log{Level: "error", Format: format}, func(t *testing.T, l *logged) {
			l.lose()
			l.logger.Error("another")
			l.read()
			if n := strings.Count(l.written.String(), want+"\n"); n != 1 {
				t.Errorf("the log has %d times %s", n, want)
			}
		})
	}
}

// An audit event waits a little for a place in a log that nothing reads, and holds up no other line
// meanwhile.
func TestAuditEventsWait(t *testing.T) {
	t.Parallel()
	logging(t, config.Log{Level: "info"}, func(t *testing.T, l *logged) {
		events := make(chan time.Duration)
		event := func() {
			began := time.Now()
			l.logger.Info(audit.Message)
			events <- time.Since(began)
		}
		for _, c := range []struct {
			read time.Duration // when something reads the log again
			took time.Duration
			want int // events in the log
		}{
			{auditPatience - 1, auditPatience - 1, 1},
			{auditPatience + 1, auditPatience, 1},
		} {
			l.lose()
			time.AfterFunc(c.read, func() { close(l.reading) })
			go event()
			synctest.Wait()
			began := time.Now()
			if l.logger.Info(config.AccessMessage); time.Since(began) > 0 {
				t.Errorf("another line waited %v", time.Since(began))
			}
			if took := <-events; took != c.took {
				t.Errorf("an audit event waited %v, want %v", took, c.took)
			}
			wait(time.Second)
			if n := len(l.written.Records(t, audit.Message)); n != c.want {
				t.Errorf("the log has %d audit events, want %d", n, c.want)
			}
		}
	})
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for i, level := range []string{"error", "warn", "info", "debug"} {
		written := &logtest.Buffer{}
		queue, logger := newLog(config.Log{Level: level, Format: "json"}, written, true)
		for _, each := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			logger.Log(t.Context(), each, "x")
		}
		queue.Close(time.Minute)
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
	a.TakeStandardLog()
	log.Printf("a response starts with %q", "Set-Cookie: sesame")
	shut(t, a)
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
		queue, logger := newLog(config.Log{Level: "info", Format: c.format}, written, c.terminal)
		logger.Info("x",
			"listeners", loggedListeners{{"https", ":443"}, {"admin", "127.0.0.1:9090"}},
			"routes", loggedRoutes{{"blog.example/", "blog", "none", "public"}, {"/", "app", "session", "every user"}})
		queue.Close(time.Minute)
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
