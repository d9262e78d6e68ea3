package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/time/rate"

	"authgate/gateway/certs"
	"authgate/gateway/wire/clientcert"
	"authgate/gateway/wire/conn"
)

const (
	// requestStreams is how many requests a client may have in flight on a
	// connection. RFC 9114, section 6.1, asks for at least 100.
	requestStreams = 100
	// controlStreams is how many other streams it may open. It needs three (RFC
	// 9114, section 6.2).
	controlStreams = 8
	// trustedAttempts is how many connections a second may begin without a proof
	// of the client's address (RFC 9000, section 8.1.2).
	trustedAttempts = 100
)

// http3Listener serves HTTP/3 (RFC 9114) on a UDP socket. Requests get the same
// handler as those over TCP, and the same limits as far as QUIC has them.
type http3Listener struct {
	socket    *net.UDPConn
	transport *quic.Transport
	listener  *quic.Listener // nil before listen
	server    *http3.Server
	clients   *quicSet
	served    chan struct{} // closed when the server accepts no connection any more
}

// openHTTP3 opens the listener for HTTP/3.
func (s *Server) openHTTP3(address string) (*http3Listener, error) {
	most, idle := conn.Divide(conn.Files()).Clients, s.gateway.Config().Listen.IdleTimeout
	l := &http3Listener{
		socket: s.sockets.takeDatagrams(), clients: newQUICSet(most, idle, s.logger), served: make(chan struct{}),
	}
	if l.socket == nil {
		opened, err := net.ListenPacket("udp", address)
		if err != nil {
			return nil, fmt.Errorf("listen.%s: %w", nameHTTP3, err)
		}
		l.socket = opened.(*net.UDPConn)
	}
	unproved := rate.NewLimiter(trustedAttempts, trustedAttempts)
	l.transport = &quic.Transport{
		Conn: l.socket, ConnContext: l.clients.attempt,
		VerifySourceAddress: func(net.Addr) bool { return !unproved.Allow() },
	}
	l.server = &http3.Server{
		TLSConfig:      http3.ConfigureTLSConfig(certs.TLSConfig(s.certs, s.gateway.ClientAuthorities)),
		ConnContext:    func(ctx context.Context, _ *quic.Conn) context.Context { return clientcert.Context(ctx) },
		Handler:        &http3Handler{next: s.gateway, clients: l.clients},
		MaxHeaderBytes: s.gateway.Config().Limits.MaxHeaderBytes,
		Logger:         slog.New(warnings{s.logger.With("listener", nameHTTP3).Handler()}),
	}
	return l, nil
}

// listen begins to answer clients. It is not a part of openHTTP3, because quic-go warns
// of small buffers on the standard logger, which the program takes over in between.
func (l *http3Listener) listen() (err error) {
	// Not a quic.EarlyListener, and no 0-RTT: an attacker could replay requests
	// (RFC 8470).
	l.listener, err = l.transport.Listen(l.server.TLSConfig, &quic.Config{
		HandshakeIdleTimeout: readHeaderTime / 2, // quic-go ends a handshake after twice this time
		MaxIdleTimeout:       l.clients.idleTime,
		MaxIncomingStreams:   requestStreams, MaxIncomingUniStreams: controlStreams,
		InitialStreamReceiveWindow: streamWindow, MaxStreamReceiveWindow: streamWindow,
		InitialConnectionReceiveWindow: requestStreams * streamWindow,
		MaxConnectionReceiveWindow:     requestStreams * streamWindow,
	})
	if err != nil {
		return fmt.Errorf("listen.%s: %w", nameHTTP3, err)
	}
	return nil
}

// warnings is a handler for the log of http3, whose debug lines have whole URLs.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// serveHTTP3 answers requests until shutdown.
func (l *http3Listener) serveHTTP3() error {
	defer close(l.served)
	if err := l.server.ServeListener(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen.%s: %w", nameHTTP3, err)
	}
	return nil
}

// Accept implements http3.QUICListener.
func (l *http3Listener) Accept(ctx context.Context) (*quic.Conn, error) {
	accepted, err := l.listener.Accept(ctx)
	if err == nil {
		l.clients.accept(accepted)
	}
	return accepted, err
}

// Addr implements http3.QUICListener.
func (l *http3Listener) Addr() net.Addr { return l.socket.LocalAddr() }

// Close implements http3.QUICListener. New clients are refused from then on.
func (l *http3Listener) Close() error { return l.listener.Close() }

// shutdown refuses new clients, sends GOAWAY, and waits for the requests in
// flight and until clients have their answers. It cuts off the rest when ctx
// ends. The caller has begun serveHTTP3.
func (l *http3Listener) shutdown(ctx context.Context) error {
	defer l.close()
	l.Close()
	<-l.served // a connection that is accepted later would not get a GOAWAY
	go l.clients.leave(ctx)
	return l.server.Shutdown(ctx)
}

// close closes everything at once.
func (l *http3Listener) close() {
	if l.listener != nil {
		l.transport.Close()
	}
	l.socket.Close()
}
