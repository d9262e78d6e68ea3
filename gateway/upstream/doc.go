// Package upstream sends requests to the applications behind the gateway.
//
// An Upstream has one or more addresses. A balancer sends each request to the
// next address and skips those that refused a connection a moment ago. HTTP/1.1,
// with or without TLS, goes through package http1; http.Transport serves https
// addresses that choose HTTP/2 in the handshake. IdentityHeaders writes the
// identity of the client into a request, and removes what the client wrote there.
//
// # Limits and threats
//
// A client may send any header. IdentityHeaders admits none that an application
// could read as one of the gateway's, in any spelling, so an application may
// believe the identity that it gets. The application must accept connections
// from the gateway only.
//
// A request is sent to another address only if no connection could be made, so
// that no application gets it twice; http1 repeats a request once under strict
// rules.
//
// An upstream may be slow or break the rules of HTTP. The header of a response,
// and each pause of an upstream that does not read, have a time limit. Informational
// responses and response headers are bounded. Errors quote nothing that the
// upstream sent, which may be the response to another client.
package upstream
