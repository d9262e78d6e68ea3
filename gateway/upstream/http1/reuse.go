package http1

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// reusable reports whether a connection may carry another request once the
// body of this response is read to its end. It may only if the upstream, and
// whatever there is on the way to it, must see that end where the client sees
// it: who sees it later adds bytes that become the answer to another request,
// which may be another person's (RFC 9112, section 11.2). Such bytes may come
// at any time, so it is no help that none has come yet.
//
// unclear says that the response has two framings, or that an informational
// response before it has one.
func reusable(r *http.Request, response *http.Response, unclear bool) bool {
	switch {
	case unclear:
		return false // which of them counts depends on the reader (RFC 9112, section 6.3)
	case response.Close:
		return false // announced, or the body ends with the connection (RFC 9112, section 9.6)
	case response.ProtoMajor != 1 || response.ProtoMinor == 0:
		return false // HTTP/1.0 has no chunks, but who sends it may not know (RFC 9112, section 6.1)
	case response.StatusCode < 200:
		return false // there is no such final status
	case upgrades(r) || r.Method == http.MethodConnect:
		return false // what there is on the way may take the connection for a tunnel
	}
	for name := range response.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return false // some readers take "Transfer-Encoding :" for one
		}
	}
	if bodiless(r.Method, response.StatusCode) {
		// The header may describe the body that another method or status would
		// have had (RFC 9110, sections 8.6, 9.3.2 and 15.4.5). Servers that send
		// it all the same are common: those of Python whose do_HEAD is do_GET,
		// or a handler that writes a body after 304. The body comes after the
		// header, maybe much later.
		return !frames(response)
	}
	return true
}

// bodiless reports whether a response has no body, whatever its header says
// (RFC 9112, section 6.3).
func bodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
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

// namesLength reports whether a header has a Content-Length.
func namesLength(header []byte) bool {
	const name = "content-length"
	for line := range bytes.Lines(header) {
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return true
		}
	}
	return false
}
