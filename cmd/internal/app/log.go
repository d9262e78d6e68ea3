package app

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"authgate/cmd/internal/logqueue"
	"authgate/gateway/audit"
	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
)

const (
	// auditPatience is how long an audit event waits for a place in the log.
	auditPatience = 100 * time.Millisecond
	// lastLinesTime is how long a stop waits for the reader of the log.
	lastLinesTime = time.Second
)

// logHandler lets the lines of the access log wait until a batch is full or some time has
// passed: to wake the writer costs more than to write a line. All other lines are due at once.
type logHandler struct {
	slog.Handler
	queue *logqueue.Queue
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == audit.Message {
		h.queue.Wait(auditPatience) // here, because the handler below has a lock while it writes
	}
	err := h.Handler.Handle(ctx, r)
	if r.Message != config.AccessMessage || r.Level > slog.LevelInfo {
		h.queue.Flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.queue}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.queue}
}

// TakeStandardLog sends the lines that libraries write to the standard logger to
// this log. The standard logger is global, so only a program with one App calls it.
func (a *App) TakeStandardLog() {
	log.SetFlags(0)
	log.SetOutput(web.LibraryLog(a.logger.Handler(), slog.LevelWarn).Writer())
}

// OutliveReaders makes a write to a pipe or socket without a reader an error. By default it
// ends the process, if the file is standard error. The signal is not ignored, because
// programs that this one runs would ignore it too.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// newLog returns a logger and the queue that its lines go through to stderr.
func newLog(cfg config.Log, stderr io.Writer, terminal bool) (*logqueue.Queue, *slog.Logger) {
	queue := logqueue.New(stderr, func(lost int) []byte {
		var line bytes.Buffer
		record := slog.NewRecord(time.Now(), slog.LevelWarn, "lines of the log are lost here: nothing read it", 0)
		record.AddAttrs(slog.Int("lines", lost))
		_ = lineHandler(cfg, &line, terminal).Handle(context.Background(), record) // a buffer takes everything
		return line.Bytes()
	})
	return queue, slog.New(&logHandler{lineHandler(cfg, queue, terminal), queue})
}

// lineHandler returns the handler that makes the lines of a log.
func lineHandler(cfg config.Log, w io.Writer, terminal bool) slog.Handler {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // config allows only the levels of slog
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" || cfg.Format == "" && terminal {
		return slog.NewTextHandler(w, options)
	}
	return slog.NewJSONHandler(w, options)
}
