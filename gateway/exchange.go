package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/conn"
	"authgate/gateway/peer"
	"authgate/gateway/store/guard"
	"authgate/policy"
)

// exchange is one request on its way through the gateway and the answer to
// it. It is the http.ResponseWriter of that request, so that status and size
// are known however the answer is made.
type exchange struct {
	http.ResponseWriter
	gw *Gateway
	st *state // as it was when the request came
	r  *http.Request

	start     time.Time
	requestID string
	peer      peer.Peer      // who is connected, and on whose behalf
	req       policy.Request // what is decided on
	creds     auth.Credentials
	body      []byte        // of a request to an own endpoint
	cleartext bool          // came by plain HTTP
	foreign   bool          // for a host that is not the gateway's
	dead      []string      // names of cookies that are no longer valid
	rule      *policy.Route // that decides; nil for own endpoints

	label      string // route or own endpoint, for metrics and logs
	mechanism  string // that proved the identity, else "none"
	decision   string // allow, challenge, forbid or error
	reason     string // of the decision, for operators
	challenges []auth.Challenge
	id         *policy.Identity
	err        error

	status int // 0 until the answer has begun
	bytes  int64
	paced  time.Time       // when the time limit of the answer was moved on
	upload *pacedBody      // the request's body on its way to an upstream; nil if there is none
	socket *conn.WebSocket // that the connection has become
	giveUp func()          // closes the upstream's connection; nil where nothing has to
	stream stream          // what looks whether the login goes on

	storage guard.Context // for everything that may call the store

	counted     bool // as under way
	bodyLimited bool // there is a time limit for the request's body
	toldEnded   bool // the answer says that the login has ended
}

// begin notes the arrival of a request.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	st := g.state.Load()
	return &exchange{
		ResponseWriter: w, gw: g, st: st, r: r, counted: g.take(st.inFlight),
		start: g.now(), requestID: requestID(r.Header), storage: guard.Context{Context: r.Context()},
		label: labelNone, mechanism: string(policy.None), decision: decisionError,
	}
}

// WriteHeader implements http.ResponseWriter.
func (ex *exchange) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		ex.status = status // 1xx are followed by the real one
	} else {
		delete(ex.Header(), "Set-Cookie") // an upstream's: nothing has looked at it
	}
	if ex.upload != nil {
		ex.upload.move()
	}
	if status >= 200 && ex.gw.draining.Load() {
		ex.Header().Set("Connection", "close") // over HTTP/2 it makes the server send GOAWAY
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		ex.hint(status)
		return
	}
	if status >= 200 && ex.r.ProtoMajor == 1 && ex.stream.ended.Load() != nil {
		ex.Header().Set("Connection", "close") // its context and deadlines are those of the connection
	}
	ex.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (ex *exchange) Write(b []byte) (int, error) {
	if ex.status == 0 {
		ex.WriteHeader(http.StatusOK)
	}
	if ex.bytes+int64(len(b)) > unpacedAnswer {
		ex.paceAnswer()
	}
	if ex.upload != nil {
		ex.upload.move()
	}
	n, err := ex.ResponseWriter.Write(b)
	ex.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach flushing, hijacking and deadlines.
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.ResponseWriter }

// Hijack implements http.Hijacker. The proxy writes the header of a 101 to the
// connection itself.
func (ex *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	socket, rw, err := ex.gw.sockets.Hijack(http.NewResponseController(ex.ResponseWriter).Hijack, ex.giveUp)
	if err != nil {
		return nil, nil, err
	}
	ex.status = http.StatusSwitchingProtocols
	ex.becomes(socket)
	return socket, rw, nil
}

// limitBody bounds the time for what is left of the request's body. It comes
// before every answer of the gateway's own: over HTTP/1.1 the server reads the
// rest of a small body before it sends a small answer, and would wait for it
// for ever. The limit ends with the request: the server sets another one for
// the next on the connection.
func (ex *exchange) limitBody() {
	if ex.bodyLimited || ex.r.ContentLength == 0 {
		return
	}
	ex.bodyLimited = true
	// Servers that know no deadlines (tests) have none to miss.
	_ = http.NewResponseController(ex.ResponseWriter).SetReadDeadline(time.Now().Add(ownBodyTime))
}

// strictTransport makes browsers come by https alone (RFC 6797, section 7.1).
// Over cleartext they would not believe it.
func (ex *exchange) strictTransport() {
	if ex.st.hsts != "" && !ex.cleartext {
		ex.Header().Set("Strict-Transport-Security", ex.st.hsts)
	}
}

// outcome notes what became of a request that was answered with an error.
func (ex *exchange) outcome(e *httpError) {
	switch e.status {
	case http.StatusUnauthorized:
		ex.decision = decisionChallenge
	case http.StatusForbidden:
		ex.decision = decisionForbid
	default:
		ex.decision = decisionError
	}
}

// finish counts and logs the request. A panic of ours becomes a 500; the
// panic that aborts a broken response goes on.
func (ex *exchange) finish() {
	panicked := recover()
	if panicked != nil && panicked != http.ErrAbortHandler {
		ex.gw.logger.Error("panic", "request_id", ex.requestID, "panic", panicked, "stack", stack())
		panicked = ex.failAfterPanic()
	}
	if ended := ex.gw.streams.remove(ex); ended != nil && !ex.toldEnded {
		panicked, ex.err = http.ErrAbortHandler, ended // so that the answer does not seem whole
	}
	if panicked != nil && ex.err == nil {
		ex.err = errors.New("the answer was cut off")
	}
	ex.unpaceAnswer()
	now := ex.gw.now()
	took := now.Sub(ex.start)
	series := ex.gw.metrics.kindOf(ex.label, ex.mechanism, ex.decision, ex.status)
	series.count.Inc()
	series.duration.Observe(took.Seconds())
	ex.log(series.log, now, took)
	if ex.counted && ex.gw.underWay.Add(-1) == 0 {
		ex.gw.idle()
	}
	if ex.socket != nil {
		ex.gw.sockets.Remove(ex.socket)
	}
	if panicked != nil {
		panic(http.ErrAbortHandler)
	}
}

// failAfterPanic answers 500. It returns nil, or what fail panics with when
// the answer has begun already.
func (ex *exchange) failAfterPanic() (panicked any) {
	defer func() { panicked = recover() }()
	ex.fail(&httpError{status: http.StatusInternalServerError, detail: "The gateway failed."})
	return nil
}

// log writes the one line of the access log to h. It holds no query, no
// header but Host, and no body: those may carry secrets.
func (ex *exchange) log(h slog.Handler, now time.Time, took time.Duration) {
	level := slog.LevelInfo
	if ex.status >= 500 {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !h.Enabled(ctx, level) {
		return
	}
	attrs := [...]slog.Attr{
		slog.String("request_id", ex.requestID),
		slog.String("client", ex.peer.Address),
		slog.String("method", clip(ex.r.Method)),
		slog.String("host", clip(ex.r.Host)),
		slog.String("path", ex.path()),
		slog.String("protocol", ex.r.Proto),
		slog.Int64("bytes", ex.bytes),
		slog.Int64("duration_us", took.Microseconds()),
		{}, {}, // an attribute without a key is left out
	}
	if ex.id != nil {
		attrs[len(attrs)-2] = slog.String("subject", ex.id.Subject)
	}
	switch {
	case ex.stream.ended.Load() != nil:
		attrs[len(attrs)-1] = slog.String("reason", ex.stream.ended.Load().Error())
	case ex.reason != "" && (ex.decision == decisionChallenge || ex.decision == decisionForbid):
		attrs[len(attrs)-1] = slog.String("reason", ex.reason)
	case ex.err != nil:
		attrs[len(attrs)-1] = slog.String("error", ex.err.Error())
	}
	// Without a Logger, which would look up who called it.
	record := slog.NewRecord(now, level, AccessMessage, 0)
	record.AddAttrs(attrs[:]...)
	_ = h.Handle(ctx, record) // there is nowhere to say that the log fails
}

// path is the path as received, for the log, without the query. A target that
// was refused may hold a fragment, or be no path at all but a URL with a
// password in it.
func (ex *exchange) path() string {
	path := ex.req.Path.Raw
	if path == "" && strings.HasPrefix(ex.r.RequestURI, "/") {
		path = ex.r.RequestURI
		if end := strings.IndexAny(path, "?#"); end >= 0 {
			path = path[:end]
		}
	}
	return clip(path)
}

// clip bounds what a client may put into a line of the log.
func clip(s string) string { return s[:min(len(s), 1024)] }

// requestID is the client's X-Request-Id where that is 1 to 128 of
// A-Za-z0-9._-, else a new one.
func requestID(h http.Header) string {
	if values := h["X-Request-Id"]; len(values) == 1 && validRequestID(values[0]) {
		return values[0]
	}
	// It has to be unique and not secret, so it need not come from the system.
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
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
