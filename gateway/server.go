package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"authgate/gateway/acme"
	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/conn"
)

const (
	// readHeaderTime bounds how slowly a client may send its request header.
	readHeaderTime = 10 * time.Second
	// idleTime is how long a connection may wait for its next request.
	idleTime = 2 * time.Minute
)

// Server is a Gateway on its listeners: https, plain http, and admin.
type Server struct {
	gateway *Gateway
	logger  *slog.Logger
	certs   certs.Source  // nil where a proxy terminates TLS
	acme    *acme.Manager // certs, where they come from an authority; else nil
	serving []serving
	clients *conn.Set // connections of the public listeners
	probes  *conn.Set // connections of the admin listener
}

// serving is one listener and what answers on it.
type serving struct {
	name     string
	listener net.Listener
	server   *http.Server
}

// NewServer opens the listeners of the gateway's configuration. Metrics are
// what gatherer has. Serve closes what NewServer opened.
func NewServer(g *Gateway, gatherer prometheus.Gatherer) (*Server, error) {
	cfg := g.Config()
	s := &Server{
		gateway: g, logger: g.logger,
		clients: conn.NewSet(conn.Options{Limit: g.budget.Clients, Logger: g.logger, Short: g.closeIdleUpstreams}),
		probes:  conn.NewSet(conn.Options{Logger: g.logger, Short: g.closeIdleUpstreams}),
	}
	load := newLoadCollector(g)
	var err error
	if s.certs, err = g.OpenCertificates(); err != nil {
		return nil, fmt.Errorf("opening the certificates: %w", err)
	}
	s.acme, _ = s.certs.(*acme.Manager)
	if err := s.watchExpiry(); err != nil {
		s.closeCertificates()
		return nil, err
	}
	plain := http.Handler(http.HandlerFunc(s.servePlain))
	if cfg.TLS.Mode == config.TLSOff {
		plain = g // a trusted proxy speaks https with the clients
	}
	for _, l := range []struct {
		name, address string
		handler       http.Handler
	}{
		{"https", cfg.Listen.HTTPS, g},
		{"http", cfg.Listen.HTTP, plain},
		{"admin", cfg.Listen.Admin, s.admin(gatherer)},
	} {
		if l.address == "" || (l.name == "https" && s.certs == nil) {
			continue
		}
		listener, err := s.listen(l.name, l.address, l.handler)
		if err != nil {
			s.close()
			return nil, err
		}
		load.listeners[l.name] = listener
	}
	if err := g.registerer.Register(load); err != nil {
		s.close()
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return s, nil
}

func (s *Server) listen(name, address string, handler http.Handler) (*conn.Listener, error) {
	opened, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen.%s: %w", name, err)
	}
	connections := s.connections(name)
	accounted := connections.Listener(opened)
	var listener net.Listener = accounted
	if balancers := s.gateway.Config().Listen.ProxyProtocol; name != "admin" && len(balancers) > 0 {
		listener = conn.NewProxyProtocol(accounted, balancers, readHeaderTime, s.logger.With("listener", name))
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    s.gateway.Config().Limits.MaxHeaderBytes,
		ConnContext:       conn.Context,
		ConnState:         connections.State,
		ErrorLog:          LibraryLog(s.logger.Handler(), slog.LevelDebug), // failed handshakes, mostly

		// "OPTIONS *" asks for no path, and net/http would answer it 200.
		DisableGeneralOptionsHandler: true,
	}
	if name == "https" {
		server.TLSConfig = certs.TLSConfig(s.certs)
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	s.serving = append(s.serving, serving{name: name, listener: listener, server: server})
	return accounted, nil
}

// connections is the Set of the connections of a listener.
func (s *Server) connections(name string) *conn.Set {
	if name == "admin" {
		return s.probes
	}
	return s.clients
}

func (s *Server) close() {
	for _, l := range s.serving {
		l.listener.Close()
	}
	s.closeCertificates()
}

func (s *Server) closeCertificates() {
	if s.acme != nil {
		s.acme.Close()
	}
}

// watchExpiry lets the metrics tell when the certificates expire.
func (s *Server) watchExpiry() error {
	if s.certs == nil {
		return nil
	}
	if err := s.gateway.registerer.Register(certs.NewCollector(s.certs, s.gateway.now)); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// servePlain answers cleartext HTTP. An authority that asks whether this is
// the server of a name sends no credential.
func (s *Server) servePlain(w http.ResponseWriter, r *http.Request) {
	if s.acme != nil && s.acme.AnswerChallenge(w, r) {
		return
	}
	s.gateway.servePlain(w, r)
}

// Address returns where the listener of that name (https, http, admin) can be
// reached; empty when there is none.
func (s *Server) Address(name string) string {
	for _, l := range s.serving {
		if l.name == name {
			return l.listener.Addr().String()
		}
	}
	return ""
}

// Serve answers requests until ctx ends, then drains.
// It returns nil after such a stop, and an error when a listener failed.
func (s *Server) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range s.serving {
		s.logger.Info("listening", "listener", l.name, "address", l.listener.Addr().String())
		group.Go(func() error {
			if err := l.server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("listen.%s: %w", l.name, err)
			}
			return nil
		})
	}
	if s.acme != nil {
		group.Go(func() error {
			s.acme.Run(ctx)
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

// RefreshCertificates looks for newer certificate files.
func (s *Server) RefreshCertificates() error {
	if s.certs == nil {
		return nil
	}
	return s.certs.Refresh()
}
