package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/clientcert"
	"authgate/gateway/wire/conn"
)

// readHeaderTime is how long a client may take to send the header of a
// request, and a balancer to send a PROXY protocol header.
const readHeaderTime = 10 * time.Second

// Names of the listeners, in log lines, metrics and Server.Address.
const (
	nameHTTPS = "https"
	nameHTTP3 = "http3"
	nameHTTP  = "http"
	nameAdmin = "admin"
)

// served is the gateway of a Server. *gateway.Gateway implements it.
type served interface {
	http.Handler // requests over TLS, or of a proxy that terminates TLS
	// HTTPRedirect answers requests over plain HTTP.
	HTTPRedirect(http.ResponseWriter, *http.Request)
	// Config returns the configuration that runs.
	Config() *config.Config
	// ClientAuthorities returns whose certificates a client is asked for that opens a connection
	// for a host, or nil.
	ClientAuthorities(host string) *x509.CertPool
	// Ready returns why the gateway should get no requests, or nil.
	Ready(context.Context) error
	// Drain makes each answer ask its client to use another connection.
	Drain()
	// WebSockets returns connections that http.Server does not know.
	WebSockets() *conn.WebSockets
	// CloseIdleUpstreams frees file descriptors.
	CloseIdleUpstreams()
}

// logState tells whether the lines of a log get written. *logqueue.Queue implements it.
type logState interface {
	// Problem returns why lines are lost or late, or an empty string.
	Problem() string
	// Dropped returns how many lines were ever lost.
	Dropped() int
}

// eventState tells whether audit events get written. *audit.Recorder implements it.
type eventState interface {
	// Problem returns why events are lost to the audit file, or an empty string.
	Problem() string
}

// Options are the parts of a Server. All but Certificates and Sockets are required.
type Options struct {
	Gateway      served
	Certificates certs.Source         // nil if a proxy terminates TLS; the Server closes it
	Sockets      Sockets              // take the place of those that New would open
	Registry     *prometheus.Registry // gets the metrics of the Server, and is shown at /metrics
	Logger       *slog.Logger
	Log          logState // of Logger
	Events       eventState
	Now          func() time.Time
}

// Server runs a gateway on its listeners: https, http3, http and admin.
type Server struct {
	gateway  served
	logger   *slog.Logger
	log      logState
	events   eventState
	certs    certs.Source // nil if a proxy terminates TLS
	sockets  Sockets      // that no listener has taken
	issuer   issuer       // certs if an authority issues them, else nil
	serving  []serving
	http3    *http3Listener // nil if there is none
	instance string         // see InstanceOf
	clients  *conn.Set      // connections of the public listeners
	probes   *conn.Set      // connections of the admin listener
	draining atomic.Bool
}

// issuer gets certificates from an authority. *acme.Manager implements it.
type issuer interface {
	// AnswerChallenge answers r if it is a challenge of the authority.
	AnswerChallenge(w http.ResponseWriter, r *http.Request) bool
	// Run obtains and renews certificates until ctx ends.
	Run(ctx context.Context)
	// Close ends the work of Run.
	Close()
}

// serving is one listener and the server on it.
type serving struct {
	name      string
	listener  net.Listener
	inherited *inheritedListener // below listener, if its socket stays open when the gateway ends; else nil
	server    *http.Server
}

// New opens the listeners of the configuration that o.Gateway runs. Clients can
// connect from then on; Serve answers them, and closes the listeners.
func New(o Options) (*Server, error) {
	s := newServer(o)
	collector, err := s.open(o)
	if err == nil {
		err = s.register(o, collector)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// newServer returns a Server without listeners.
func newServer(o Options) *Server {
	s := &Server{
		gateway: o.Gateway, logger: o.Logger, log: o.Log, events: o.Events,
		certs: o.Certificates, sockets: o.Sockets,
		instance: InstanceOf(o.Gateway.Config().DataDir),
		clients: conn.NewSet(conn.Options{
			Limit: conn.Divide(conn.Files()).Clients, Logger: o.Logger, FreeDescriptors: o.Gateway.CloseIdleUpstreams,
		}),
		probes: conn.NewSet(conn.Options{Logger: o.Logger, FreeDescriptors: o.Gateway.CloseIdleUpstreams}),
	}
	s.issuer, _ = o.Certificates.(issuer)
	return s
}

// open opens the listeners.
func (s *Server) open(o Options) (*connectionCollector, error) {
	cfg := s.gateway.Config()
	overHTTP := http.Handler(http.HandlerFunc(s.serveHTTP))
	if cfg.TLS.Off() {
		overHTTP = s.gateway // a trusted proxy terminates TLS
	}
	collector := newConnectionCollector()
	for _, l := range []struct {
		name, address string
		handler       http.Handler
	}{
		{nameHTTPS, cfg.Listen.HTTPS, s.gateway},
		{nameHTTP, cfg.Listen.HTTP, overHTTP},
		{nameAdmin, cfg.Listen.Admin, s.admin(o.Registry)},
	} {
		if l.address == "" || (l.name == nameHTTPS && s.certs == nil) {
			continue
		}
		listener, err := s.listen(l.name, l.address, l.handler)
		if err != nil {
			return nil, err
		}
		collector.listeners[l.name] = listener
	}
	if cfg.Listen.HTTP3 != "" && s.certs != nil {
		var err error
		if s.http3, err = s.openHTTP3(cfg.Listen.HTTP3); err != nil {
			return nil, err
		}
		collector.listeners[nameHTTP3] = s.http3.clients
	}
	return collector, s.sockets.left()
}

// register registers the metrics of connections, certificates and the log.
func (s *Server) register(o Options, collector *connectionCollector) error {
	err := errors.Join(o.Registry.Register(collector), o.Registry.Register(droppedLines(o.Log)))
	if err == nil && s.certs != nil {
		err = o.Registry.Register(certs.NewCollector(s.certs, o.Now))
	}
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// listen opens a listener. The returned one, below the PROXY protocol and TLS,
// counts connections.
func (s *Server) listen(name, address string, handler http.Handler) (*conn.Listener, error) {
	opened, inherited, err := s.openSocket(name, address)
	if err != nil {
		return nil, err
	}
	if name == nameAdmin {
		handler = loopbackNames(handler, opened.Addr(), address)
	}
	connections := s.connections(name)
	counted := connections.Listener(opened)
	var listener net.Listener = counted
	if balancers := s.gateway.Config().Listen.ProxyProtocol; name != nameAdmin && len(balancers) > 0 {
		listener = conn.NewProxyProtocol(counted, balancers, readHeaderTime, s.logger.With("listener", name))
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTime,
		IdleTimeout:       s.gateway.Config().Listen.IdleTimeout,
		MaxHeaderBytes:    s.gateway.Config().Limits.MaxHeaderBytes,
		ConnContext:       conn.Context,
		ConnState:         connections.State,
		ErrorLog:          web.LibraryLog(s.logger.Handler(), slog.LevelDebug), // mostly failed handshakes

		HTTP2: windows(),

		// net/http would answer "OPTIONS *" with 200.
		DisableGeneralOptionsHandler: true,
	}
	switch {
	case name == nameHTTPS:
		server.TLSConfig = certs.TLSConfig(s.certs, s.gateway.ClientAuthorities)
		server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return clientcert.Context(conn.Context(ctx, c))
		}
		listener = conn.NewSecure(listener, server.TLSConfig, readHeaderTime, server.ErrorLog)
	case name == nameHTTP:
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(s.certs == nil) // proxies that terminate TLS send gRPC by HTTP/2 alone
		listener = conn.Cleartext{Listener: listener}
	}
	s.serving = append(s.serving, serving{name: name, listener: listener, inherited: inherited, server: server})
	return counted, nil
}

// openSocket returns the socket that the process got for a listener, or opens one. inherited is nil
// for the latter.
func (s *Server) openSocket(name, address string) (opened net.Listener, inherited *inheritedListener, err error) {
	if socket := s.sockets.takeStream(name); socket != nil {
		inherited = newInheritedListener(socket)
		return inherited, inherited, nil
	}
	if opened, err = net.Listen("tcp", address); err != nil {
		return nil, nil, fmt.Errorf("listen.%s: %w%s", name, err, listenHint(err))
	}
	return opened, nil, nil
}

// connections returns the Set that a listener's connections belong to.
func (s *Server) connections(name string) *conn.Set {
	if name == nameAdmin {
		return s.probes
	}
	return s.clients
}

// close closes the listeners.
func (s *Server) close() {
	for _, l := range s.serving {
		l.listener.Close()
	}
	if s.http3 != nil {
		s.http3.close()
	}
	s.closeCertificates()
}

func (s *Server) closeCertificates() {
	if s.issuer != nil {
		s.issuer.Close()
	}
}

// serveHTTP answers plain HTTP. An ACME challenge needs no credential, so it is
// answered before the gateway looks for one.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if s.issuer != nil && s.issuer.AnswerChallenge(w, r) {
		return
	}
	s.gateway.HTTPRedirect(w, r)
}

// Address returns the address of the listener of that name (https, http3, http,
// admin), or an empty string if there is none.
func (s *Server) Address(name string) string {
	if name == nameHTTP3 && s.http3 != nil {
		return s.http3.Addr().String()
	}
	for _, l := range s.serving {
		if l.name == name {
			return l.listener.Addr().String()
		}
	}
	return ""
}

// Serve answers requests until ctx ends, and then drains. It returns nil after
// that, and an error if a listener fails.
func (s *Server) Serve(ctx context.Context) error {
	if s.http3 != nil {
		if err := s.http3.listen(); err != nil {
			s.close()
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range s.serving {
		s.logger.Info("listening", "listener", l.name, "address", l.listener.Addr().String(),
			"inherited", l.inherited != nil)
		group.Go(func() error {
			if err := l.server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("listen.%s: %w", l.name, err)
			}
			return nil
		})
	}
	if s.http3 != nil {
		s.logger.Info("listening", "listener", nameHTTP3, "address", s.http3.Addr().String())
		group.Go(s.http3.serveHTTP3)
	}
	if s.issuer != nil {
		group.Go(func() error {
			s.issuer.Run(ctx)
			return nil
		})
		defer s.closeCertificates()
	}
	group.Go(func() error {
		<-ctx.Done()
		s.drain()
		return nil
	})
	return group.Wait()
}

// RefreshCertificates gets the certificates that the running configuration names, and
// reads files again. After an error the certificates in use stay.
func (s *Server) RefreshCertificates() error {
	if s.certs == nil {
		return nil
	}
	return s.certs.Refresh(s.gateway.Config())
}
