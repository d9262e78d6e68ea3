package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/conn"
	"authgate/gateway/upstream/http1"
)

// Protocol names in the handshake of TLS (RFC 7301; RFC 9113, section 3.1).
const (
	alpnHTTP1 = "http/1.1"
	alpnHTTP2 = "h2"
)

// transport sends requests to the targets of an upstream, with one time limit
// for the header of a response. It uses HTTP/2 with h2c and unix+h2c targets, and with https
// targets that choose it in the handshake, and HTTP/1.1 with all others.
type transport struct {
	dialer          *net.Dialer
	config          *tls.Config
	limit           time.Duration // for the header of a response
	freeDescriptors func()        // frees file descriptors

	plain, secure *http1.Client // for http and unix, and for https
	http2, h2c    *http.Transport
	buffers       conn.Buffers // of connections over HTTP/2
	protocols     sync.Map     // what an https target chose last, by the Host of its URL
}

// newTransport returns a transport. If a connection fails for lack of file
// descriptors, the transport calls freeDescriptors and tries once more.
func newTransport(cfg config.Upstream, timeout time.Duration, strays *http1.Strays, freeDescriptors func()) *transport {
	t := &transport{
		dialer:          &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second},
		config:          tlsConfig(cfg.TLS),
		limit:           timeout,
		freeDescriptors: freeDescriptors,
	}
	if !cfg.ReuseConnections {
		t.config.NextProtos = []string{alpnHTTP1} // HTTP/2 shares a connection between requests
	}
	options := http1.Options{
		Timeout: timeout, MaxIdle: idlePerHost, NoReuse: !cfg.ReuseConnections, Strays: strays,
		NoRepeat: cfg.Retries == 0 || len(cfg.URLs) > 1, // with several targets, another one gets the request
	}
	options.Dial = t.dialPlain
	t.plain = http1.New(options)
	options.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := t.dialTLS(ctx, withPort(address, "443"), alpnHTTP1, func(c net.Conn) net.Conn { return c })
		if err != nil {
			return nil, err // conn would be a net.Conn that is not nil
		}
		return conn, nil
	}
	t.secure = http1.New(options)
	t.http2 = t.newHTTP2()
	t.http2.ForceAttemptHTTP2 = true
	t.http2.DialTLSContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := t.dialTLS(ctx, address, alpnHTTP2, t.guard)
		if err != nil {
			return nil, err
		}
		return conn.Conn, nil // net/http looks for a *tls.Conn
	}
	t.h2c = t.newHTTP2()
	t.h2c.Protocols = new(http.Protocols)
	t.h2c.Protocols.SetUnencryptedHTTP2(true)
	t.h2c.DisableKeepAlives = !cfg.ReuseConnections
	t.h2c.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		network, address := socketOf(address)
		conn, err := t.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return t.guard(conn), nil
	}
	return t
}

// newHTTP2 returns a transport for HTTP/2 that cannot dial yet.
func (t *transport) newHTTP2() *http.Transport {
	return &http.Transport{
		ResponseHeaderTimeout: t.limit,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   idlePerHost,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true, // the upstream gets the client's Accept-Encoding
	}
}

func (t *transport) guard(c net.Conn) net.Conn {
	g := &conn.Gatherer{Conn: &stallGuard{Conn: c, limit: t.limit}, Buffers: &t.buffers}
	g.Keep(conn.KeepAll)
	return g
}

// tlsConfig returns the configuration of connections to https targets.
func tlsConfig(cfg config.UpstreamTLS) *tls.Config {
	c := &tls.Config{NextProtos: []string{alpnHTTP2, alpnHTTP1}, ServerName: cfg.ServerName}
	if len(cfg.CAContent) > 0 {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(cfg.CAContent) // package config has checked it; else it trusts none
	}
	if len(cfg.CertificateContent) > 0 {
		pair, err := tls.X509KeyPair(cfg.CertificateContent, []byte(cfg.KeyContent.Reveal()))
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &pair, err // package config has checked it; else the handshake fails
		}
	}
	return c
}

// roundTrip sends a request to a target, whose scheme and address are in its URL.
// again says that the request was sent before: then an idle connection, which may
// be closed at the other end, is not good enough.
func (t *transport) roundTrip(r *http.Request, again bool) (*http.Response, error) {
	over1 := func(c *http1.Client) (*http.Response, error) {
		if again {
			return c.Again(r)
		}
		return c.RoundTrip(r)
	}
	switch r.URL.Scheme {
	case schemeHTTP, schemeUnix:
		return over1(t.plain)
	case schemeH2C, schemeUnixH2C:
		r.URL.Scheme = schemeHTTP
		return t.overHTTP2(t.h2c, r)
	}
	restore, err := keepBody(r)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		restore()
		protocol, _ := t.protocols.Load(r.URL.Host)
		var response *http.Response
		if protocol == alpnHTTP2 {
			response, err = t.overHTTP2(t.http2, r)
		} else { // HTTP/1.1, or not known before the handshake
			response, err = over1(t.secure)
		}
		var other *protocolError
		if !errors.As(err, &other) || attempt == 2 {
			return response, err
		}
		t.protocols.Store(r.URL.Host, other.chosen)
	}
}

// fast returns the client whose fast path leads to a target, or nil if the target
// chose HTTP/2.
func (t *transport) fast(target *target) *http1.Client {
	switch target.url.Scheme {
	case schemeHTTP, schemeUnix:
		return t.plain
	case schemeH2C, schemeUnixH2C:
		return nil
	}
	if protocol, _ := t.protocols.Load(target.dial); protocol == alpnHTTP2 {
		return nil
	}
	return t.secure
}

// finish goes on with a request that the fast path has sent. If it must be sent
// again, the target may have chosen HTTP/2 meanwhile.
func (t *transport) finish(r *http.Request, rest http.RoundTripper) (*http.Response, error) {
	response, err := rest.RoundTrip(r)
	var other *protocolError
	if !errors.As(err, &other) {
		return response, err
	}
	t.protocols.Store(r.URL.Host, other.chosen)
	return t.roundTrip(r, true)
}

// overHTTP2 sends a request over HTTP/2, whose connections carry the requests of several
// people: none of them may sign the connection in.
func (t *transport) overHTTP2(way *http.Transport, r *http.Request) (*http.Response, error) {
	if http1.Negotiates(r.Header["Authorization"]) {
		q := *r
		q.Header = r.Header.Clone()
		q.Header.Del("Authorization")
		r = &q
	}
	response, err := way.RoundTrip(r)
	if err != nil {
		return nil, withoutQuotes(err)
	}
	response.Body = &bodyHTTP2{response.Body}
	return response, nil
}

// CloseIdleConnections closes the idle connections.
func (t *transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.secure.CloseIdleConnections()
	t.http2.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
}

// dial opens a connection to a target.
func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := t.dialer.DialContext(ctx, network, address)
	if conn.OutOfDescriptors(err) {
		t.freeDescriptors()
		c, err = t.dialer.DialContext(ctx, network, address)
	}
	return c, err
}

// dialPlain opens a connection to an http target or, by its path, to a socket.
func (t *transport) dialPlain(ctx context.Context, address string) (net.Conn, error) {
	if strings.HasPrefix(address, "/") {
		return t.dial(ctx, "unix", address)
	}
	return t.dial(ctx, "tcp", withPort(address, "80"))
}

// socketDomain ends the hosts that stand for sockets. No name in the DNS ends so.
const socketDomain = ".socket.invalid"

// socketHost returns a host for the path of a socket: http.Transport takes only the
// form of a host, and keeps connections by it.
func socketHost(path string) string { return hex.EncodeToString([]byte(path)) + socketDomain }

// socketOf returns the network and the address to dial for HOST:PORT, which
// may be one of socketHost.
func socketOf(address string) (network, dial string) {
	host, _, _ := net.SplitHostPort(address)
	if encoded, found := strings.CutSuffix(host, socketDomain); found {
		if path, err := hex.DecodeString(encoded); err == nil {
			return "unix", string(path)
		}
	}
	return "tcp", address
}

// dialTLS opens a connection to an https target. It fails with a *protocolError
// if the target chooses another protocol than wanted. wrap returns the connection
// below TLS.
func (t *transport) dialTLS(ctx context.Context, address, wanted string, wrap func(net.Conn) net.Conn) (*http1.TLSConn, error) {
	raw, err := t.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		raw.Close()
		return nil, err
	}
	config := t.config.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	limited, cancel := context.WithTimeout(ctx, t.dialer.Timeout)
	defer cancel()
	conn, err := http1.Handshake(limited, wrap(raw), config)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		// The balancer treats it like an address that refuses the connection.
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: raw.RemoteAddr(), Err: os.ErrDeadlineExceeded}
	case err != nil:
		return nil, err
	}
	chosen := conn.ConnectionState().NegotiatedProtocol
	if chosen != alpnHTTP2 {
		chosen = alpnHTTP1
	}
	if chosen != wanted {
		conn.Close()
		return nil, &protocolError{chosen}
	}
	return conn, nil
}

// protocolError means that an https target chose another protocol than before.
// No request was sent.
type protocolError struct{ chosen string }

func (e *protocolError) Error() string { return "the target chose the protocol " + e.chosen }

// withPort returns host with port unless it has one.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// keepBody returns a function that restores the body of a request after an
// attempt that got no connection. It reads a small body into memory, because
// http1 reads one before it connects.
func keepBody(r *http.Request) (restore func(), err error) {
	body := r.Body
	switch {
	case body == nil || body == http.NoBody:
		return func() {}, nil
	case r.ContentLength <= 0 || r.ContentLength > http1.SmallBody || r.Header["Expect"] != nil:
		r.Body = io.NopCloser(body) // a failed attempt must not close it; the server closes it
		return func() {}, nil
	}
	small := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(body, small); err != nil {
		return nil, err
	}
	return func() { r.Body = io.NopCloser(bytes.NewReader(small)) }, nil
}

// errHTTP2 replaces errors of net/http that may quote what the upstream sent.
var errHTTP2 = errors.New("the exchange over HTTP/2 failed")

// withoutQuotes returns err, or errHTTP2 if err may quote what the upstream sent.
func withoutQuotes(err error) error {
	var (
		network     net.Error
		certificate *tls.CertificateVerificationError
		other       *protocolError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, http1.ErrInformational), errors.Is(err, http.ErrBodyReadAfterClose),
		errors.As(err, &network), errors.As(err, &certificate), errors.As(err, &other):
		return err
	}
	return errHTTP2
}

// bodyHTTP2 is the body of a response over HTTP/2.
type bodyHTTP2 struct{ io.ReadCloser }

// Read implements io.Reader.
func (b *bodyHTTP2) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = withoutQuotes(err)
	}
	return n, err
}

// stallGuard is a connection for HTTP/2 on which a write fails if the upstream
// does not read for the time limit. The limit of http.Transport begins only when
// the whole request is written.
type stallGuard struct {
	net.Conn
	limit   time.Duration
	written atomic.Int64 // bytes since the upstream last sent something
	armed   atomic.Bool  // a deadline is set
}

// socketBuffer is how many bytes the buffers of a socket take in any case. They
// need no deadline, which would cost small requests a timer.
const socketBuffer = 16 << 10

// Write implements net.Conn. Each part has the time limit, however many writes a
// Gatherer has joined.
func (c *stallGuard) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var written int
		written, err = c.write(b[n:min(n+socketBuffer, len(b))])
		n += written
	}
	return n, err
}

func (c *stallGuard) write(b []byte) (int, error) {
	var deadline time.Time
	guard := c.written.Add(int64(len(b))) > socketBuffer
	if guard {
		deadline = time.Now().Add(c.limit)
	}
	if c.armed.Swap(guard) || guard {
		if err := c.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

func (c *stallGuard) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.written.Store(0)
	}
	return n, err
}
