package web

import (
	"io"
	"net/http"
	"time"
)

// mostDropped is how much of a body is read and dropped after an answer that came first,
// in bytes.
const mostDropped = 64 << 20

// answerFirst lets an answer over HTTP/1.1 come before the end of the request's body. Otherwise
// the server would wait for the rest of the body, or close the connection with bytes that
// it has not read, which makes the client's system drop the answer. Only an answer of known
// length can be whole before its handler returns.
func (p *pacing) answerFirst(w http.ResponseWriter, r *http.Request, status int) {
	switch {
	case r.ProtoMajor != 1, r.ContentLength == 0, status < 200:
		return
	case p.bodyRead, p.upload != nil && !p.upload.Unread():
		return // the body has ended
	case !lengthKnown(r, status, w.Header()), p.lastOnConnection(r):
		return
	}
	p.first = http.NewResponseController(w).EnableFullDuplex() == nil
}

// lengthKnown reports whether an answer to r tells before its body how long the body is
// (RFC 9112, section 6.3).
func lengthKnown(r *http.Request, status int, h http.Header) bool {
	if status == http.StatusNoContent || status == http.StatusNotModified || r.Method == http.MethodHead {
		return true // there is no body
	}
	return len(h["Content-Length"]) > 0
}

// DropBody reads and drops the rest of the request's body after an answer that came first. So a
// client that reads only after it has sent everything gets the answer (RFC 9112, section 9.3). It
// takes at most BodyTime, and comes after Finish. It returns false if the connection must end,
// because it is unknown where the next request begins.
func (ex *Exchange) DropBody() bool {
	if !ex.pace.first || ex.pace.upload != nil && !ex.pace.upload.Unread() {
		return true
	}
	control := http.NewResponseController(ex.ResponseWriter)
	if control.SetReadDeadline(time.Now().Add(BodyTime)) != nil || control.Flush() != nil {
		return false
	}
	n, err := io.CopyN(io.Discard, ex.Request.Body, mostDropped)
	return err == io.EOF && n < mostDropped
}
