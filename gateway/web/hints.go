package web

import "net/http"

// writeInformational sends an informational response with the header of w as
// it is now.
//
// Over HTTP/2, net/http encodes that header on another goroutine, and does not
// wait for it once the client has reset the stream. httputil.ReverseProxy
// clears the map right after the call. Both at once end the process
// (golang.org/issue/67940). net/http encodes a copy of the header if it has a
// Content-Length, which it never sends with an informational response, so the
// header gets one for the time of the call.
func writeInformational(w http.ResponseWriter, status int) {
	h := w.Header()
	length, ok := h["Content-Length"]
	h["Content-Length"] = length
	w.WriteHeader(status)
	if !ok {
		delete(h, "Content-Length")
	}
}
