package web

import (
	"net/http"

	"authgate/gateway/wire/conn"
)

// writeInformational sends an informational response to r with the header of w as
// it is now. HTTP/1.0 has none (RFC 9110, section 15.2).
//
// Over HTTP/2, net/http encodes that header on another goroutine, and does not
// wait for it once the client has reset the stream. httputil.ReverseProxy
// clears the map right after the call. Both at once end the process
// (golang.org/issue/67940). net/http encodes a copy of the header if it has a Content-Length, which
// it never sends with an informational response. So the header gets one for the time of the call.
func writeInformational(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	if !r.ProtoAtLeast(1, 1) || conn.Inform(r, status, h) {
		return
	}
	length, ok := h["Content-Length"]
	h["Content-Length"] = length
	w.WriteHeader(status)
	if !ok {
		delete(h, "Content-Length")
	}
}
