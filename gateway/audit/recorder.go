package audit

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Message is the message of an audit event in the log, which tells it from other lines.
const Message = "audit"

// Recorder records audit events. It may be used concurrently: it does not change, a slog.Handler
// is safe for concurrent use, and so is the file.
type Recorder struct {
	log   slog.Handler
	file  *file // nil: none
	sends []func(event slog.Record)
}

// NewRecorder returns a recorder that writes events to a log, at the level info. It gives each event to
// the functions too, whatever the level of the log; they must neither change it nor wait.
func NewRecorder(log *slog.Logger, sends ...func(event slog.Record)) *Recorder {
	return &Recorder{log: log.Handler(), sends: sends}
}

// WithFile is NewRecorder with a file that gets every event too, whatever the level of the log. The
// key and the state of the file are in dataDir. A file that cannot be written is no error: the
// recorder says so in the log, in Problem and in a metric, and tries again each second.
func WithFile(
	log *slog.Logger, path, dataDir string, registry prometheus.Registerer, sends ...func(event slog.Record),
) (*Recorder, error) {
	key, err := KeepKey(dataDir)
	if err != nil {
		return nil, err
	}
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "authgate_audit_failures_total", Help: "Audit events that could not be written to log.audit_file.",
	})
	if err := registry.Register(failures); err != nil {
		return nil, err
	}
	r := NewRecorder(log, sends...)
	r.file = newFile(path, dataDir, key, log)
	r.file.written, r.file.count = r.publish, failures.Inc
	r.file.write(nil)
	return r, nil
}

// Record records one event. It returns when the event is written, so that a caller may
// send an answer that tells of it.
func (r *Recorder) Record(event string, attrs ...slog.Attr) {
	if r.file == nil && len(r.sends) == 0 && !r.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	record := newRecord(event, attrs...)
	if r.file != nil {
		record = r.file.write(&record)
	}
	r.publish(record)
}

// publish sends an event on, with its seq and mac if there is a file.
func (r *Recorder) publish(event slog.Record) {
	if ctx := context.Background(); r.log.Enabled(ctx, slog.LevelInfo) {
		_ = r.log.Handle(ctx, event) // there is nowhere to report that the log fails
	}
	for _, send := range r.sends {
		send(event)
	}
}

// Problem returns why the file cannot be written, or an empty string.
func (r *Recorder) Problem() string {
	if r.file == nil {
		return ""
	}
	return r.file.why()
}

// Close closes the file. Events that come later are in the log alone.
func (r *Recorder) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.close()
}

func newRecord(event string, attrs ...slog.Attr) slog.Record {
	record := slog.NewRecord(time.Now(), slog.LevelInfo, Message, 0)
	record.AddAttrs(slog.String("event", event))
	for _, attr := range attrs {
		if attr, ok := clean(attr); ok {
			record.AddAttrs(attr)
		}
	}
	return record
}

// clean returns a field with its text escaped. It returns false for a field without a value.
func clean(attr slog.Attr) (slog.Attr, bool) {
	if texts, ok := attr.Value.Any().([]string); ok {
		escaped := make([]string, len(texts))
		for i, text := range texts {
			escaped[i] = Escape(text)
		}
		return slog.Any(attr.Key, escaped), true
	}
	if attr.Value.Kind() == slog.KindString {
		attr.Value = slog.StringValue(Escape(attr.Value.String()))
		return attr, attr.Value.String() != "" || attr.Key == "subject" // without an identity, it is empty
	}
	return attr, true
}

// Escape returns a text with its control and format characters, and the bytes that are not UTF-8,
// as Go writes them in a string.
func Escape(text string) string {
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
