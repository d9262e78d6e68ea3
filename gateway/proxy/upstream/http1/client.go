package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// SmallBody is the longest body, in bytes, that the client reads into memory
	// before it connects, and sends together with the header.
	SmallBody = 16 << 10
	// MaxInformational is how many bytes of 1xx responses may come before the final
	// response.
	MaxInformational = 64 << 10
	// maxHeader is the longest header of a response, in bytes.
	maxHeader = 1 << 20
	// continueAfter is how long a body with "Expect: 100-continue" waits for the
	// 100 (RFC 9110, section 10.1.1).
	continueAfter = time.Second
	// writeBuffer is the size of the largest chunk that net/http writes, with its
	// framing, in bytes.
	writeBuffer = 33 << 10
	// keptBuffer is the largest buffer that is used again, in bytes.
	keptBuffer = 64 << 10
)

// Options are the parts of a Client.
type Options struct {
	// Dial opens a connection to an address, which is the Host of a request's URL.
	// The client closes the connection.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Timeout is how long the header of a response may take after the request was
	// written, and how long an upstream may pause in reading the request.
	Timeout time.Duration
	// MaxIdle is how many idle connections are kept to each address.
	MaxIdle int
	// MaxAge is how old a connection may be to carry another request: the address of the upstream may lead
	// elsewhere by now. 0: any age. Those of an Owner may have any age.
	MaxAge time.Duration
	// NoReuse gives each request a new connection, but for those of an Owner.
	NoReuse bool
	// NoRepeat means that no request is sent a second time.
	NoRepeat bool
	// Strays is the memory that the clients of the upstream share. Nil is a new one.
	Strays *Strays
}

// Client sends requests to upstreams over HTTP/1.1. It is safe for concurrent
// use.
type Client struct {
	dial    func(ctx context.Context, address string) (net.Conn, error)
	timeout time.Duration
	age     time.Duration // 0: any
	noReuse bool
	once    bool // no request is sent a second time
	strays  *Strays
	idle    pool
	buffers sync.Pool // of *bytes.Buffer
	writers sync.Pool // of *bufio.Writer
}

// New returns a client.
func New(o Options) *Client {
	return &Client{
		dial: o.Dial, timeout: o.Timeout, age: o.MaxAge, noReuse: o.NoReuse, once: o.NoRepeat,
		strays:  cmp.Or(o.Strays, new(Strays)),
		idle:    pool{max: o.MaxIdle, conns: map[string]*idle{}},
		buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }},
		writers: sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }},
	}
}

// RoundTrip implements http.RoundTripper. The Body of a response with status 101
// is an io.ReadWriteCloser.
//
// RoundTrip sends a request a second time, on a new connection, if the upstream
// closed a used connection without a byte of the response: it may have closed the
// connection while it was idle (RFC 9112, section 9.3.1). The request must have
// an idempotent method and no body. There is no third time.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != "" && !httpguts.ValidHeaderFieldName(r.Method) {
		return nil, errMethod // Request.Write does not check it
	}
	use := c.useOf(r)
	if streams(r) {
		k, _, err := c.conn(r, &use, time.Time{})
		if err != nil {
			return nil, err
		}
		return c.stream(k, r, use)
	}
	b := c.buffers.Get().(*bytes.Buffer)
	defer c.recycle(b)
	closes := use.closes
	if err := serialize(b, r, closes); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.timeout) // of both attempts
	k, used, err := c.conn(r, &use, deadline)
	if err != nil {
		return nil, err
	}
	if use.closes != closes { // since the request was written
		if err := rewrite(b, r, use.closes); err != nil {
			k.abort()
			return nil, err
		}
	}
	response, err := c.exchange(k, r, b.Bytes(), use)
	if err == nil || !used || c.once || !Repeats(r, err) {
		return response, err
	}
	return c.again(r, b.Bytes(), use, deadline)
}

// Again is RoundTrip for a request that was sent to another upstream or in another way
// before, and may be sent again. It uses a new connection.
func (c *Client) Again(r *http.Request) (*http.Response, error) {
	use := c.useOf(r)
	if streams(r) {
		k, err := c.open(r.Context(), r.URL.Host, time.Time{})
		if err != nil {
			return nil, err
		}
		return c.stream(k, r, use)
	}
	b := c.buffers.Get().(*bytes.Buffer)
	defer c.recycle(b)
	if err := serialize(b, r, use.closes); err != nil {
		return nil, err
	}
	return c.again(r, b.Bytes(), use, time.Now().Add(c.timeout))
}

// again sends a request a second time, on a new connection.
func (c *Client) again(r *http.Request, request []byte, use use, deadline time.Time) (*http.Response, error) {
	k, err := c.open(r.Context(), r.URL.Host, deadline)
	if err != nil {
		return nil, err
	}
	return c.exchange(k, r, request, use)
}

// CloseIdleConnections closes the idle connections.
func (c *Client) CloseIdleConnections() { c.idle.drop(time.Now().Add(time.Hour)) }

func (c *Client) recycle(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		c.buffers.Put(b)
	}
}

// hasBody reports whether Request.Write sends a body.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// streams reports whether the client writes the body while it reads the response.
func streams(r *http.Request) bool {
	return hasBody(r) && (r.ContentLength <= 0 || r.ContentLength > SmallBody || len(r.TransferEncoding) > 0 ||
		expectsContinue(r))
}

func expectsContinue(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
}

// Upgrades reports whether a request asks for another protocol (RFC 9110,
// section 7.8).
func Upgrades(r *http.Request) bool {
	return len(r.Header["Upgrade"]) > 0 && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// Repeats reports whether a request that failed with err may be sent again: not a
// byte of the response came, and the request has an idempotent method and no body.
func Repeats(r *http.Request, err error) bool { return repeatable(r) && NoResponse(err) }

// NoResponse reports whether err means that the upstream ended the exchange before a byte
// of the response.
func NoResponse(err error) bool {
	var ended interface{ NoResponse() bool }
	return errors.As(err, &ended) && ended.NoResponse()
}

// repeatable reports whether a request may be sent again although the upstream may
// have acted on it (RFC 9110, section 9.2.2).
func repeatable(r *http.Request) bool {
	if hasBody(r) || Upgrades(r) || r.Context().Err() != nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// serialize writes a whole request with its body to b.
func serialize(b *bytes.Buffer, r *http.Request, closes bool) error {
	q, source := outgoing(r, closes)
	err := q.Write(b)
	if source != nil {
		if failed := source.failure(); failed != nil {
			return failed // Write hides it
		}
	}
	return err
}

// rewrite writes the request in b anew, which has a body and does not stream it.
func rewrite(b *bytes.Buffer, r *http.Request, closes bool) error {
	content := bytes.Clone(b.Bytes()[b.Len()-int(r.ContentLength):])
	q := new(http.Request)
	*q = *r
	q.Body = io.NopCloser(bytes.NewReader(content))
	b.Reset()
	return serialize(b, q, closes)
}

// outgoing returns r as Request.Write sends it, and its body if it has one.
func outgoing(r *http.Request, closes bool) (*http.Request, *source) {
	if !hasBody(r) && r.Trailer == nil && r.Close == closes {
		return r, nil
	}
	q := new(http.Request)
	*q = *r
	q.Trailer, q.Close = nil, closes
	if !hasBody(r) {
		return q, nil
	}
	s := &source{ReadCloser: r.Body}
	q.Body = s
	return q, s
}
