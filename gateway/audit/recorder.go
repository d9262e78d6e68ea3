package audit

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	for _, attr := range attrs {
		if attr, ok := clean(attr); ok {
			record.AddAttrs(attr)
		}
	}
	_ = r.log.Handle(ctx, record) // there is nowhere to report that the log fails
}

// clean returns a field with its text escaped. It returns false for a field without a value.
func clean(attr slog.Attr) (slog.Attr, bool) {
	if texts, ok := attr.Value.Any().([]string); ok {
		escaped := make([]string, len(texts))
		for i, text := range texts {
			escaped[i] = escape(text)
		}
		return slog.Any(attr.Key, escaped), true
	}
	if attr.Value.Kind() == slog.KindString {
		attr.Value = slog.StringValue(escape(attr.Value.String()))
		return attr, attr.Value.String() != "" || attr.Key == "subject" // without an identity, it is empty
	}
	return attr, true
}

// escape returns a text with its control and format characters, and the bytes that are not UTF-8,
// as Go writes them in a string.
func escape(text string) string {
	plain := func(c rune) bool { return c >= ' ' && c <= '~' }
	if strings.IndexFunc(text, func(c rune) bool { return !plain(c) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		c, size := utf8.DecodeRuneInString(text)
		switch invalid := c == utf8.RuneError && size == 1; {
		case !invalid && unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}
