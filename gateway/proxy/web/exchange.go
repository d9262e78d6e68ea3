package web

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"authgate/gateway/audit"
	"authgate/gateway/identity/auth"
	"authgate/gateway/store/guard"
	"authgate/gateway/wire/cors"
	"authgate/policy"
)

// Service is shared by the exchanges of a gateway, whatever the configuration.
type Service struct {
	Logger   *slog.Logger
	Events   *audit.Recorder
	Metrics  *Metrics
	Now      func() time.Time // the local clock
	Draining atomic.Bool      // clients must open new connections: the gateway is about to stop
}

// Lent is the part of a request that mechanisms see. They may keep it, because work that they begin
// can go on after the answer.
type Lent struct {
	Store       guard.Context // for everything that may call the store
	Credentials auth.Credentials
}

// Exchange is one request and the answer to it. It is the http.ResponseWriter
// of that request. Init makes it ready, and Finish ends it.
type Exchange struct {
	http.ResponseWriter // of the server
	Received
	Record
	*Lent

	CORS  *cors.Policy // of the route; nil before it is found
	OAuth bool         // errors are told as OAuth has them
	MCP   bool         // the route is for an MCP server
	// MessageID is the id of the message to that server, once it is read; nil: there is none.
	MessageID json.RawMessage
	SignIn    *SignInLink // for the page of an error; may be nil
	// TellsSignIn: a 401 has SignInHeader.
	TellsSignIn bool
	// LeadsAnywhere: the forms of the page lead on to an application that may be anywhere, as
	// those on the way to an OAuth client do.
	LeadsAnywhere bool
	// Again is where a user who chooses a language comes back to, on a page that answers a form, and can
	// be asked for again; empty: nowhere, unless a GET asked for the page.
	Again string
	Stale staleCookies

	pace  pacing
	site  *Site
	asked asked // what Request is if a proxy asks
}

// Init notes the arrival of a request.
func (ex *Exchange) Init(site *Site, w http.ResponseWriter, r *http.Request) {
	ex.ResponseWriter, ex.Request, ex.Peer = w, r, site.trusted.Read(r)
	ex.site = site
	ex.Stale = staleCookies{cookies: &site.Cookies, received: &ex.Received}
	ex.Lent = &Lent{Store: guard.Context{Context: r.Context()}}
	ex.Record = Record{
		Start: site.Service.Now(), ID: requestID(r.Header),
		Label: labelNone, Mechanism: string(policy.None), Decision: decisionError,
	}
}

// WriteHeader implements http.ResponseWriter.
func (ex *Exchange) WriteHeader(status int) {
	if quic := overQUIC(ex.Request); quic || ex.pace.upload.Unread() {
		ex.pace.goOn(ex.ResponseWriter, quic)
	}
	if status < 200 && status != http.StatusSwitchingProtocols { // the answer follows
		writeInformational(ex.ResponseWriter, ex.Request, status)
		return
	}
	ex.Status = status
	if status >= 200 && (ex.site.Service.Draining.Load() || ex.pace.lastOnConnection(ex.Request)) {
		ex.Header().Set("Connection", "close") // over HTTP/2 it makes the server send GOAWAY
	}
	ex.pace.answerFirst(ex.ResponseWriter, ex.Request, status)
	ex.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (ex *Exchange) Write(b []byte) (int, error) {
	if ex.Status == 0 {
		ex.WriteHeader(http.StatusOK)
	}
	if paced := ex.bytes+int64(len(b)) > unpacedAnswer || overQUIC(ex.Request); paced || ex.pace.upload.Unread() {
		ex.pace.goOn(ex.ResponseWriter, paced)
	}
	n, err := ex.ResponseWriter.Write(b)
	ex.bytes += int64(n)
	return n, err
}

// FlushError spares http.ResponseController the search by Unwrap: streams flush each
// message.
func (ex *Exchange) FlushError() error { return http.NewResponseController(ex.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach hijacking and deadlines.
func (ex *Exchange) Unwrap() http.ResponseWriter { return ex.ResponseWriter }

// LimitBody bounds the time for the rest of the request's body. It comes before every answer of the
// gateway's own: over HTTP/1.1 the server reads the rest of a small body before it sends a small
// answer, and would wait for it without bound.
func (ex *Exchange) LimitBody() { ex.pace.limitBody(ex.ResponseWriter, ex.Request) }

// Cut ends the answer within a time, even if the client does not read. Over
// HTTP/1.1 no request follows on the connection. Cut may be called concurrently
// with the other methods, but not after Finish.
func (ex *Exchange) Cut(within time.Duration) { ex.pace.cut(ex.ResponseWriter, within) }

// Authenticate asks the mechanisms of a chain for the identity that the request
// proves. On a page load, a cookie that is no longer valid counts as absent. Any
// other credential that is rejected ends the request.
func (ex *Exchange) Authenticate(chain auth.Chain) (*policy.Identity, error) {
	for {
		id, err := chain.Authenticate(&ex.Store, &ex.Credentials)
		if err == nil || errors.Is(err, auth.ErrNoCredentials) {
			return id, err
		}
		var rejection *auth.Rejection
		if !errors.As(err, &rejection) || rejection.Cookie == auth.NoCookie {
			return nil, err
		}
		ex.Stale.add(rejection)
		if !ex.PageLoad() {
			return nil, err
		}
		ex.Credentials.Forget(rejection.Cookie)
	}
}

// Audit writes one event, with the address of the client, to the audit log. The attributes must
// hold no secret and no text that the client chooses. It adds the method and the name of a message.
func (ex *Exchange) Audit(event string, attrs ...slog.Attr) {
	if method, name := ex.namesOfMessage(); method != "" {
		attrs = append(attrs, slog.String(methodField, method), slog.String(nameField, name))
	}
	ex.audit(ex.site.Service.Events, ex.Peer.Address, event, attrs)
}

// Finish counts and logs the request. aborted tells that the answer is not
// whole.
func (ex *Exchange) Finish(aborted bool) {
	if aborted && ex.err == nil {
		ex.err = errors.New("the answer was cut off")
	}
	if ex.Status != http.StatusSwitchingProtocols {
		ex.pace.unpaceAnswer(ex.ResponseWriter, ex.Request)
	}
	now := ex.site.Service.Now()
	took := now.Sub(ex.Start)
	series := ex.site.Service.Metrics.seriesOf(&ex.Record)
	series.count.Inc()
	ex.site.Service.Metrics.request(ex.Request.ProtoMajor)
	series.duration.Observe(took.Seconds())
	ex.log(series, &ex.Received, now, took)
}
