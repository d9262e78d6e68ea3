package audit

import (
	"context"
	"log/slog"
	"time"
)

// Message is the message of an audit event in the log, which tells it from other lines.
const Message = "audit"

// Recorder records audit events. It may be used concurrently: it does not change, and a
// slog.Handler is safe for concurrent use.
type Recorder struct {
	log slog.Handler
}

// NewRecorder returns a recorder that writes events to a log, at the level info.
func NewRecorder(log *slog.Logger) *Recorder { return &Recorder{log.Handler()} }

// Record records one event. It returns when the event is written, so that a caller may
// send an answer that tells of it.
func (r *Recorder) Record(event string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !r.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	record := slog.NewRecord(time.Now(), slog.LevelInfo, Message, 0)
	record.AddAttrs(slog.String("event", event))
	record.AddAttrs(attrs...)
	_ = r.log.Handle(ctx, record) // there is nowhere to report that the log fails
}
