package http1

import (
	"bytes"
	"net/http"
	"strings"
)

// reusable reports whether a connection may carry another request after the body
// of this response. It may only if the upstream, and each proxy on the way to it,
// must agree with the client where the response ends. One that sees a later end
// sends more bytes, which become the response to the next request (RFC 9112,
// section 11.2). They may come at any time, so checking for unread bytes is not
// enough.
//
// unclear says that the response has two framings, or that an informational
// response before it has one.
func reusable(r *http.Request, response *http.Response, unclear bool) bool {
	switch {
	case unclear:
		return false // readers differ in which one they use (RFC 9112, section 6.3)
	case response.Close:
		return false // the upstream closes the connection (RFC 9112, section 9.6)
	case response.ProtoMajor != 1 || response.ProtoMinor == 0:
		return false // HTTP/1.0 has no chunks, but its senders may use them (RFC 9112, section 6.1)
	case response.StatusCode < 200:
		return false // not a valid final status
	case Upgrades(r) || r.Method == http.MethodConnect:
		return false // a proxy on the way may treat the connection as a tunnel
	}
	if bodiless(r.Method, response.StatusCode) {
		// The header may describe the body for another method or status (RFC 9110,
		// sections 8.6, 9.3.2 and 15.4.5). Some servers send that body all the same,
		// perhaps much later: in Python, those whose do_HEAD is do_GET, or that write
		// a body after 304.
		return !frames(response)
	}
	return true
}

// bodiless reports whether a response has no body, also if its header announces one
// (RFC 9112, section 6.3).
func bodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}

// withoutBody reports whether a response has no body, or an empty one.
func withoutBody(response *http.Response) bool {
	return response.ContentLength == 0 || bodiless(response.Request.Method, response.StatusCode)
}

// frames reports whether the header of a response announces a body of at least
// one byte.
func frames(response *http.Response) bool {
	if len(response.TransferEncoding) > 0 {
		return true
	}
	for _, length := range response.Header["Content-Length"] {
		if length == "" || strings.Trim(length, "0") != "" {
			return true
		}
	}
	return false
}

// names reports whether a header has a field whose name begins with name.
func names(header []byte, name string) bool {
	for line := range bytes.Lines(header) {
		if len(line) > len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			return true
		}
	}
	return false
}
