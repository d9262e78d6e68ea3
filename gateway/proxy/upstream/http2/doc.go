// Package http2 is an HTTP/2 client for upstreams (RFC 9113).
//
// net/http speaks the protocol. This package decides which connection carries a
// request, and whether a request that fails is sent again. http.Transport would
// decide otherwise: it repeats requests whose stream the upstream has reset, for
// up to a minute, and goes on using a connection that has fallen silent.
//
// # Limits and threats
//
// A connection carries the requests of several people at once, so none of them may
// sign it in (NTLM, Negotiate), and unread bytes of one must not stop the others: each
// stream has its own window, and the window of the connection is larger than all of
// them.
//
// An upstream may be slow or malicious. The header of a response and each pause of an
// upstream that does not read have a time limit. Informational responses are bounded,
// a connection without a sign of life is given up, and errors quote nothing that the
// upstream sent.
package http2
