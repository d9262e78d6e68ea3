// Package http1 is an HTTP/1.1 client for upstreams.
//
// It writes a request and reads the response on the goroutine of the caller.
// http.Transport uses two other goroutines for that and waits for them, which is
// most of the cost of a small request. Only a body that is longer than SmallBody,
// or of unknown length, is written on a second goroutine, so that the upstream
// can respond before it has read the body.
//
// net/http writes requests and parses responses (Request.Write, ReadResponse).
// Trailers of requests are not sent.
//
// Client.Start is a fast path: it sends a plain request on an idle connection and
// reads a plain response in place, without an http.Request and an http.Response. It
// follows the same rules, and hands everything else over to readResponse, before
// it has consumed a byte.
//
// # Limits and threats
//
// Nothing in a response says to which request it belongs (RFC 9112, section
// 9.3.2). If the client and the upstream disagree about where a response ends,
// the rest becomes the response to the next request on the connection, perhaps
// another user's. So the client uses a connection again only if the end of the
// last response is beyond doubt (see reusable) and no byte has come since.
//
// The client sends a request a second time only if that cannot do harm; see
// Client.RoundTrip.
//
// An upstream may be slow or malicious. The header of a response and each pause
// of an upstream that does not read have a time limit. Response headers and
// informational responses are bounded, and errors quote nothing that the
// upstream sent.
package http1
