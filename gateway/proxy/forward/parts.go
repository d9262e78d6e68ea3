package forward

import (
	"maps"
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/proxy/web"
)

// An upstream may send fields in three parts of a response: in its header, in the header of an
// informational response before it, and in the trailer behind it. A field that the gateway
// decides on has a meaning in the header alone, where modify decides, and is removed from the
// other two.

// decidesOn reports whether the gateway decides on a field of a response.
func decidesOn(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", workerScope,
		web.SignInHeader, "Www-Authenticate", "Cache-Control", "Vary":
		return true
	}
	return strings.HasPrefix(name, "Access-Control-") || forSharedCaches(name)
}

// ofConnection reports whether a field is about a connection, or frames a message on it (RFC 9110,
// section 7.6.1; RFC 9113, section 8.2.2).
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Proxy-Authenticate", "Proxy-Authorization":
		return true
	}
	return false
}

// dropConnection removes the fields about the connection from a header, with those that Connection
// names.
func dropConnection(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return ofConnection(name) })
}

// inform passes on an informational response, whose fields the header of the answer has for the time
// of the call. The server itself tells a client that waits for 100 (Continue), when the upstream has
// asked for the body; and a switch of protocols is no informational response.
func (q *Request) inform(status int) {
	if status == http.StatusContinue || status == http.StatusSwitchingProtocols {
		return
	}
	ex := q.Exchange
	h := ex.Header()
	dropConnection(h)
	maps.DeleteFunc(h, func(name string, _ []string) bool { return decidesOn(name) })
	if q.Route.rewriter != nil {
		q.Route.rewriter.Rewrite(h, ex.Peer.Host)
	}
	ex.WriteHeader(status)
}

// inTrailer reports whether a field of an upstream may be in a trailer (RFC 9110, section 6.5.1).
func inTrailer(name string) bool {
	switch name {
	case "Age", "Date", "Expires", "Location", "Retry-After":
		return false
	}
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name) &&
		!decidesOn(name) && !ofConnection(name)
}

// announce removes the fields that may not be in the trailer from those that the response announces.
func announce(trailer http.Header) {
	maps.DeleteFunc(trailer, func(name string, _ []string) bool { return !inTrailer(name) })
}

// sendTrailer makes the trailer of the response that of the answer. httputil.ReverseProxy adds it to the
// header of the answer, which was sent, and which may have fields of the same names.
func (q *Request) sendTrailer(trailer http.Header) {
	h := q.Exchange.Header()
	for name, values := range trailer {
		delete(h, name)
		delete(h, http.TrailerPrefix+name)
		if inTrailer(name) {
			h[http.TrailerPrefix+name] = values
		}
	}
}
