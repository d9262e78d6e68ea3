package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/wire/conn"
	"authgate/internal/test/logtest"
)

// stub is a gateway that answers 200, or as serve does.
type stub struct {
	config  config.Config
	serve   http.HandlerFunc
	ready   func(context.Context) error
	sockets conn.WebSockets
	drained atomic.Bool
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.drained.Load() {
		w.Header().Set("Connection", "close")
	}
	if s.serve != nil {
		s.serve(w, r)
	}
}

func (s *stub) HTTPRedirect(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusPermanentRedirect)
}

func (s *stub) Ready(ctx context.Context) error {
	if s.ready == nil {
		return nil
	}
	return s.ready(ctx)
}

func (s *stub) Config() *config.Config       { return &s.config }
func (s *stub) Drain()                       { s.drained.Store(true) }
func (s *stub) WebSockets() *conn.WebSockets { return &s.sockets }
func (s *stub) CloseIdleUpstreams()          {}

// ClientAuthorities implements served.
func (s *stub) ClientAuthorities(string) *x509.CertPool { return nil }

// certificates are those of no client.
type certificates []acme.Certificate

func (certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("there is none")
}
func (certificates) Refresh(*config.Config) error       { return nil }
func (c certificates) Certificates() []acme.Certificate { return c }

// issued are certificates of an authority that sends challenges to /challenge.
type issued struct {
	certificates
	closed atomic.Int32
}

func (*issued) AnswerChallenge(_ http.ResponseWriter, r *http.Request) bool {
	return r.URL.Path == "/challenge" // with status 200
}
func (*issued) Run(ctx context.Context) { <-ctx.Done() }
func (i *issued) Close()                { i.closed.Add(1) }

// options are those of a Server of g that logs to log.
func options(g *stub, log *logtest.Buffer) Options {
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return Options{Gateway: g, Registry: prometheus.NewRegistry(), Logger: logger, Log: stubLog{}, Events: stubLog{},
		Now: time.Now}
}

// stubLog is the problem of a log, of which three lines are lost.
type stubLog struct{ problem string }

func (l stubLog) Dropped() int    { return 3 }
func (l stubLog) Problem() string { return l.problem }

// door is a listener for the near ends of pipes.
type door struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newDoor() *door { return &door{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (d *door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.conns:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	select {
	case <-d.closed:
		return net.ErrClosed // as listeners of a network do
	default:
		close(d.closed)
		return nil
	}
}

func (d *door) Addr() net.Addr { return &net.UnixAddr{Name: "door"} }

// dial opens a connection.
func (d *door) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case d.conns <- there:
		return here, nil
	case <-d.closed:
		return nil, errors.New("connection refused")
	}
}
