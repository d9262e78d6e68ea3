package web

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"time"

	"authgate/gateway/proxy/upstream"
)

// LibraryLog returns a logger for libraries that write lines of text, such as
// net/http. Each line becomes a record of h. Libraries quote bytes from the wire, which may be part
// of an answer, so quoted text is left out.
func LibraryLog(h slog.Handler, level slog.Level) *log.Logger {
	return log.New(&libraryLog{h, level}, "", 0)
}

// libraryLog makes records of lines.
type libraryLog struct {
	handler slog.Handler
	level   slog.Level
}

// Write implements io.Writer.
func (l *libraryLog) Write(line []byte) (int, error) {
	ctx := context.Background()
	if !l.handler.Enabled(ctx, l.level) {
		return len(line), nil
	}
	text := upstream.Unquoted(string(bytes.TrimSpace(line)))
	return len(line), l.handler.Handle(ctx, slog.NewRecord(time.Now(), l.level, clip(text), 0))
}
