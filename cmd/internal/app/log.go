package app

import (
	"context"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"authgate/gateway"
	"authgate/gateway/config"
)

const (
	// logBuffer is how many bytes of the access log wait to be written.
	logBuffer = 32 << 10
	// logDelay is how long they wait at most.
	logDelay = 100 * time.Millisecond
)

// logOutput is a writer that gathers lines under load, so that a request does
// not cost a system call of its own.
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

// Write implements io.Writer. It never fails: there is nowhere to say so.
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

// Flush writes what waits.
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

// logHandler writes everything at once but the lines of the access log. Those
// wait until no request is under way, the buffer is full, or logDelay is over.
type logHandler struct {
	slog.Handler
	out *logOutput
}

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Message != gateway.AccessMessage || r.Level > slog.LevelInfo {
		h.out.Flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs), h.out}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.out}
}

// TakeStandardLog makes what libraries write to the standard logger of the
// process a part of this log. It is for the program, which has one App.
func (a *App) TakeStandardLog() {
	log.SetFlags(0)
	log.SetOutput(gateway.LibraryLog(a.logger.Handler(), slog.LevelWarn).Writer())
}

func newLogger(cfg config.Log, out *logOutput) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // config allows the levels of slog alone
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(logHandler{slog.NewTextHandler(out, options), out})
	}
	return slog.New(logHandler{slog.NewJSONHandler(out, options), out})
}
