package http2

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/conn"
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
	// mostAttempts bounds how often a request is sent that the upstream has not
	// processed (RFC 9113, section 8.7).
	mostAttempts = 3
)

// Options are the parts of a Client.
type Options struct {
	// Dial opens a connection to HOST:PORT that speaks HTTP/2. wrap returns the
	// connection below TLS. The client closes the connection.
	Dial func(ctx context.Context, address string, wrap func(net.Conn) net.Conn) (net.Conn, error)
	// Secure says that the connections speak TLS, so that the default port is 443.
	Secure bool
	// Timeout is how long the header of a response may take after the request was
	// written, and how long an upstream may pause in reading the request.
	Timeout time.Duration
	// MaxAge is how old a connection may be to carry another request; see http1. 0: any age.
	MaxAge time.Duration
	// NoReuse gives each request a new connection.
	NoReuse bool
	// NoRepeat means that no request that the upstream may have processed is sent a second time.
	NoRepeat bool
}

// Client sends requests to upstreams over HTTP/2. It is safe for concurrent use.
type Client struct {
	options   Options
	transport *http.Transport // opens connections
	buffers   conn.Buffers

	mu    sync.Mutex
	conns map[string][]*connection // by address, those that take requests; the slices are never changed
	dials map[string]*dialing
}

// dialing is a connection that is being opened. The request that began it has the first place, so that each
// connection serves a request, however many wait and however few it takes.
type dialing struct {
	opened chan struct{} // closed when conn or err is known
	ready  chan struct{} // closed when the others may look for a place
	conn   *connection
	err    error
}

// New returns a client. It opens no connection.
func New(o Options) *Client {
	c := &Client{options: o, conns: map[string][]*connection{}, dials: map[string]*dialing{}}
	c.transport = &http.Transport{
		ExpectContinueTimeout: continueAfter,
		IdleConnTimeout:       idleLives,
		DisableCompression:    true, // the upstream gets the client's Accept-Encoding
		Protocols:             new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingWait, MaxReceiveBufferPerStream: streamWindow,
		},
	}
	c.transport.Protocols.SetUnencryptedHTTP2(true)
	c.transport.DialContext = c.dial
	return c
}

// dial opens a connection for the one that asks in the context.
func (c *Client) dial(ctx context.Context, _, address string) (net.Conn, error) {
	k := ctx.Value(connectionKey{}).(*connection)
	dialed, err := c.options.Dial(ctx, address, func(raw net.Conn) net.Conn { return c.guarded(raw, k) })
	if err != nil {
		return nil, err
	}
	k.greeted = newGreeted(dialed, k.guard.Conn)
	return k.greeted, nil
}

// guarded returns raw with the time limit and the buffers of k.
func (c *Client) guarded(raw net.Conn, k *connection) net.Conn {
	k.guard = &guard{Conn: raw, limit: c.options.Timeout}
	g := &conn.Gatherer{Conn: k.guard, Buffers: &c.buffers}
	g.KeepAll()
	return g
}

// RoundTrip implements http.RoundTripper. It sends a request a second time if the
// upstream has not processed it, or if it Repeats (see http1) and the upstream reset it
// or lost its connection; and in both cases only if the part of its body that was read is
// at hand.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	body := newReplay(r)
	for attempt := 1; ; attempt++ {
		response, err := c.try(r, body)
		switch {
		case err == nil:
			return response, nil
		case body.failure() != nil:
			return nil, body.failure()
		}
		if e := (*Error)(nil); errors.As(err, &e) && e.needsHTTP1() {
			e.again = r.ContentLength <= mostReplayed && body.restore(r)
			return nil, err
		}
		again := unprocessed(err) && attempt < mostAttempts ||
			attempt == 1 && !c.options.NoRepeat && http1.Repeats(r, err)
		if !again || !body.whole() {
			return nil, err
		}
	}
}

// try sends a request once.
func (c *Client) try(r *http.Request, body *replay) (*http.Response, error) {
	k, err := c.take(r.Context(), c.address(r.URL.Host))
	if err != nil {
		return nil, err
	}
	return c.send(k, r, body)
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

// take returns a connection with a place for a request.
func (c *Client) take(ctx context.Context, address string) (*connection, error) {
	if c.options.NoReuse {
		return c.open(ctx, address)
	}
	for limit := time.Now().Add(c.options.Timeout); ; {
		c.mu.Lock()
		open := c.conns[address]
		c.mu.Unlock()
		if k := c.reserve(open, time.Now()); k != nil { // not under the lock, because Reserve may call changed
			return k, nil
		}
		if k, err := c.wait(ctx, limit, address, open); k != nil || err != nil {
			return k, err
		}
	}
}

// reserve takes a place on the first connection that has one. It returns nil if none has.
func (c *Client) reserve(open []*connection, now time.Time) *connection {
	for _, k := range open {
		switch {
		case !k.aged.IsZero() && !now.Before(k.aged):
			c.retire(k)
		case k.Reserve() != nil:
			if k.Err() != nil {
				c.forget(k)
			}
		case k.retired.Load(): // since open was read
			k.Release()
		default:
			return k
		}
	}
	return nil
}

// wait waits for a connection beside those that have no place. It returns the connection if the request has a place
// on it, and nil if it may find one now.
func (c *Client) wait(ctx context.Context, limit time.Time, address string, full []*connection) (*connection, error) {
	d, first := c.beginDial(address, full)
	if d == nil {
		return nil, nil
	}
	late := time.NewTimer(time.Until(limit))
	defer late.Stop()
	ready := d.ready
	if first {
		ready = d.opened
	}
	err := errCrowded
	select {
	case <-ready:
		switch {
		case d.err != nil:
			return nil, d.err
		case first:
			return d.conn, nil
		case !d.conn.greeted.known:
			return nil, errUnusable
		}
		return nil, nil
	case <-late.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if first {
		go d.release()
	}
	return nil, err
}

// beginDial opens a connection for all that wait for one. first says that the caller's request has a place on
// it. It returns nil if there are other connections by now than those that have no place.
func (c *Client) beginDial(address string, full []*connection) (d *dialing, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.dials[address]; d != nil {
		return d, false
	}
	if !slices.Equal(c.conns[address], full) {
		return nil, false
	}
	d = &dialing{opened: make(chan struct{}), ready: make(chan struct{})}
	c.dials[address] = d
	go c.run(d, address)
	return d, true
}

// run opens the connection.
func (c *Client) run(d *dialing, address string) {
	defer close(d.ready)
	// Not for one request: others wait too. Dial has a limit of its own.
	d.conn, d.err = c.open(context.Background(), address)
	close(d.opened)
	if d.err == nil {
		<-d.conn.greeted.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.dials, address)
	if d.err == nil && d.conn.Err() == nil && !d.conn.retired.Load() {
		c.conns[address] = append(slices.Clip(c.conns[address]), d.conn)
	}
}

// release gives the first place back, if there is one.
func (d *dialing) release() {
	if <-d.opened; d.err == nil {
		d.conn.Release()
	}
}

// open opens a connection with a place for a request.
func (c *Client) open(ctx context.Context, address string) (*connection, error) {
	k := &connection{address: address, aged: http1.Aged(c.options.MaxAge)}
	k.retired.Store(c.options.NoReuse)
	// The connection of dial has no TLS for net/http, which would need a *tls.Conn.
	cc, err := c.transport.NewClientConn(context.WithValue(ctx, connectionKey{}, k), "http", address)
	if err != nil {
		return nil, err
	}
	k.ClientConn = cc
	if k.Reserve() != nil {
		k.Close()
		return nil, errUnusable
	}
	k.SetStateHook(func(*http.ClientConn) { c.changed(k) })
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
	left := slices.DeleteFunc(slices.Clone(c.conns[k.address]), func(other *connection) bool { return other == k })
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
