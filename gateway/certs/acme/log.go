package acme

import (
	"context"
	"log/slog"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A client can make certmagic log by asking for challenges that do not exist.
// Therefore lines that differ only in their attributes are written at most sameLines
// times in samePeriod.
const (
	samePeriod = time.Minute
	sameLines  = 20
)

// newLogger returns a logger for certmagic that writes to logger.
func newLogger(logger *slog.Logger) *zap.Logger {
	core := &logCore{handler: logger.Handler()}
	return zap.New(zapcore.NewSamplerWithOptions(core, samePeriod, sameLines, 0))
}

// logCore is a zapcore.Core that passes everything to a slog.Handler.
type logCore struct{ handler slog.Handler }

var levels = map[zapcore.Level]slog.Level{
	zapcore.DebugLevel: slog.LevelDebug,
	zapcore.InfoLevel:  slog.LevelInfo,
	zapcore.WarnLevel:  slog.LevelWarn,
}

// levelOf returns the level in slog. Everything above a warning is an error.
func levelOf(level zapcore.Level) slog.Level {
	if known, ok := levels[level]; ok {
		return known
	}
	return slog.LevelError
}

// Enabled implements zapcore.LevelEnabler.
func (c *logCore) Enabled(level zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), levelOf(level))
}

// With implements zapcore.Core.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{handler: c.handler.WithAttrs(attrs(fields))}
}

// Check implements zapcore.Core.
func (c *logCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *logCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(entry.Time, levelOf(entry.Level), "certificates: "+entry.Message, 0)
	record.AddAttrs(attrs(fields)...)
	return c.handler.Handle(context.Background(), record)
}

// Sync implements zapcore.Core. The handler does not buffer.
func (c *logCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	encoder := zapcore.NewMapObjectEncoder()
	attrs := make([]slog.Attr, 0, len(fields))
	for _, field := range fields {
		field.AddTo(encoder)
		if value, ok := encoder.Fields[field.Key]; ok {
			attrs = append(attrs, slog.Any(field.Key, value))
		}
	}
	return attrs
}
