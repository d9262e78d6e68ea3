package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// fastWait is how long the fast path waits for the parts of a response, and at
// most twice as long. It does not watch the context of the request meanwhile.
const fastWait = 50 * time.Millisecond

// maxPlain is how long a plain request is at most, in bytes: the buffers of an idle
// connection take it without a wait.
const maxPlain = 2 * SmallBody

// Start sends a plain request on an idle connection: the fast path. It has one
// of three results.
//
//   - The response, if it comes at once and is plain too; see plainHead.
//   - A RoundTripper that goes on with the request that was sent, on the same
//     connection, for a response that is late or not plain. Its RoundTrip must be
//     called once, with a request that means the same.
//   - Neither. Nothing was sent: there is no idle connection, or the request is
//     not as plain as it seems.
//
// Start sends the same bytes as RoundTrip does with the same request. now is the
// time, for deadlines.
func (c *Client) Start(ctx context.Context, now time.Time, address string, p *Plain) (*Response, http.RoundTripper) {
	if c.noReuse || ctx.Err() != nil || len(p.Body) > 0 && !c.sharesBody(p.Method) {
		return nil, nil
	}
	b := c.buffers.Get().(*bytes.Buffer)
	defer c.recycle(b)
	request, ok := p.append(b.AvailableBuffer())
	b.Write(request) // appended bytes stay in their place, unless there was too little room
	if !ok || b.Len() > maxPlain {
		return nil, nil
	}
	for k := c.takeIdle(address, now); k != nil; k = c.takeIdle(address, now) {
		ok, failed := k.start(b.Bytes(), now, c.timeout)
		if !ok {
			if c.discard(k); len(p.Body) > 0 && !c.sharesBody(p.Method) { // because of its stray bytes
				return nil, nil
			}
			continue
		}
		if failed == nil {
			if response := k.plainResponse(); response != nil {
				response.client = c
				return response, nil
			}
		}
		k.alarm = time.Time{}
		return nil, &rest{client: c, conn: k, deadline: now.Add(c.timeout), failed: failed}
	}
	return nil, nil
}

// rest is a request that was sent, and whose response is still to be read.
type rest struct {
	client   *Client
	conn     *conn
	deadline time.Time // of the response header
	failed   error     // of Write
}

// RoundTrip implements http.RoundTripper.
func (s *rest) RoundTrip(r *http.Request) (*http.Response, error) {
	k := s.conn
	stop := context.AfterFunc(r.Context(), k.abort)
	if errors.Is(s.failed, os.ErrDeadlineExceeded) {
		return nil, k.fail(r, stop, s.failed)
	}
	k.failed = nil // that the fast path has waited long enough
	if err := k.SetReadDeadline(s.deadline); err != nil {
		return nil, k.fail(r, stop, err)
	}
	response, err := s.client.receive(k, r, stop, use{owner: ownerOf(r)}, s.failed)
	if err == nil || s.client.once || !Repeats(r, err) {
		return response, err
	}
	b := s.client.buffers.Get().(*bytes.Buffer)
	defer s.client.recycle(b)
	if err := serialize(b, r, false); err != nil {
		return nil, err
	}
	return s.client.again(r, b.Bytes(), use{owner: ownerOf(r)}, s.deadline)
}

// Response is a plain response. The caller must call Close.
type Response struct {
	Status int
	// Body is the body if it has come already, and nil if it must be read from Stream.
	// It is valid until Close.
	Body []byte

	client *Client // nil: the connection is not this response's any more
	conn   *conn
	head   int   // bytes of the header
	length int64 // of the body
}

// AddTo adds the header of the response to h, without fields about the
// connection.
func (s *Response) AddTo(h http.Header) {
	values := make([]string, len(s.conn.fields))
	for i, f := range s.conn.fields {
		values[i] = f.Value
		if before, ok := h[f.Name]; ok {
			h[f.Name] = append(before, f.Value)
		} else {
			h[f.Name] = values[i : i+1 : i+1]
		}
	}
}

// Stream returns the body of a response whose Body is nil. The end of ctx closes
// the connection. The caller closes the stream, after which Close does nothing.
func (s *Response) Stream(ctx context.Context) io.ReadCloser {
	k, c := s.conn, s.client
	s.client = nil
	stop := context.AfterFunc(ctx, k.abort)
	_, _ = k.br.Discard(s.head) // it is in the buffer
	k.alarm = time.Time{}
	// A body has no time limit. If this fails, so does Read.
	_ = k.SetDeadline(time.Time{})
	k.limited.N = 1<<63 - 1                                                 // a body may be of any length
	e := exchange{client: c, conn: k, ctx: ctx, stop: stop, reusable: true} // it has a body
	return &body{ReadCloser: &exactly{k.br, s.length}, exchange: e}
}

// Close gives the connection back.
func (s *Response) Close() {
	c, k := s.client, s.conn
	if c == nil {
		return
	}
	s.client = nil
	if s.Body == nil {
		k.abort()
		return
	}
	_, _ = k.br.Discard(s.head + len(s.Body)) // it is in the buffer
	if k.br.Buffered() > 0 {                  // it belongs to no request
		c.strays.note()
		k.abort()
		return
	}
	c.idle.put(k, s.length == 0 || c.strays.Seen())
}

// exactly reads n bytes. If there are fewer, that is an error.
type exactly struct {
	io.Reader
	n int64
}

// Read implements io.Reader.
func (e *exactly) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n, err := e.Reader.Read(p[:min(int64(len(p)), e.n)])
	e.n -= int64(n)
	switch {
	case e.n == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer.
func (e *exactly) Close() error { return nil }
