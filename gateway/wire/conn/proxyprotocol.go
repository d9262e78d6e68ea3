package conn

import (
	"bytes"
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

// proxyListener is a listener for clients and for load balancers on the
// transport layer. A load balancer begins each connection with a header of the
// PROXY protocol, version 1 or 2, that names the client
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
type proxyListener struct {
	net.Listener
	balancers  []netip.Prefix
	headerTime time.Duration
	logger     *slog.Logger
	warning    rate.Sometimes
}

// NewProxyProtocol returns a listener on l. A connection from one of balancers
// must begin with a header within headerTime; otherwise it is closed. Other
// connections are those of clients, and stay unchanged. The connections of l
// must have a method CloseWrite, as those of a Set have.
func NewProxyProtocol(
	l net.Listener, balancers []netip.Prefix, headerTime time.Duration, logger *slog.Logger,
) net.Listener {
	return &proxyListener{
		Listener: l, balancers: balancers, headerTime: headerTime,
		logger: logger, warning: rate.Sometimes{Interval: warnEvery},
	}
}

// Accept implements net.Listener. It does not wait for a header.
func (l *proxyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || !l.fromBalancer(conn.RemoteAddr()) {
		return conn, err
	}
	return newBalancedConn(conn.(halfConn), l.headerTime, l.refused), nil
}

// fromBalancer reports whether an address is that of a load balancer.
func (l *proxyListener) fromBalancer(remote net.Addr) bool {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(l.balancers, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// refused logs that a load balancer sent no valid header.
func (l *proxyListener) refused(balancer net.Addr) {
	l.warning.Do(func() {
		l.logger.Warn("closed a connection from an address in listen.proxy_protocol: "+
			"it did not begin with a valid PROXY protocol header within "+
			l.headerTime.String()+"; "+
			"turn on the PROXY protocol at the load balancer, or remove its address from the list",
			"balancer", balancer.String())
	})
}

// halfConn is a connection whose directions can be closed separately.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// balancedConn is a connection from a load balancer. The first call of Read,
// Write, LocalAddr or RemoteAddr reads the header. It closes the connection if
// there is no valid one.
type balancedConn struct {
	*proxyproto.Conn
	raw     *receivingConn
	check   sync.Once
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

// checkHeader returns an error if a header names a client of TCP that no connection can
// come from. Any other client than one of TCP stands for the load balancer itself, as UNKNOWN
// does in version 1.
func checkHeader(h *proxyproto.Header) error {
	source, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok || h.Command.IsLocal() {
		return nil
	}
	addr, _ := netip.AddrFromSlice(source.IP)
	if addr = addr.Unmap(); !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return errors.New("no connection can come from the address in the header")
	}
	return nil
}

// RemoteAddr implements net.Conn. It returns the address of the client if the
// header names one, and that of the load balancer otherwise. net/http calls it
// before any other method.
func (c *balancedConn) RemoteAddr() net.Addr {
	addr := c.Conn.RemoteAddr()
	if _, ok := addr.(*net.TCPAddr); !ok {
		addr = c.raw.RemoteAddr()
	}
	c.check.Do(func() {
		if c.ProxyHeader() != nil {
			return
		}
		if c.raw.received { // a load balancer may probe the port without a byte
			c.refused(addr)
		}
		c.raw.Close()
	})
	return addr
}

// CloseWrite implements halfConn.
func (c *balancedConn) CloseWrite() error { return c.raw.CloseWrite() }

// receivingConn records whether a byte has come. It changes a header of version 2 that
// names nobody, because the library refuses one that is not LOCAL.
type receivingConn struct {
	halfConn
	received bool
	begun    bool // the beginning of the header was read
}

// NetConn returns the connection below, for under.
func (c *receivingConn) NetConn() net.Conn { return c.halfConn }

// Read implements net.Conn.
func (c *receivingConn) Read(b []byte) (n int, err error) {
	if c.begun || len(b) < len(proxyproto.SIGV2)+2 {
		n, err = c.halfConn.Read(b)
	} else {
		n, err = c.readBeginning(b)
	}
	if n > 0 && !c.received {
		c.received = true
	}
	return n, err
}

// Bytes of a header of version 2, after the signature: the version with the command, and the
// family with the protocol.
const (
	commandLocal, commandProxy = 0x20, 0x21
	familyUnspecified          = 0x00
)

// readBeginning reads the bytes that tell a header from other data. It turns PROXY
// without an address into LOCAL: the connection is the load balancer's own.
func (c *receivingConn) readBeginning(b []byte) (n int, err error) {
	c.begun = true
	command, family := len(proxyproto.SIGV2), len(proxyproto.SIGV2)+1
	for err == nil && n <= family && bytes.HasPrefix(proxyproto.SIGV2, b[:min(n, command)]) {
		var more int
		more, err = c.halfConn.Read(b[n:])
		n += more
	}
	if n > family && bytes.HasPrefix(b, proxyproto.SIGV2) &&
		b[command] == commandProxy && b[family] == familyUnspecified {
		b[command] = commandLocal
	}
	if n > 0 {
		err = nil // the next Read returns it again
	}
	return n, err
}
