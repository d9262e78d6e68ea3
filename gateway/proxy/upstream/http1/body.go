package http1

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// body is the body of a response. Its end ends the exchange.
type body struct {
	io.ReadCloser
	exchange
	response *http.Response // nil: it has no trailer
	ended    bool
	err      error // of each Read after the end
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.ended {
		return 0, b.err
	}
	if b.upload != nil {
		b.upload.watch()
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.response != nil && !tightenTrailer(b.response.Trailer) {
		err = errBody
	}
	if err != nil {
		b.finish(b.reason(err))
	}
	return n, b.err
}

// reason returns why a Read failed, without quotes.
func (b *body) reason(err error) error {
	switch {
	case err == io.EOF:
		return err
	case b.ctx.Err() != nil:
		return b.ctx.Err() // which closed the connection
	}
	if b.upload != nil {
		if err := b.upload.broken(); err != nil {
			return err
		}
	}
	return withoutQuotes(err, errBody)
}

// Close implements io.Closer. It closes the connection of a body that was not read
// to its end.
func (b *body) Close() error {
	if !b.ended {
		b.finish(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *body) finish(err error) {
	b.ended, b.err = true, err
	b.endExchange(err == io.EOF)
}

// tunnel is the body of a 101: the connection in both directions.
type tunnel struct {
	*conn
	stop func() bool
}

func (e *exchange) tunnel(response *http.Response) (*http.Response, error) {
	if e.upload != nil && !e.upload.done() {
		return nil, e.conn.fail(response.Request, e.stop, errUnasked) // the rest of the body would go into the tunnel
	}
	if err := e.conn.SetDeadline(time.Time{}); err != nil {
		return nil, e.conn.fail(response.Request, e.stop, err)
	}
	response.Body = &tunnel{e.conn, e.stop}
	return response, nil
}

// Read implements io.Reader. It begins with the bytes that came with the 101. The protocol of a
// tunnel marks its own ends.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.br.Read(p)
	if err == errTruncated {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer. The end of the request's context closes the tunnel
// too.
func (t *tunnel) Close() error {
	if !t.stop() {
		return context.Canceled
	}
	return t.conn.Close()
}

// CloseWrite tells the upstream that nothing more comes.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return net.ErrClosed
}
