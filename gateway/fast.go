package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"authgate/gateway/upstream/http1"
	"authgate/gateway/web"
)

// plain reports whether the fast path may serve a request: it is on, the method is
// a usual one, and there is no body or a short one. forwardPlain looks at the header.
func (ex *exchange) plain() bool {
	r := ex.Request
	if ex.route.start == nil {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return 0 <= r.ContentLength && r.ContentLength <= http1.SmallBody
	}
	return false
}

// forwardPlain is forward by the fast path: without httputil.ReverseProxy, and
// without a goroutine or timer that waits for the client to leave. It does what
// ReverseProxy does for a request and a response that have nothing unusual.
//
// Unless it has answered the request or failed, it returns what sends the request
// or goes on with it.
func (ex *exchange) forwardPlain(r *http.Request, upload *web.Upload) (rest http.RoundTripper, err error) {
	h := ex.gateway.headers.get()
	defer ex.gateway.headers.put(h)
	if !plainHeader(h, r.Header) {
		return ex.route.transport, nil
	}
	ex.rewriteHeader(h)
	var body []byte
	if r.ContentLength > 0 {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, ex.route.upstream.Failure(upload.Failure(err))
		}
		r.Body = io.NopCloser(bytes.NewReader(body)) // r is a copy
	}
	path := &ex.Canonical.Path
	response, rest := ex.route.start(r.Context(), &http1.Plain{
		Method: r.Method, Path: ex.upstreamPath(), Query: path.Query, ForceQuery: path.HasQuery,
		Host: ex.Peer.Host, Header: h, Body: body,
	})
	switch {
	case response != nil:
		ex.answerPlain(r, response)
		return nil, nil
	case rest != nil:
		return rest, nil
	}
	return ex.route.transport, nil
}

// plainHeader copies the header of a request to h, without the fields that
// ReverseProxy removes. It reports false if a field needs more than that.
func plainHeader(h, received http.Header) bool {
	for name, values := range received {
		switch name {
		case "Upgrade", "Expect", "Trailer", "Transfer-Encoding", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization":
			return false
		case "Connection":
			if len(values) != 1 || !strings.EqualFold(values[0], "keep-alive") {
				return false
			}
		case "Te":
			if len(values) != 1 || values[0] != "trailers" {
				return false
			}
			h[name] = values
		case "Keep-Alive", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		default:
			h[name] = values
		}
	}
	return true
}

// answerPlain sends a plain response on.
func (ex *exchange) answerPlain(r *http.Request, response *http1.Response) {
	defer response.Close()
	h := ex.Header()
	response.AddTo(h)
	ex.modify(response.Status, h)
	ex.WriteHeader(response.Status)
	if response.Body != nil {
		if len(response.Body) > 0 {
			_, err := ex.Write(response.Body)
			ex.abort = err != nil
		}
		return
	}
	r, release := ex.cancelable(r)
	defer release()
	stream := response.Stream(r.Context())
	defer stream.Close()
	buffer := ex.gateway.buffers.Get()
	defer ex.gateway.buffers.Put(buffer)
	if _, err := io.CopyBuffer(ex, stream, buffer); err != nil {
		ex.abort = true
		if r.Context().Err() == nil { // the client has not left
			ex.gateway.proxyLog.Print(ex.route.upstream.Failure(err))
		}
	}
}

// headerPool lends the headers of requests to upstreams.
type headerPool struct{ pool *sync.Pool }

// usualHeader is about how many fields a request has, and mostFields how many a
// header has that is used again.
const (
	usualHeader = 32
	mostFields  = 128
)

func newHeaderPool() headerPool {
	return headerPool{&sync.Pool{New: func() any { return make(http.Header, usualHeader) }}}
}

func (p headerPool) get() http.Header { return p.pool.Get().(http.Header) }

func (p headerPool) put(h http.Header) {
	if len(h) <= mostFields {
		clear(h)
		p.pool.Put(h)
	}
}
