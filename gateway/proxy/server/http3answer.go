package server

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// http3Answer is the answer to a request over HTTP/3. It gives http3, which sends
// a header late and as it is then, the rules of net/http: WriteHeader fixes the
// header of an answer, without the fields that belong to connections of HTTP/1.1,
// and only trailers may follow.
type http3Answer struct {
	http.ResponseWriter // of http3; deadlines are those of the stream
	header              http.Header

	mu        sync.Mutex // held while a header is written: the body of a request is read on another goroutine
	begun     bool       // the final header is written
	continued bool       // 100 (Continue) was sent
}

// Header implements http.ResponseWriter.
func (a *http3Answer) Header() http.Header { return a.header }

// Unwrap is for http.ResponseController.
func (a *http3Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *http3Answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun || status == http.StatusContinue && a.continued {
		return
	}
	h := a.ResponseWriter.Header()
	for name, values := range a.header {
		if sends(name, status) {
			h[name] = valid(values)
		}
	}
	a.ResponseWriter.WriteHeader(status)
	if status >= 200 {
		a.begun = true
		return
	}
	a.continued = a.continued || status == http.StatusContinue
	clear(h) // http3 has sent it
}

// sends reports whether a field of the header is sent with a status (RFC 9114,
// section 4.2).
func sends(name string, status int) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
		return false
	case "Content-Length", "Trailer":
		return status >= 200
	}
	return httpguts.ValidHeaderFieldName(name) && !strings.HasPrefix(name, http.TrailerPrefix)
}

// valid returns the values that may be sent. A client treats an answer with
// another one as malformed.
func valid(values []string) []string {
	for i, value := range values {
		if !httpguts.ValidHeaderFieldValue(value) {
			good := append([]string{}, values[:i]...)
			for _, value := range values[i:] {
				if httpguts.ValidHeaderFieldValue(value) {
					good = append(good, value)
				}
			}
			return good
		}
	}
	return values
}

// Write implements http.ResponseWriter.
func (a *http3Answer) Write(b []byte) (int, error) {
	a.beginAnswer()
	return a.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (a *http3Answer) FlushError() error {
	a.beginAnswer()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// beginAnswer writes the header if there was none. Only the handler calls it.
func (a *http3Answer) beginAnswer() {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
}

// finish hands the trailers to http3, which sends them at the end.
func (a *http3Answer) finish(r *http.Request) {
	a.beginAnswer()
	if r.Method == http.MethodHead {
		_ = a.FlushError() // else http3 would send a Content-Length of 0; it fails if the client has left
	}
	h := a.ResponseWriter.Header()
	for _, line := range a.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, ok := a.header[name]; ok {
				h[name] = valid(values)
			} else {
				delete(h, name)
			}
		}
	}
	maps.Copy(h, trailers(a.header))
}

// trailers returns the trailers that were not announced.
func trailers(header http.Header) http.Header {
	found := http.Header{}
	for name, values := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			found[name] = valid(values)
		}
	}
	return found
}

// receive gives a request the form that net/http gives to those over HTTP/2. An
// error means that the client did not send the rest in time.
func (a *http3Answer) receive(r *http.Request) error {
	delete(r.Header, "Host") // it is the :authority, which is in r.Host
	r.Proto = "HTTP/3.0"     // of a CONNECT, http3 sets the protocol that the client names
	if r.ContentLength < 0 && usuallyEmpty(r.Method) {
		if err := a.lookForBody(r); err != nil {
			return err
		}
	}
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	if values := r.Header["Expect"]; len(values) == 1 && strings.EqualFold(values[0], "100-continue") {
		delete(r.Header, "Expect")
		if r.ContentLength != 0 {
			r.Body = &expected{ReadCloser: r.Body, answer: a}
		}
	}
	return nil
}

// usuallyEmpty reports whether requests with a method have no body as a rule.
func usuallyEmpty(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodConnect:
		return false
	}
	return true
}

// lookForBody waits for the first byte of a body without a length, or its end.
// http3 does not tell whether the client has ended its stream after the header,
// and a GET with a body of unknown length would go to an upstream in chunks.
func (a *http3Answer) lookForBody(r *http.Request) error {
	control := http.NewResponseController(a.ResponseWriter)
	_ = control.SetReadDeadline(time.Now().Add(readHeaderTime)) // http3 supports it
	first := make([]byte, 1)
	_, err := io.ReadFull(r.Body, first)
	_ = control.SetReadDeadline(time.Time{})
	switch err {
	case nil:
		r.Body = &begun{ReadCloser: r.Body, first: first}
	case io.EOF:
		r.ContentLength = 0
		delete(r.Header, "Trailer")
	default:
		return err
	}
	return nil
}

// begun is a body whose first byte was read before.
type begun struct {
	io.ReadCloser
	first []byte // nil when it was given out
}

// Read implements io.Reader.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 || len(p) == 0 {
		return b.ReadCloser.Read(p)
	}
	n := copy(p, b.first)
	b.first = nil
	return n, nil
}

// expected is a body that the client sends when it is asked for (RFC 9110, section
// 10.1.1).
type expected struct {
	io.ReadCloser
	answer *http3Answer
}

// Read implements io.Reader.
func (e *expected) Read(p []byte) (int, error) {
	e.answer.ask()
	return e.ReadCloser.Read(p)
}

// ask sends 100 (Continue) unless the answer has begun. The header of the answer
// is the handler's, so none of it goes along.
func (a *http3Answer) ask() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun && !a.continued {
		a.continued = true
		a.ResponseWriter.WriteHeader(http.StatusContinue)
	}
}
