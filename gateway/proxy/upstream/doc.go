// Package upstream sends requests to the applications behind the gateway.
//
// An Upstream has one or more targets. A balancer orders them for each request: those that
// are well first, those that rest after failures, or fail the active checks, last. HTTP/1.1,
// with or without TLS and over sockets, goes through package http1; h2c and unix+h2c targets,
// and https targets that choose HTTP/2 in the handshake, are served by package http2.
// IdentityHeaders writes the identity of the client into a request, and removes the values of
// the client there. A Rewriter makes responses name the gateway instead of a target.
//
// # Limits and threats
//
// A client may send any header. IdentityHeaders admits none that an application
// could read as one of the gateway's, in any spelling, so an application may
// believe the identity that it gets. The application must accept connections
// from the gateway only.
//
// A request is sent to another target if no connection could be made. If one broke without
// a response, the request must be idempotent and without a body. A budget for retries
// bounds the load of an application that fails. With a single target, http1 or http2
// repeats a request once under the same rules.
//
// An upstream may be slow or break the rules of HTTP. The header of a response, and
// each pause of an upstream that does not read, have a time limit. Informational
// responses and response headers are bounded. Errors quote nothing of a response,
// which may be for another client.
package upstream
