package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/conn"
	"authgate/gateway/upstream/http1"
)

const (
	// streamWindow is how much of a response may wait for its client, in bytes.
	streamWindow = 128 << 10
	// pingAfter is how long a connection may be silent before it is asked for a sign
	// of life, and pingWait how long that may take.
	pingAfter = 5 * time.Second
	pingWait  = 4 * time.Second
	// idleLives is how long an idle connection is kept.
	idleLives = time.Minute
	// continueAfter is how long a body with "Expect: 100-continue" waits for the 100.
	continueAfter = time.Second
	// mostDials bounds how often a request waits for a connection that then has no room for it.
	mostDials = 16
	// mostAttempts bounds how often a request is sent that the upstream has not
	// processed (RFC 9113, section 8.7).
	mostAttempts = 3
)

// Options are the parts of a Client.
type Options struct {
	// Dial opens a connection to HOST:PORT that speaks HTTP/2. wrap returns the
	// connection below TLS. The client closes the connection.
	Dial func(ctx context.Context, address string, wrap func(net.Conn) net.Conn) (net.Conn, error)
	// Secure says that Dial returns a *tls.Conn.
	Secure bool
	// Timeout is how long the header of a response may take after the request was
	// written, and how long an upstream may pause in reading the request.
	Timeout time.Duration
	// NoReuse gives each request a new connection.
	NoReuse bool
	// NoRepeat means that no request that the upstream may have processed is sent a second time.
	NoRepeat bool
}

// Client sends requests to upstreams over HTTP/2. It is safe for concurrent use.
type Client struct {
	options   Options
	scheme    string
	transport *http.Transport // opens connections
	buffers   conn.Buffers

	mu    sync.Mutex
	conns map[string][]*connection // by address, those that take requests
	dials map[string]*dialing
}

// dialing is a connection that is being opened.
type dialing struct {
	done chan struct{}
	err  error
}

// New returns a client. It opens no connection.
func New(o Options) *Client {
	c := &Client{options: o, scheme: "http", conns: map[string][]*connection{}, dials: map[string]*dialing{}}
	c.transport = &http.Transport{
		ExpectContinueTimeout: continueAfter,
		IdleConnTimeout:       idleLives,
		DisableCompression:    true, // the upstream gets the client's Accept-Encoding
		Protocols:             new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingWait, MaxReceiveBufferPerStream: streamWindow,
		},
	}
	if o.Secure {
		c.scheme = "https"
		c.transport.Protocols.SetHTTP2(true)
		c.transport.DialTLSContext = c.dial
	} else {
		c.transport.Protocols.SetUnencryptedHTTP2(true)
		c.transport.DialContext = c.dial
	}
	return c
}

// dial opens a connection for the one that asks in the context.
func (c *Client) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return c.options.Dial(ctx, address, func(raw net.Conn) net.Conn {
		return c.guarded(raw, ctx.Value(connectionKey{}).(*connection))
	})
}

// guarded returns what k uses raw through.
func (c *Client) guarded(raw net.Conn, k *connection) net.Conn {
	k.guard = &guard{Conn: raw, limit: c.options.Timeout}
	g := &conn.Gatherer{Conn: k.guard, Buffers: &c.buffers}
	g.Keep(conn.KeepAll)
	return g
}

// RoundTrip implements http.RoundTripper. It sends a request a second time if the
// upstream has not processed it, or if it Repeats (see http1) and the upstream reset it
// or lost its connection; and in both cases only if what was read of its body is at hand.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	q, body := outgoing(r)
	for attempt := 1; ; attempt++ {
		k, err := c.take(q.Context(), c.address(q.URL.Host))
		if err != nil {
			return nil, err
		}
		response, err := c.send(k, q, body)
		switch {
		case err == nil:
			return response, nil
		case body.failure() != nil:
			return nil, body.failure()
		}
		if e := (*Error)(nil); errors.As(err, &e) && e.needsHTTP1() {
			e.again = body.rewind(r)
			return nil, err
		}
		again := unprocessed(err) && attempt < mostAttempts || attempt == 1 && !c.options.NoRepeat && http1.Repeats(r, err)
		if !again || !body.rewind(q) {
			return nil, err
		}
	}
}

// address returns host with a port.
func (c *Client) address(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if c.options.Secure {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// take returns a connection with room for a request, which it reserves.
func (c *Client) take(ctx context.Context, address string) (*connection, error) {
	if c.options.NoReuse {
		return c.openFor(ctx, address)
	}
	for range mostDials {
		c.mu.Lock()
		open, d := slices.Clone(c.conns[address]), c.dials[address]
		c.mu.Unlock()
		for _, k := range open { // not under the lock, because Reserve may call changed
			if k.Reserve() == nil {
				return k, nil
			}
			if k.Err() != nil {
				c.forget(k)
			}
		}
		if d == nil {
			d = c.begin(address)
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errCrowded
}

// begin opens a connection for all that wait for one.
func (c *Client) begin(address string) *dialing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.dials[address]; d != nil {
		return d
	}
	d := &dialing{done: make(chan struct{})}
	c.dials[address] = d
	go func() {
		// Not for one request: others wait too. Dial has a limit of its own.
		k, err := c.open(context.Background(), address)
		c.mu.Lock()
		if d.err = err; err == nil {
			c.conns[address] = append(c.conns[address], k)
		}
		delete(c.dials, address)
		c.mu.Unlock()
		close(d.done)
		if err == nil {
			k.SetStateHook(func(*http.ClientConn) { c.changed(k) })
		}
	}()
	return d
}

// openFor opens a connection for one request.
func (c *Client) openFor(ctx context.Context, address string) (*connection, error) {
	k, err := c.open(ctx, address)
	if err != nil {
		return nil, err
	}
	k.retired.Store(true)
	if err := k.Reserve(); err != nil {
		k.Close()
		return nil, explain(err)
	}
	k.SetStateHook(func(*http.ClientConn) { c.changed(k) })
	return k, nil
}

func (c *Client) open(ctx context.Context, address string) (*connection, error) {
	k := &connection{address: address}
	cc, err := c.transport.NewClientConn(context.WithValue(ctx, connectionKey{}, k), c.scheme, address)
	if err != nil {
		return nil, err
	}
	k.ClientConn = cc
	return k, nil
}

// changed closes a connection that is retired when its last request is done, and
// forgets one that has failed.
func (c *Client) changed(k *connection) {
	if k.Err() != nil {
		c.forget(k)
		return
	}
	if k.retired.Load() && k.InFlight() == 0 {
		_ = k.Close() // nothing depends on it
	}
}

// retire makes a connection take no more requests.
func (c *Client) retire(k *connection) {
	k.retired.Store(true)
	c.forget(k)
	c.changed(k)
}

func (c *Client) forget(k *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(c.conns[k.address], func(other *connection) bool { return other == k })
	if c.conns[k.address] = left; len(left) == 0 {
		delete(c.conns, k.address)
	}
}

// CloseIdleConnections closes the connections without a request.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	var all []*connection
	for _, open := range c.conns {
		all = append(all, open...)
	}
	c.mu.Unlock()
	for _, k := range all {
		if k.InFlight() == 0 {
			c.retire(k)
		}
	}
}

// outgoing returns a copy of r for the connection, and its body.
func outgoing(r *http.Request) (*http.Request, *replay) {
	q := *r
	if http1.Negotiates(r.Header["Authorization"]) { // would sign in a connection that others use
		q.Header = r.Header.Clone()
		q.Header.Del("Authorization")
	}
	if r.Body == nil || r.Body == http.NoBody {
		return &q, nil
	}
	body := &replay{body: r.Body}
	q.Body = body
	return &q, body
}

// mostReplayed is the longest body that is sent again, in bytes.
const mostReplayed = 64 << 10

// replay is the body of a request that may be sent again. It keeps what was read.
type replay struct {
	body   io.Reader
	read   []byte
	lost   bool                  // more was read than is kept
	failed atomic.Pointer[error] // of Read
	watch  *watch                // of the present attempt
}

// failure returns the error of Read, nil if there is none.
func (p *replay) failure() error {
	if p == nil || p.failed.Load() == nil {
		return nil
	}
	return *p.failed.Load()
}

// Read implements io.Reader.
func (p *replay) Read(b []byte) (int, error) {
	p.watch.hold()
	n, err := p.body.Read(b)
	p.watch.begin()
	if p.lost || len(p.read)+n > mostReplayed {
		p.lost, p.read = true, nil
	} else {
		p.read = append(p.read, b[:n]...)
	}
	if err != nil && err != io.EOF {
		p.failed.Store(&err)
	}
	return n, err
}

// Close implements io.Closer. The server closes the body, because it may be sent again.
func (p *replay) Close() error { return nil }

// rewind makes the body that of r again, from its beginning. It reports false if that is
// not possible. It does nothing for nil.
func (p *replay) rewind(r *http.Request) bool {
	if p == nil {
		return true
	}
	if p.lost {
		return false
	}
	p.body, p.read = io.MultiReader(bytes.NewReader(p.read), p.body), nil
	r.Body = p
	return true
}
