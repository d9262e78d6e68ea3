package gateway

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/time/rate"

	"authgate/gateway/peer"
)

// refusalEvery is how often the log tells that connections of balancers were
// closed for want of a header.
const refusalEvery = time.Minute

// balanced returns the listener of that name, with connections from
// listen.proxy_protocol told apart. The admin listener has none.
func (s *Server) balanced(name string, listener net.Listener) (net.Listener, error) {
	balancers, err := trustedNetworks("listen.proxy_protocol", s.gateway.Config().Listen.ProxyProtocol)
	if err != nil {
		listener.Close()
		return nil, err
	}
	if name == "admin" || len(balancers) == 0 {
		return listener, nil
	}
	return &balancedListener{
		Listener: listener, balancers: balancers,
		logger: s.logger.With("listener", name), sometimes: rate.Sometimes{Interval: refusalEvery},
	}, nil
}

// balancedListener accepts connections of clients and of balancers on the
// transport layer. A balancer begins each connection with a header of the
// PROXY protocol, version 1 or 2, which names the client
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
type balancedListener struct {
	net.Listener // of halfConns
	balancers    peer.Proxies
	logger       *slog.Logger
	sometimes    rate.Sometimes
}

// Accept implements net.Listener. It does not wait for a header.
func (l *balancedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || !l.balancers.Contains(peer.ParseAddr(conn.RemoteAddr().String())) {
		return conn, err
	}
	return newBalancedConn(conn.(halfConn), l.refused), nil
}

// refused logs that a balancer sent something else than a header.
func (l *balancedListener) refused(balancer net.Addr) {
	l.sometimes.Do(func() {
		l.logger.Warn("a connection from listen.proxy_protocol was closed: it does not begin with a valid PROXY protocol header within "+
			readHeaderTime.String()+"; turn on the PROXY protocol at the balancer, or take its address out of the list",
			"balancer", balancer.String())
	})
}

// halfConn is a connection whose two directions close apart.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// balancedConn is a connection from a balancer. The first call of Read, Write,
// LocalAddr or RemoteAddr reads the header, for up to readHeaderTime, and
// without a valid one the connection is closed.
type balancedConn struct {
	*proxyproto.Conn
	raw     *receivingConn
	judge   sync.Once
	refused func(balancer net.Addr)
}

func newBalancedConn(conn halfConn, refused func(net.Addr)) *balancedConn {
	raw := &receivingConn{halfConn: conn}
	return &balancedConn{
		Conn: proxyproto.NewConn(raw,
			proxyproto.WithPolicy(proxyproto.REQUIRE),
			proxyproto.ValidateHeader(checkHeader),
			proxyproto.SetReadHeaderTimeout(readHeaderTime)),
		raw: raw, refused: refused,
	}
}

// checkHeader refuses a header that names no client, unless the balancer
// speaks for itself. The address of a client is one that a TCP connection can
// come from.
func checkHeader(h *proxyproto.Header) error {
	if h.Command.IsLocal() {
		return nil
	}
	source, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok {
		return errors.New("the header names no client of TCP over IPv4 or IPv6")
	}
	addr, _ := netip.AddrFromSlice(source.IP)
	if addr = addr.Unmap(); !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return errors.New("no connection comes from the address in the header")
	}
	return nil
}

// RemoteAddr implements net.Conn. It is the client's address where the header
// names one, and the balancer's otherwise. net/http asks for it first.
func (c *balancedConn) RemoteAddr() net.Addr {
	addr := c.Conn.RemoteAddr()
	c.judge.Do(func() {
		if c.ProxyHeader() != nil {
			return
		}
		if c.raw.received { // a balancer may see whether the port is open
			c.refused(addr)
		}
		c.raw.Close()
	})
	return addr
}

// CloseWrite implements halfConn.
func (c *balancedConn) CloseWrite() error { return c.raw.CloseWrite() }

// receivingConn remembers whether something came over it.
type receivingConn struct {
	halfConn
	received bool
}

// NetConn returns the connection below, which gateway/conn keeps account of.
func (c *receivingConn) NetConn() net.Conn { return c.halfConn }

// Read implements net.Conn.
func (c *receivingConn) Read(b []byte) (int, error) {
	n, err := c.halfConn.Read(b)
	if n > 0 && !c.received {
		c.received = true
	}
	return n, err
}
