// Package http1 is a client for upstreams that speak HTTP/1.1.
//
// It writes and reads on the goroutine of the request, where http.Transport
// hands each request to two other goroutines and waits for them: that is most
// of what a small request costs. A second goroutine writes a body that is
// longer than SmallBody, or of unknown length, so that the upstream can answer
// before it has read everything.
//
// What goes over the wire is written and read by net/http (Request.Write,
// ReadResponse). Trailers of requests are not sent.
//
// Nothing in an answer tells which request it belongs to (RFC 9112, section
// 9.3.2), so the client is strict about using a connection again: reusable has
// the rules, and a connection on which something has come unasked is closed.
package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// SmallBody is the longest body, in bytes, that is read before a connection
	// is taken, and sent together with the header.
	SmallBody = 16 << 10
	// MaxInformational is how many 1xx responses may come before the real one.
	MaxInformational = 5
	// maxHeader bounds the header of a response, in bytes.
	maxHeader = 1 << 20
	// continueAfter is how long a body waits for the 100 that the client asked
	// for (RFC 9110, section 10.1.1).
	continueAfter = time.Second
	// writeBuffer holds the largest chunk that net/http makes, and its framing, in
	// bytes.
	writeBuffer = 33 << 10
	// keptBuffer is the largest buffer that is kept for other requests, in bytes.
	keptBuffer = 64 << 10
)

// Options are what a Client is made of.
type Options struct {
	// Dial opens a connection to an address, which is the Host of a request's
	// URL. The client closes it.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Timeout is how long the header of a response may take, from when the
	// request has been written. It also bounds each pause of an upstream that
	// does not read.
	Timeout time.Duration
	// MaxIdle is how many idle connections are kept for each address.
	MaxIdle int
	// NoReuse gives each request a connection of its own.
	NoReuse bool
}

// Client sends requests to upstreams that speak HTTP/1.1. It is safe for
// concurrent use.
type Client struct {
	dial    func(ctx context.Context, address string) (net.Conn, error)
	timeout time.Duration
	noReuse bool
	idle    pool
	buffers sync.Pool // of *bytes.Buffer
	writers sync.Pool // of *bufio.Writer
}

// New returns a client.
func New(o Options) *Client {
	return &Client{
		dial: o.Dial, timeout: o.Timeout, noReuse: o.NoReuse,
		idle:    pool{max: o.MaxIdle, conns: map[string][]*conn{}},
		buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }},
		writers: sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }},
	}
}

// RoundTrip implements http.RoundTripper. The Body of a response with the
// status 101 is an io.ReadWriteCloser.
//
// A request without a body whose method is idempotent is sent a second time if
// the upstream has closed the connection without a byte of an answer and the
// connection had served another request before: the upstream may have closed
// it while it was idle (RFC 9112, section 9.3.1). The second time it gets a new
// connection, and there is no third.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != "" && !httpguts.ValidHeaderFieldName(r.Method) {
		return nil, errMethod // Request.Write would send it as it is
	}
	if streams(r) {
		return c.stream(r)
	}
	b := c.buffers.Get().(*bytes.Buffer)
	defer c.recycle(b)
	if err := serialize(b, r, c.noReuse); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.timeout) // for both attempts together
	k, used, err := c.conn(r.Context(), r.URL.Host, deadline)
	if err != nil {
		return nil, err
	}
	response, err := c.exchange(k, r, b.Bytes())
	var silent *unansweredError
	if err == nil || !used || !repeatable(r) || !errors.As(err, &silent) {
		return response, err
	}
	if k, err = c.open(r.Context(), r.URL.Host, deadline); err != nil {
		return nil, err
	}
	return c.exchange(k, r, b.Bytes())
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.idle.drop(time.Now().Add(time.Hour)) }

func (c *Client) recycle(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		c.buffers.Put(b)
	}
}

// hasBody reports whether a request has a body, as Request.Write sees it.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// streams reports whether a body is written while the response is read.
func streams(r *http.Request) bool {
	return hasBody(r) && (r.ContentLength <= 0 || r.ContentLength > SmallBody || len(r.TransferEncoding) > 0 || expectsContinue(r))
}

func expectsContinue(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
}

// upgrades reports whether a request asks for another protocol (RFC 9110,
// section 7.8).
func upgrades(r *http.Request) bool {
	return len(r.Header["Upgrade"]) > 0 && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// repeatable reports whether a request may be sent again without knowing what
// became of it (RFC 9110, section 9.2.2).
func repeatable(r *http.Request) bool {
	if hasBody(r) || upgrades(r) || r.Context().Err() != nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// serialize writes a whole request, its body included, to b.
func serialize(b *bytes.Buffer, r *http.Request, noReuse bool) error {
	q, source := outgoing(r, noReuse)
	err := q.Write(b)
	if source != nil {
		if failed := source.failure(); failed != nil {
			return failed // which Write hides
		}
	}
	return err
}

// outgoing returns r as it goes over the wire, and its body if it has one.
func outgoing(r *http.Request, noReuse bool) (*http.Request, *source) {
	closing := noReuse && !upgrades(r)
	if !hasBody(r) && r.Trailer == nil && r.Close == closing {
		return r, nil
	}
	q := new(http.Request)
	*q = *r
	q.Trailer, q.Close = nil, closing
	if !hasBody(r) {
		return q, nil
	}
	s := &source{ReadCloser: r.Body}
	q.Body = s
	return q, s
}
