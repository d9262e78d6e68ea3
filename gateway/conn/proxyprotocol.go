package conn

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/time/rate"
)

// refusalEvery is how often the log tells that connections of balancers were
// closed for want of a header.
const refusalEvery = time.Minute

// ProxyProtocol is a listener for connections of clients and of balancers on
// the transport layer. A balancer begins each connection with a header of the
// PROXY protocol, version 1 or 2, which names the client
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
type ProxyProtocol struct {
	net.Listener // of halfConns
	balancers    []netip.Prefix
	headerTime   time.Duration
	logger       *slog.Logger
	sometimes    rate.Sometimes
}

// NewProxyProtocol returns a listener that expects a header on connections from
// balancers, within headerTime. Other connections it leaves as they are.
func NewProxyProtocol(l net.Listener, balancers []netip.Prefix, headerTime time.Duration, logger *slog.Logger) *ProxyProtocol {
	return &ProxyProtocol{
		Listener: l, balancers: balancers, headerTime: headerTime,
		logger: logger, sometimes: rate.Sometimes{Interval: refusalEvery},
	}
}

// Accept implements net.Listener. It does not wait for a header.
func (l *ProxyProtocol) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || !l.fromBalancer(conn.RemoteAddr()) {
		return conn, err
	}
	return newBalancedConn(conn.(halfConn), l.headerTime, l.refused), nil
}

// fromBalancer reports whether an address is that of a balancer.
func (l *ProxyProtocol) fromBalancer(remote net.Addr) bool {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(l.balancers, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// refused logs that a balancer sent something else than a header.
func (l *ProxyProtocol) refused(balancer net.Addr) {
	l.sometimes.Do(func() {
		l.logger.Warn("a connection from listen.proxy_protocol was closed: it does not begin with a valid PROXY protocol header within "+
			l.headerTime.String()+"; turn on the PROXY protocol at the balancer, or take its address out of the list",
			"balancer", balancer.String())
	})
}

// halfConn is a connection whose two directions close apart.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// balancedConn is a connection from a balancer. The first call of Read, Write,
// LocalAddr or RemoteAddr reads the header, for a bounded time, and
// without a valid one the connection is closed.
type balancedConn struct {
	*proxyproto.Conn
	raw     *receivingConn
	judge   sync.Once
	refused func(balancer net.Addr)
}

func newBalancedConn(conn halfConn, headerTime time.Duration, refused func(net.Addr)) *balancedConn {
	raw := &receivingConn{halfConn: conn}
	return &balancedConn{
		Conn: proxyproto.NewConn(raw,
			proxyproto.WithPolicy(proxyproto.REQUIRE),
			proxyproto.ValidateHeader(checkHeader),
			proxyproto.SetReadHeaderTimeout(headerTime)),
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

// NetConn returns the connection below, which a Set keeps account of.
func (c *receivingConn) NetConn() net.Conn { return c.halfConn }

// Read implements net.Conn.
func (c *receivingConn) Read(b []byte) (int, error) {
	n, err := c.halfConn.Read(b)
	if n > 0 && !c.received {
		c.received = true
	}
	return n, err
}
