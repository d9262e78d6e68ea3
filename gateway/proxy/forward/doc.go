// Package forward is the one door to upstreams. It sends a request that was let in
// to the upstream of its route, and the answer back.
//
// It sends exactly the request that was decided on: the path's bytes as they came,
// and the identity that was proved, with nothing of the client in its place. A
// [Route] has the settings of a route for that, and a [Request] is one request on
// this way.
//
// # Two ways
//
// A usual request goes the fast path: its header is written straight onto an idle
// connection, and a plain response is read in place. All others go through
// httputil.ReverseProxy, and so does the rest of a request whose response turns out
// to be unusual, or late. fast.go has the fast path. No other package knows of it but
// those that send the bytes, gateway/proxy/upstream and its http1. Both ways call the same
// functions for headers, and tests compare every byte that they send.
//
// # Streams
//
// While the answer goes on, the request is among the streams (see gateway/proxy/streams)
// unless nothing can end it early. A stream whose login has ended loses its upstream
// first, and its client learns that the answer is not whole.
//
// # Limits
//
// An answer that breaks off ends Send with a panic by http.ErrAbortHandler, as in
// httputil.ReverseProxy. The caller recovers it.
package forward
