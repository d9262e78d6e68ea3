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
// a usual one, there is no body or a short one, and no span tells of the way. forwardPlain looks at the header.
func (ex *exchange) plain() bool {
	r := ex.Request
	if ex.route.start == nil || ex.trace.Recorded() || ex.owns() {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodDelete:
		return r.ContentLength == 0
	case http.MethodPost, http.MethodPut, http.MethodPatch:
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
	p := ex.gateway.plains.get()
	defer ex.gateway.plains.put(p)
	if !ex.plainFields(p, r.Header) {
		return ex.route.transport, nil
	}
	if r.ContentLength > 0 {
		if p.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, ex.route.upstream.Failure(upload.Failure(err))
		}
		r.Body = io.NopCloser(bytes.NewReader(p.Body)) // r is a copy
	}
	path := &ex.Canonical.Path
	p.Method, p.Host = r.Method, ex.Peer.Host
	p.Path, p.Query, p.ForceQuery = ex.upstreamPath(), path.Query, path.HasQuery
	response, rest := ex.route.start(r.Context(), p)
	switch {
	case response != nil:
		ex.answerPlain(r, response)
		return nil, nil
	case rest != nil:
		return rest, nil
	}
	return ex.route.transport, nil
}

// plainFields makes the header of p from that of the client. It reports false if a
// field needs more than ReverseProxy's removal of hop-by-hop fields.
func (ex *exchange) plainFields(p *http1.Plain, received http.Header) bool {
	for name, values := range received {
		switch name {
		case "Upgrade", "Expect", "Trailer", "Transfer-Encoding", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization":
			return false
		case "Authorization":
			if http1.Negotiates(values) {
				return false
			}
		case "Connection":
			if len(values) != 1 || !strings.EqualFold(values[0], "keep-alive") {
				return false
			}
			continue
		case "Te":
			if len(values) != 1 || values[0] != "trailers" {
				return false
			}
		case "Keep-Alive":
			continue
		}
		if ex.passes(name) {
			for _, value := range values {
				p.Fields = append(p.Fields, http1.Field{Name: name, Value: value})
			}
		}
	}
	p.Fields = ex.appendFields(p.Fields, received)
	return true
}

// answerPlain sends a plain response on.
func (ex *exchange) answerPlain(r *http.Request, response *http1.Response) {
	defer response.Close()
	h := ex.Header()
	response.AddTo(h)
	ex.modify(response.Status, h)
	buffer := ex.gateway.buffers.Get()
	defer ex.gateway.buffers.Put(buffer)
	if response.Body != nil {
		body := buffer[:copy(buffer, response.Body)] // which is shorter
		response.Close()                             // so that a client that reads late does not hold the connection
		ex.WriteHeader(response.Status)
		if len(body) > 0 {
			_, err := ex.Write(body)
			ex.abort = err != nil
		}
		return
	}
	ex.WriteHeader(response.Status)
	r, release := ex.cancelable(r)
	defer release()
	stream := response.Stream(r.Context())
	defer stream.Close()
	from := &source{Reader: stream}
	if _, err := io.CopyBuffer(ex, from, buffer); err != nil {
		ex.abort = true
		if from.failed != nil && r.Context().Err() == nil { // the client has not left
			ex.gateway.proxyLog.Print(ex.route.upstream.Failure(from.failed))
		}
	}
}

// source tells failures of an upstream from those of a client.
type source struct {
	io.Reader
	failed error // of Read
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != io.EOF {
		s.failed = err
	}
	return n, err
}

// plainPool lends requests for the fast path.
type plainPool struct{ pool *sync.Pool }

// usualFields is about how many fields a request has, and mostFields how many it
// has if its memory is used again.
const (
	usualFields = 32
	mostFields  = 128
)

func newPlainPool() plainPool {
	return plainPool{&sync.Pool{New: func() any { return &http1.Plain{Fields: make([]http1.Field, 0, usualFields)} }}}
}

func (p plainPool) get() *http1.Plain { return p.pool.Get().(*http1.Plain) }

func (p plainPool) put(plain *http1.Plain) {
	if cap(plain.Fields) <= mostFields {
		clear(plain.Fields)
		*plain = http1.Plain{Fields: plain.Fields[:0]}
		p.pool.Put(plain)
	}
}
