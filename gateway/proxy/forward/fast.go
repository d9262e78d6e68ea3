package forward

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"authgate/gateway/proxy/upstream/http1"
)

// The fast path is without httputil.ReverseProxy, and without a goroutine or timer that
// waits for the client to leave. It serves a request and a response that have nothing
// unusual as ReverseProxy does:
//
//  1. fastPath decides by the method and the length of the body whether it is tried.
//  2. sendPlain makes an http1.Plain of the request, unless the header has something
//     unusual, and starts it.
//  3. If the response comes at once and is plain too, answerPlain sends it on. This is
//     the end of the way.
//  4. Otherwise sendPlain returns a remainder, with which ReverseProxy goes on. Its transport is
//     then the one that Start has returned: that waits for the response, or sends the request if
//     nothing was sent.

// starter is a transport that has the fast path.
type starter interface {
	// Start sends a plain request, which it changes. It returns one of two: the
	// response, or a RoundTripper that gets the response to the same request, by
	// one RoundTrip.
	Start(context.Context, *http1.Plain) (*http1.Response, http.RoundTripper)
}

// fastPath returns the starter that tries the request. It returns nil unless the fast
// path is on, the method is a usual one, there is no body or a short one, and no span
// tells of the way. sendPlain looks at the header.
func (q *Request) fastPath() starter {
	if !q.Route.fast || q.Named != nil || q.Trace.Recorded() || q.owns() {
		return nil
	}
	r := q.Exchange.Request
	switch r.Method {
	case http.MethodGet, http.MethodDelete:
		if r.ContentLength != 0 {
			return nil
		}
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		if r.ContentLength < 0 || r.ContentLength > http1.SmallBody {
			return nil
		}
	default:
		return nil
	}
	way, _ := q.Route.Transport.(starter)
	return way
}

// remainder is the rest of the way of a request, which httputil.ReverseProxy goes. The zero remainder
// is that of a request that is answered.
type remainder struct {
	transport http.RoundTripper // from which ReverseProxy gets the response
	request   *http.Request
	body      io.ReadCloser // of the request, if the fast path has read it; else nil
}

// sendPlain sends r the fast path. It returns the zero remainder if it has answered the request.
func (q *Request) sendPlain(way starter, r *http.Request) (remainder, error) {
	plains := q.Route.forwarder.plains
	p := plains.get()
	defer plains.put(p)
	if !q.plainFields(&p.Plain, r.Header) {
		return remainder{transport: q.Route.Transport}, nil
	}
	if q.upload != nil {
		if err := p.readBody(q.upload, r.ContentLength); err != nil {
			return remainder{}, q.Route.upstream.Failure(q.upload.Failure(err))
		}
	}
	path := &q.Exchange.Canonical.Path
	p.Method, p.Host = r.Method, q.Exchange.Peer.Host
	p.Path, p.Query, p.ForceQuery = q.Route.path(path), path.Query, path.HasQuery
	response, transport := way.Start(r.Context(), &p.Plain)
	if response != nil {
		q.answerPlain(r, response)
		return remainder{}, nil
	}
	rest := remainder{transport: transport}
	if q.upload != nil {
		rest.body = io.NopCloser(bytes.NewReader(p.keepBody()))
	}
	return rest, nil
}

// plainFields makes the header of p from that of the client. It reports false if a
// field needs more than ReverseProxy's removal of hop-by-hop fields.
func (q *Request) plainFields(p *http1.Plain, received http.Header) bool {
	for name, values := range received {
		switch name {
		case "Upgrade", "Expect", "Trailer", "Transfer-Encoding",
			"Proxy-Connection", "Proxy-Authenticate":
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
		case "Keep-Alive", "Proxy-Authorization":
			continue
		}
		if q.passes(name) {
			for _, value := range values {
				p.Fields = append(p.Fields, http1.Field{Name: name, Value: value})
			}
		}
	}
	p.Fields = q.appendFields(p.Fields, received)
	return true
}

// answerPlain sends a plain response on. Like ReverseProxy, it panics if the answer
// breaks off.
func (q *Request) answerPlain(r *http.Request, response *http1.Response) {
	defer response.Close()
	ex, shared := q.Exchange, q.Route.forwarder
	h := ex.Header()
	response.AddTo(h)
	q.modify(response.Status, h)
	buffer := shared.buffers.Get()
	defer shared.buffers.Put(buffer)
	if response.Body != nil {
		body := buffer[:copy(buffer, response.Body)] // which is shorter
		response.Close()                             // so that a client that reads late does not hold the connection
		ex.WriteHeader(response.Status)
		if len(body) > 0 {
			if _, err := ex.Write(body); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		q.whole = true
		return
	}
	ex.WriteHeader(response.Status)
	q.answerStream(r, response, buffer)
}

// answerStream sends the body of a plain response on, as it comes.
func (q *Request) answerStream(r *http.Request, response *http1.Response, buffer []byte) {
	r = q.cancelable(r)
	stream := response.Stream(r.Context())
	defer stream.Close()
	from := &source{Reader: stream}
	if _, err := io.CopyBuffer(q.Exchange, from, buffer); err != nil {
		if from.failed != nil && r.Context().Err() == nil { // the client has not left
			q.Route.forwarder.log.Print(q.Route.upstream.Failure(from.failed))
		}
		panic(http.ErrAbortHandler)
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

// plain is a request for the fast path, and the memory of its body.
type plain struct {
	http1.Plain
	memory []byte
}

// readBody reads a body of that length.
func (p *plain) readBody(body io.Reader, length int64) error {
	// With the room that ReadFrom wants free when the body has ended.
	if need := int(length) + bytes.MinRead; cap(p.memory) < need {
		p.memory = make([]byte, 0, need)
	}
	into := bytes.NewBuffer(p.memory)
	_, err := into.ReadFrom(body)
	p.Body = into.Bytes()
	return err
}

// keepBody returns the body for longer than p is used.
func (p *plain) keepBody() []byte {
	p.memory = nil
	return p.Body
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
	return plainPool{&sync.Pool{New: func() any {
		return &plain{Plain: http1.Plain{Fields: make([]http1.Field, 0, usualFields)}}
	}}}
}

func (p plainPool) get() *plain { return p.pool.Get().(*plain) }

func (p plainPool) put(used *plain) {
	if cap(used.Fields) <= mostFields {
		clear(used.Fields)
		used.Plain = http1.Plain{Fields: used.Fields[:0]}
		p.pool.Put(used)
	}
}
