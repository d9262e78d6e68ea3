package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// exchange sends a serialized request and reads the header of the response.
func (c *Client) exchange(k *conn, r *http.Request, request []byte, use use) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), k.abort)
	_, failed := k.Write(request)
	if errors.Is(failed, os.ErrDeadlineExceeded) {
		return nil, k.fail(r, stop, failed)
	}
	return c.receive(k, r, stop, use, failed)
}

// receive reads the header of the response. failed is the error of Write: an
// upstream may respond and close the connection before it has read the whole
// request.
func (c *Client) receive(k *conn, r *http.Request, stop func() bool, use use, failed error) (*http.Response, error) {
	response, err := k.readResponse(r, nil)
	if err != nil {
		return nil, k.fail(r, stop, err)
	}
	e := exchange{client: c, conn: k, ctx: r.Context(), stop: stop}
	if failed == nil && reusable(r, response, k.unclear) {
		e.keep(response, use)
	}
	return e.deliver(response)
}

// fail closes the connection and returns the reason: the end of the context, or
// err.
func (k *conn) fail(r *http.Request, stop func() bool, err error) error {
	stop()
	k.abort()
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	return err
}

// readResponse reads the header of the final response. It passes on the
// informational responses before it.
func (k *conn) readResponse(r *http.Request, up *upload) (*http.Response, error) {
	k.limited.N = maxHeader - int64(k.br.Buffered()) // the fast path may have begun to read
	if _, err := k.br.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		return nil, &noResponseError{withoutQuotes(err, errHeader)}
	}
	framed := false // an informational response has no body (RFC 9112, section 6.3)
	for begun := k.unread(); begun-k.unread() <= MaxInformational; {
		response, err := k.readHeader(r)
		if err != nil {
			return nil, err
		}
		switch status := response.StatusCode; {
		case status == http.StatusSwitchingProtocols && !Upgrades(r):
			return nil, errUnasked
		case status >= 200 || status < 100 || status == http.StatusSwitchingProtocols:
			k.limited.N = 1<<63 - 1 // a body may be of any length
			k.unclear = k.unclear || framed
			return response, nil
		case status == http.StatusContinue && up != nil:
			up.proceed()
		case status == http.StatusProcessing:
			if err := k.extend(up); err != nil {
				return nil, err
			}
		}
		framed = framed || frames(response)
		if err := informational(r.Context(), response); err != nil {
			return nil, err
		}
	}
	return nil, ErrInformational
}

// unread is how many bytes may still be read as the header of a response.
func (k *conn) unread() int64 { return k.limited.N + int64(k.br.Buffered()) }

// extend begins the time limit of the response's header anew, as a 102 asks for. While
// a body is being sent, there is none yet.
func (k *conn) extend(up *upload) error {
	if up != nil && !up.finished() {
		return nil
	}
	return k.SetReadDeadline(time.Now().Add(k.limit))
}

// maxKept is how many bytes of memory for headers an idle connection keeps at most.
const maxKept = 8 << 10

// readHeader reads the header of one response.
func (k *conn) readHeader(r *http.Request) (*http.Response, error) {
	response, err := k.parseHeader(r)
	spaced := tighten(k.header)
	if spaced && k.completeHeader() {
		k.reread()
		response, err = k.parseHeader(r)
	}
	switch {
	case err == nil:
	case k.limited.N <= 0:
		return nil, errTooLong
	case errors.Is(k.failed, os.ErrDeadlineExceeded):
		return nil, k.failed
	default:
		return nil, withoutQuotes(err, errHeader)
	}
	for name := range response.Header { // ReadResponse accepts spaces in it
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, errHeader
		}
	}
	// ReadResponse removes a Content-Length beside chunks, so look for it in the bytes.
	header := k.header[:len(k.header)-k.br.Buffered()]
	k.unclear = spaced || len(response.TransferEncoding) > 0 && names(header, "content-length")
	if response.Close && response.Header["Connection"] == nil {
		restoreConnection(response.Header, header)
	}
	if len(response.Header["Pragma"]) > 0 && !names(header, "cache-control") {
		delete(response.Header, "Cache-Control") // which ReadResponse makes of Pragma
	}
	if cap(k.header) > maxKept {
		k.header = nil
	}
	return response, nil
}

// restoreConnection puts back the field Connection, which ReadResponse removes if it has the option
// close, although it may name fields that are not for the client (RFC 9110, section 7.6.1).
func restoreConnection(h http.Header, header []byte) {
	_, fields, _ := bytes.Cut(header, []byte("\n"))
	reader := textproto.NewReader(bufio.NewReader(bytes.NewReader(fields)))
	read, _ := reader.ReadMIMEHeader() // ReadResponse has read it
	if options := read["Connection"]; len(options) > 1 || len(options) == 1 && !strings.EqualFold(options[0], "close") {
		h["Connection"] = options
	}
}

// parseHeader reads the header of one response, and keeps its bytes.
func (k *conn) parseHeader(r *http.Request) (*http.Response, error) {
	come, _ := k.br.Peek(k.br.Buffered()) // cannot fail
	k.header, k.inHeader = append(k.header[:0], come...), true
	defer func() { k.inHeader = false }()
	return http.ReadResponse(k.br, r)
}

// informational passes on a 1xx response.
func informational(ctx context.Context, response *http.Response) error {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.Got1xxResponse != nil {
		return trace.Got1xxResponse(response.StatusCode, textproto.MIMEHeader(response.Header))
	}
	return nil
}

// exchange is a request and its response, from the end of the response's header to
// the end of its body.
type exchange struct {
	client   *Client
	conn     *conn
	ctx      context.Context // of the request
	stop     func() bool
	upload   *upload // nil if the request was sent before the response was read
	reusable bool
	rests    bool   // before it is used again
	owner    *Owner // whose the connection is from now on; nil: anybody's
}

// keep decides for a response whose end is beyond doubt whether the connection is
// used again, and by whom.
func (e *exchange) keep(response *http.Response, use use) {
	e.reusable = !use.closes
	e.conn.lives = unannounced
	for _, value := range response.Header["Keep-Alive"] {
		e.conn.lives = min(e.conn.lives, announced(value))
	}
	if !use.owned && !negotiates(response) {
		e.rests = withoutBody(response)
		return
	}
	e.owner = use.owner
	e.reusable = e.reusable && e.owner != nil
}

// deliver returns the response with a body whose end ends the exchange.
func (e *exchange) deliver(response *http.Response) (*http.Response, error) {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return e.tunnel(response)
	}
	if response.Body == http.NoBody || response.Request.Method == http.MethodHead {
		e.endExchange(true)
		response.Body = http.NoBody
		return response, nil
	}
	if !e.chunksBegin(response) {
		return nil, e.conn.fail(response.Request, e.stop, errBody)
	}
	if length := response.ContentLength; e.upload == nil && (length < 0 || int64(e.conn.br.Buffered()) < length) {
		if err := e.conn.SetDeadline(time.Time{}); err != nil { // a body has no time limit
			return nil, e.conn.fail(response.Request, e.stop, err)
		}
	}
	response.Body = &body{ReadCloser: response.Body, exchange: *e, response: response}
	return response, nil
}

// chunksBegin reports whether the first chunk of a response begins as it must, as far as it has come with
// the header. Nothing was sent to the client yet, so that it can still learn of the failure.
func (e *exchange) chunksBegin(response *http.Response) bool {
	come, _ := e.conn.br.Peek(e.conn.br.Buffered()) // cannot fail
	switch {
	case len(response.TransferEncoding) == 0, len(come) == 0, come[0] == '0':
		return true // after a chunk without bytes, Read would wait
	case bytes.IndexByte(come, '\n') < 0:
		return bytes.IndexByte([]byte("123456789abcdefABCDEF"), come[0]) >= 0
	}
	_, err := response.Body.Read(nil) // reads the size of the chunk
	return err == nil
}

// endExchange gives the connection back, or closes it. It is called once, when
// nothing more is read. whole says whether the whole response was read.
func (e *exchange) endExchange(whole bool) {
	alive := e.stop() // false if the end of the context has closed the connection
	if whole && alive && e.conn.br.Buffered() > 0 {
		e.client.strays.note()
		e.reusable = false
	}
	if !whole || !alive || !e.reusable {
		e.conn.abort()
		return
	}
	if e.upload != nil {
		e.upload.release(e)
		return
	}
	e.giveBack()
}

// giveBack keeps the connection for another request.
func (e *exchange) giveBack() {
	if e.owner != nil {
		e.owner.put(e.client, e.conn)
		return
	}
	e.client.idle.put(e.conn, e.rests || e.client.strays.Seen())
}
