package app

import (
	"context"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/web"
)

const (
	// logBuffer is how many bytes of the access log are buffered.
	logBuffer = 32 << 10
	// logDelay is how long they are buffered at most.
	logDelay = 100 * time.Millisecond
)

// logOutput is a writer that collects lines under load, to save one system call for
// each request.
type logOutput struct {
	mu    sync.Mutex
	w     io.Writer
	lines []byte
	timer *time.Timer
}

func newLogOutput(w io.Writer) *logOutput {
	o := &logOutput{w: w}
	o.timer = time.AfterFunc(logDelay, o.Flush)
	o.timer.Stop()
	return o
}

// Write implements io.Writer. It never fails, because a failed write could not be
// logged.
func (o *logOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) == 0 {
		o.timer.Reset(logDelay)
	}
	o.lines = append(o.lines, line...)
	if len(o.lines) >= logBuffer {
		o.flush()
	}
	return len(line), nil
}

// Flush writes the buffered lines.
func (o *logOutput) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
}

func (o *logOutput) flush() {
	if len(o.lines) > 0 {
		_, _ = o.w.Write(o.lines)
		o.lines = o.lines[:0]
		o.timer.Stop()
	}
}

// logHandler buffers the lines of the access log until no request is in progress,
// the buffer is full, or logDelay has passed. It writes all other lines at once.
type logHandler struct {
	slog.Handler
	out *logOutput
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Message != web.AccessMessage || r.Level > slog.LevelInfo {
		h.out.Flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.out}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.out}
}

// TakeStandardLog sends the lines that libraries write to the standard logger to
// this log. The standard logger is global, so only a program with one App calls it.
func (a *App) TakeStandardLog() {
	log.SetFlags(0)
	log.SetOutput(web.LibraryLog(a.logger.Handler(), slog.LevelWarn).Writer())
}

func newLogger(cfg config.Log, out *logOutput, terminal bool) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // config allows only the levels of slog
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" || cfg.Format == "" && terminal {
		return slog.New(&logHandler{slog.NewTextHandler(out, options), out})
	}
	return slog.New(&logHandler{slog.NewJSONHandler(out, options), out})
}
