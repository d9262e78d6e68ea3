package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/proxy/upstream/http2"
	"authgate/gateway/wire/conn"
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
	ignoreEOF       bool          // see http1.TLSConn
	limit           time.Duration // for the header of a response
	freeDescriptors func()        // frees file descriptors

	plain, secure *http1.Client // for http and unix, and for https
	http2, h2c    *http2.Client
	protocols     sync.Map // by the Host of the URL of a target: *protocol
}

// newTransport returns a transport. If a connection fails for lack of file
// descriptors, the transport calls freeDescriptors and tries once more.
func newTransport(
	cfg forwarding.Upstream, timeout time.Duration, strays *http1.Strays, freeDescriptors func(),
) *transport {
	t := &transport{
		dialer:          &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second},
		config:          tlsConfig(cfg.TLS),
		ignoreEOF:       cfg.TLS.IgnoreUnexpectedEOF,
		limit:           timeout,
		freeDescriptors: freeDescriptors,
	}
	if !cfg.ReuseConnections {
		t.config.NextProtos = []string{alpnHTTP1} // HTTP/2 shares a connection between requests
	}
	options := http1.Options{
		Timeout: timeout, MaxIdle: idlePerHost, MaxAge: cfg.ConnectionAge, NoReuse: !cfg.ReuseConnections,
		Strays:   strays,
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
	t.http2 = http2.New(http2.Options{
		Secure: true, Timeout: timeout, MaxAge: cfg.ConnectionAge, NoRepeat: options.NoRepeat,
		Dial: func(ctx context.Context, address string, wrap func(net.Conn) net.Conn) (net.Conn, error) {
			conn, err := t.dialTLS(ctx, address, alpnHTTP2, wrap)
			if err != nil {
				return nil, err
			}
			return conn, nil
		},
	})
	t.h2c = http2.New(http2.Options{
		Timeout: timeout, MaxAge: cfg.ConnectionAge, NoReuse: !cfg.ReuseConnections, NoRepeat: options.NoRepeat,
		Dial: func(ctx context.Context, address string, wrap func(net.Conn) net.Conn) (net.Conn, error) {
			network, address := socketOf(address)
			conn, err := t.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return wrap(conn), nil
		},
	})
	return t
}

// tlsConfig returns the configuration of connections to https targets.
func tlsConfig(cfg forwarding.UpstreamTLS) *tls.Config {
	c := &tls.Config{NextProtos: []string{alpnHTTP2, alpnHTTP1}, ServerName: cfg.ServerName}
	if len(cfg.CAContent) > 0 {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(cfg.CAContent) // package config has checked it; else it trusts none
	}
	if cfg.SHA256 != nil {
		c.InsecureSkipVerify = true // the certificate itself is known: its names and dates do not matter
		c.VerifyConnection = func(state tls.ConnectionState) error {
			return isCertificate(state.PeerCertificates[0], cfg.SHA256)
		}
	}
	if len(cfg.CertificateContent) > 0 {
		pair, err := tls.X509KeyPair(cfg.CertificateContent, []byte(cfg.KeyContent.Reveal()))
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &pair, err // package config has checked it; else the handshake fails
		}
	}
	return c
}

// errFingerprint means that a target has another certificate than tls.fingerprint says.
var errFingerprint = errors.New("the certificate is another one than tls.fingerprint names")

// isCertificate returns nil for the certificate with that hash.
func isCertificate(certificate *x509.Certificate, want []byte) error {
	if got := sha256.Sum256(certificate.Raw); !bytes.Equal(got[:], want) {
		return &tls.CertificateVerificationError{
			UnverifiedCertificates: []*x509.Certificate{certificate}, Err: errFingerprint,
		}
	}
	return nil
}

// roundTrip sends a request to a target, whose scheme and address are in its URL.
// again says that the request was sent before: then an idle connection, which may
// be closed at the other end, is not good enough.
func (t *transport) roundTrip(r *http.Request, again bool) (*http.Response, error) {
	client := t.secure
	switch r.URL.Scheme {
	case schemeHTTP, schemeUnix:
		return overHTTP1(t.plain, r, again)
	case schemeH2C, schemeUnixH2C:
		r.URL.Scheme, client = schemeHTTP, t.plain
	}
	if http1.Upgrades(r) { // which HTTP/2 cannot do (RFC 9113, section 8.6)
		return overHTTP1(client, withoutHTTP2(r), again)
	}
	restore, err := keepBody(r)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		restore()
		response, err := t.send(r, client, again)
		if needed, again := http2.NeedsHTTP1(err); needed {
			t.needsHTTP1(r.URL.Host)
			if again {
				return overHTTP1(client, withoutHTTP2(r), true)
			}
		}
		var other *protocolError
		if !errors.As(err, &other) || attempt == 2 {
			return response, err
		}
		t.chose(r.URL.Host, other.chosen)
	}
}

// send sends a request by the protocol that the target speaks. client is that for HTTP/1.1.
func (t *transport) send(r *http.Request, client *http1.Client, again bool) (*http.Response, error) {
	switch spoken, only := t.speaks(r.URL.Host); {
	case only:
		return overHTTP1(client, withoutHTTP2(r), again)
	case client == t.plain:
		return t.h2c.RoundTrip(r)
	case spoken == alpnHTTP2:
		return t.http2.RoundTrip(r)
	}
	return overHTTP1(client, r, again) // perhaps not known before the handshake
}

func overHTTP1(client *http1.Client, r *http.Request, again bool) (*http.Response, error) {
	if again {
		return client.Again(r)
	}
	return client.RoundTrip(r)
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
	if spoken, _ := t.speaks(target.dial); spoken == alpnHTTP2 {
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
	t.chose(r.URL.Host, other.chosen)
	return t.roundTrip(r, true)
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
	network, address := socketOf(withPort(address, "80")) // of a target that speaks HTTP/2 as a rule
	return t.dial(ctx, network, address)
}

// socketDomain ends the hosts that mean sockets. No name in the DNS ends so.
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
func (t *transport) dialTLS(
	ctx context.Context, address, wanted string, wrap func(net.Conn) net.Conn,
) (*http1.TLSConn, error) {
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
		config.ServerName = withoutZone(host)
	}
	if mustBeHTTP1(ctx) {
		config.NextProtos = []string{alpnHTTP1}
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
	conn.IgnoreEOF = t.ignoreEOF || chosen == alpnHTTP2 // whose streams have ends of their own
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
