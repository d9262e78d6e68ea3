package web

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"authgate/gateway/audit"
	"authgate/gateway/config"
	"authgate/policy"
)

// Values of the label decision.
const (
	DecisionAllow     = "allow"
	DecisionChallenge = "challenge"
	decisionForbid    = "forbid"
	decisionError     = "error"
)

// labelNone is the label of a request that reached no route.
const labelNone = "none"

// Record has the values of an exchange for metrics and logs.
type Record struct {
	Start     time.Time
	ID        string           // of the request; the client, the log and the upstream see the same
	Label     string           // the route or own endpoint
	Mechanism string           // that proved the identity, else "none"
	Decision  string           // one of the decisions above
	Reason    string           // of the decision, for operators
	Identity  *policy.Identity // nil if none is proved
	Status    int              // of the answer; 0 until it has begun
	TraceID   string           // empty without tracing

	bytes int64 // of the answer's body
	err   error // the failure that the answer tells of, or that cut it off
	ended bool  // the gateway ended the answer, because of err
}

// Identify notes the identity that the request proves, if any.
func (r *Record) Identify(id *policy.Identity) {
	if id != nil {
		r.Identity, r.Mechanism = id, string(id.Mechanism)
	}
}

// Failed notes a failure and the decision that belongs to its status.
func (r *Record) Failed(err error, status int) {
	r.err = err
	switch status {
	case http.StatusUnauthorized:
		r.Decision = DecisionChallenge
	case http.StatusForbidden, http.StatusOK: // which refuses a message
		r.Decision = decisionForbid
	default:
		r.Decision = decisionError
	}
}

// End notes that the gateway ended the answer, and why.
func (r *Record) End(why error) { r.err, r.ended = why, true }

// log writes the record of the access log. It holds no query, no header
// but Host, and no body: those may carry secrets.
func (r *Record) log(series *requestSeries, received *Received, now time.Time, took time.Duration) {
	level := slog.LevelInfo
	if r.Status >= 500 {
		level = slog.LevelWarn
	}
	if !series.log.Enabled(context.Background(), level) {
		return
	}
	if received.Request.ProtoMajor > 1 {
		growStack()
	}
	r.write(series, received, level, now, took)
}

// write writes a record that is not left out for log. Its frame is large.
func (r *Record) write(
	series *requestSeries, received *Received, level slog.Level, now time.Time, took time.Duration,
) {
	memory := series.lines.Get().(*line)
	defer series.lines.Put(memory)
	attrs := append(memory[:0],
		slog.String("request_id", r.ID),
		slog.String("client", received.Peer.Address),
		slog.String("method", clip(received.Request.Method)),
		slog.String("host", clip(received.Request.Host)),
		slog.String("path", received.LoggedPath()),
		slog.String("protocol", received.Request.Proto),
		slog.Int64("bytes", r.bytes),
		slog.Int64("duration_us", took.Microseconds()),
	)
	if r.TraceID != "" {
		attrs = append(attrs, slog.String("trace_id", r.TraceID))
	}
	if received.Verify {
		attrs = append(attrs, slog.Bool("verify", true))
	}
	if r.Identity != nil {
		attrs = append(attrs, slog.String("subject", r.Identity.Subject))
		if r.Identity.Actor != "" {
			attrs = append(attrs, slog.String("actor", r.Identity.Actor))
		}
	}
	if method, name := received.namesOfMessage(); method != "" {
		attrs = append(attrs, slog.String(methodField, method))
		if name != "" {
			attrs = append(attrs, slog.String(nameField, name))
		}
	}
	switch {
	case r.ended:
		attrs = append(attrs, slog.String("reason", r.err.Error()))
	case r.Reason != "" && (r.Decision == DecisionChallenge || r.Decision == decisionForbid):
		attrs = append(attrs, slog.String("reason", r.Reason))
	case r.err != nil:
		attrs = append(attrs, slog.String("error", r.err.Error()))
	}
	// Without a Logger, which would look up its caller. A group without a name is
	// its attributes, and unlike these it fits into a record without allocation.
	record := slog.NewRecord(now, level, config.AccessMessage, 0)
	record.AddAttrs(slog.Attr{Value: slog.GroupValue(attrs...)})
	_ = series.log.Handle(context.Background(), record) // there is nowhere to report that the log fails
}

// recordRoom is about the stack space of a record of the access log, in bytes.
const recordRoom = 3 << 10

// Fields about the message for an MCP server.
const methodField, nameField = "mcp_method", "mcp_name"

// namesOfMessage returns the method and the name of a message for the log. Both are empty without one.
func (r *Received) namesOfMessage() (method, name string) {
	m := r.Canonical.Message
	if m == nil || m.Method == "" {
		return "", ""
	}
	return Shown(m.Method), Shown(m.Name)
}

// growStack makes the stack of the goroutine large enough for a record of the access log. Servers
// of HTTP/2 and HTTP/3 start a goroutine for each request, with a stack that is large enough for
// the request but not for log/slog. It would grow where the calls are deepest, and copy the frames
// of all of them: a GET over HTTP/2 would cost 3 % more.
//
//go:noinline
func growStack() byte {
	var room [recordRoom]byte
	return last(room[:])
}

// last stops the compiler from removing room.
//
//go:noinline
func last(b []byte) byte { return b[len(b)-1] }

func (r *Record) audit(events *audit.Recorder, client, event string, attrs []slog.Attr) {
	attrs = append([]slog.Attr{
		slog.String("request_id", r.ID),
		slog.String("client", client),
		slog.String("route", r.Label),
	}, attrs...)
	if r.Identity != nil && !slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "subject" }) {
		attrs = append(attrs, slog.String("subject", r.Identity.Subject), slog.String("login", r.Identity.Login))
		if r.Identity.Actor != "" {
			attrs = append(attrs, slog.String("actor", r.Identity.Actor))
		}
	}
	events.Record(event, attrs...)
}

// line has the attributes of a record of the access log. Handlers must not keep
// them: the next record uses the memory again.
type line [15]slog.Attr

// clip bounds the text of a client in a record of the log, and escapes characters on which a terminal could act.
func clip(s string) string { return audit.Escape(s[:min(len(s), 1024)]) }

// mostNamed is how many characters of a name in a message are shown.
const mostNamed = 128

// Shown returns the first characters of a name in a message, and escapes those that are not printable.
func Shown(name string) string {
	n := 0
	for end := range name {
		if n++; n > mostNamed {
			name = name[:end]
			break
		}
	}
	return audit.Escape(name)
}

// requestID returns the client's X-Request-Id if that is 1 to 128 of
// A-Za-z0-9._-, else a new one.
func requestID(h http.Header) string {
	if values := h["X-Request-Id"]; len(values) == 1 && validRequestID(values[0]) {
		return values[0]
	}
	// It must be unique, not secret, so it need not come from the system.
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}

func validRequestID(id string) bool {
	if len(id) == 0 || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
