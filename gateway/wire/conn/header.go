package conn

import (
	"bytes"
	"net/http"
)

// readAhead is how much net/http may have read of a connection beyond a request: the size
// of its bufio.Reader.
const readAhead = 4096

// header keeps bytes from a connection over HTTP/1.1 until the handler of a request has
// them: the bytes of the request's header, and at most readAhead bytes before them. The
// methods are called in the order in which net/http reads.
type header struct {
	received []byte
	complete []byte // the part of received with the header of the request that is served
	length   int    // of that request, in bytes from the beginning of received; 0: not known
	early    bool   // received may begin with the end of an earlier request
	off      bool   // the connection speaks another protocol
}

// add adds received bytes.
func (h *header) add(b []byte) {
	if h.off {
		return
	}
	if h.complete != nil { // a body, and perhaps the beginning of the next request
		h.length = 0
		b = b[max(0, len(b)-readAhead):]
		if rest := h.received[len(h.complete):]; len(rest)+len(b) > 2*readAhead {
			kept := copy(rest, rest[len(rest)-readAhead:])
			h.received = h.received[:len(h.complete)+kept]
		}
	}
	h.received = append(h.received, b...)
}

// beginRequest is called when the header of a request has been read.
func (h *header) beginRequest() { h.complete = h.received }

// whole reports whether a body of that length came together with the header. It may say no although
// it did.
func (h *header) whole(length int64) bool {
	if length <= 0 || h.early || len(h.complete) == 0 {
		return false
	}
	if h.complete[0] <= ' ' { // net/http skips empty lines after a POST
		return false
	}
	body := blankLine(h.complete)
	if body < 0 || int64(len(h.complete)-body) < length {
		return false
	}
	h.length = body + int(length)
	return true
}

// endRequest is called when a request has been served. Bytes that net/http may have read beyond it stay.
func (h *header) endRequest() {
	known := h.length > 0
	if !known && blankLine(h.complete) == len(h.complete) { // one header, and net/http had read nothing beyond
		h.length = len(h.complete)
	}
	rest := h.received[h.length:]
	rest = rest[max(0, len(rest)-readAhead):]
	h.early, h.length = !known && len(rest) > 0, 0
	if h.complete = nil; cap(h.received) > 2*readAhead { // more than an idle connection needs
		h.received = bytes.Clone(rest)
		return
	}
	h.received = h.received[:copy(h.received, rest)]
}

// served reports whether a request is served whose header is kept.
func (h *header) served() bool { return h.complete != nil }

// stop is called when the connection begins to speak another protocol.
func (h *header) stop() { *h = header{off: true} }

// blankLine returns the index after the first blank line, -1 if there is none.
func blankLine(b []byte) int {
	first := -1
	for _, end := range []string{"\n\r\n", "\n\n"} { // the first one is usual
		if i := bytes.Index(b, []byte(end)); i >= 0 {
			b, first = b[:i+len(end)], i+len(end)
		}
	}
	return first
}

// CameWhole reports whether the body of r came together with its header, so that no Read of it waits.
// It may say no although it did. It always says no of a body without a length, and over HTTP/2.
func CameWhole(r *http.Request) bool {
	c := carrierOf(r)
	if c == nil {
		return false
	}
	kept := requestsOf(c.conn)
	return kept != nil && kept.header.whole(r.ContentLength)
}

// TwoFramings reports whether r came with a Content-Length beside a Transfer-Encoding, or
// with a Transfer-Encoding in HTTP/1.0: programs before the gateway may have divided the
// bytes into other requests (RFC 9112, section 6.1). net/http drops one of the fields, so
// TwoFramings looks for the header in the bytes. It cannot tell the header from a part of a
// body, or of a later request, that begins with the same line. So each of them must have
// one framing, and if TwoFramings finds none, it reports true.
func TwoFramings(r *http.Request) bool {
	chunked := len(r.TransferEncoding) > 0
	if !chunked && r.ProtoAtLeast(1, 1) {
		return false
	}
	c := carrierOf(r)
	if c == nil {
		return false // HTTP/2 has one framing
	}
	kept := requestsOf(c.conn)
	if kept == nil {
		return true
	}
	line, rest := []byte(r.Method+" "+r.RequestURI+" "+r.Proto), kept.header.complete
	for found := false; ; {
		at := bytes.Index(rest, line)
		if at < 0 {
			return !found
		}
		rest = rest[at+len(line):]
		length, coding := framings(rest)
		if coding && (length || !chunked) {
			return true
		}
		found = found || coding == chunked
	}
}

// framings reports which fields a header has; b begins at the end of the request line.
func framings(b []byte) (length, coding bool) {
	_, fields, _ := bytes.Cut(b, []byte("\n"))
	for line := range bytes.Lines(fields) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		coding = coding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	return length, coding
}
