package http1

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"time"
)

// exchange sends a request that is ready and reads the header of the response.
func (c *Client) exchange(k *conn, r *http.Request, request []byte) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), k.abort)
	_, failed := k.Write(request)
	if errors.Is(failed, os.ErrDeadlineExceeded) {
		return nil, k.fail(r, stop, failed)
	}
	// An upstream may answer, and close the connection, before it has read
	// everything.
	response, err := k.answer(r, nil)
	if err != nil {
		return nil, k.fail(r, stop, err)
	}
	a := answered{client: c, conn: k, ctx: r.Context(), stop: stop}
	a.reusable = failed == nil && !c.noReuse && reusable(r, response, k.unclear)
	return a.take(response)
}

// fail ends an exchange and says why.
func (k *conn) fail(r *http.Request, stop func() bool, err error) error {
	stop()
	k.abort()
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	return err
}

// answer reads the header of the response, and passes on the informational
// ones before it.
func (k *conn) answer(r *http.Request, up *upload) (*http.Response, error) {
	k.limited.N = maxHeader
	if _, err := k.br.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, &unansweredError{plain(err, errHeader)}
	}
	framed := false // an informational response has no body (RFC 9112, section 6.3)
	for range MaxInformational + 1 {
		response, err := k.header(r)
		if err != nil {
			return nil, err
		}
		switch status := response.StatusCode; {
		case status == http.StatusSwitchingProtocols && !upgrades(r):
			return nil, errUnasked
		case status >= 200 || status < 100 || status == http.StatusSwitchingProtocols:
			k.limited.N = 1<<63 - 1 // a body may be of any length
			k.unclear = k.unclear || framed
			return response, nil
		case status == http.StatusContinue && up != nil:
			up.goOn()
		}
		framed = framed || frames(response)
		if err := informational(r.Context(), response); err != nil {
			return nil, err
		}
	}
	return nil, ErrInformational
}

// header reads one header.
func (k *conn) header(r *http.Request) (*http.Response, error) {
	buffered, unread := k.br.Buffered(), k.limited.N
	head, _ := k.br.Peek(buffered) // never more than there is
	response, err := http.ReadResponse(k.br, r)
	switch {
	case err == nil:
	case k.limited.N <= 0:
		return nil, errTooLong
	case errors.Is(k.failed, os.ErrDeadlineExceeded):
		return nil, k.failed
	default:
		return nil, plain(err, errHeader)
	}
	// ReadResponse removes a Content-Length beside chunks, so the bytes tell,
	// unless the buffer was filled anew.
	k.unclear = len(response.TransferEncoding) > 0 &&
		(k.limited.N != unread || namesLength(head[:buffered-k.br.Buffered()]))
	return response, nil
}

// informational tells of a 1xx response, which goes to the client as well.
func informational(ctx context.Context, response *http.Response) error {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.Got1xxResponse != nil {
		return trace.Got1xxResponse(response.StatusCode, textproto.MIMEHeader(response.Header))
	}
	return nil
}

// answered is what is left of an exchange when the header of its response is
// there.
type answered struct {
	client   *Client
	conn     *conn
	ctx      context.Context // the client's
	stop     func() bool
	upload   *upload // nil: the request was sent before
	reusable bool
}

// take makes the response end its exchange.
func (a *answered) take(response *http.Response) (*http.Response, error) {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return a.tunnel(response)
	}
	if response.Body == http.NoBody || response.Request.Method == http.MethodHead {
		a.end(true)
		response.Body = http.NoBody
		return response, nil
	}
	if length := response.ContentLength; a.upload == nil && (length < 0 || int64(a.conn.br.Buffered()) < length) {
		if err := a.conn.SetDeadline(time.Time{}); err != nil { // the body takes its time
			return nil, a.conn.fail(response.Request, a.stop, err)
		}
	}
	response.Body = &body{ReadCloser: response.Body, answered: *a}
	return response, nil
}

// end is called once, when nothing more will be read. whole says that
// everything was.
func (a *answered) end(whole bool) {
	alive := a.stop() // else the connection is closed
	if !whole || !alive || !a.reusable || a.conn.br.Buffered() > 0 {
		a.conn.abort()
		return
	}
	if a.upload != nil {
		a.upload.release()
		return
	}
	a.client.idle.put(a.conn)
}
