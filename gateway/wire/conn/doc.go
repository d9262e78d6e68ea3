// Package conn manages the connections of clients below HTTP.
//
// A Set has the connections of one or more listeners. It bounds their number,
// and closes the connection that has waited longest for a request to make room
// for a new one. At a stop it closes the connections that wait (Set.Leave), and
// keeps a connection with an answer open until the client has read the answer
// (Set.Linger). It learns the state of a connection from http.Server
// (Set.State), through all layers: TLS and the PROXY protocol.
//
// Listeners of NewSecure, and Cleartext, are the outermost layers. They keep the bytes of each
// header over HTTP/1.1, so that TwoFramings sees the fields that net/http has dropped, and
// CameWhole which bodies came with theirs. They take the place of the Read by which net/http
// learns that a client has left: a request that is answered within 50 milliseconds does without
// it.
//
// A Gatherer joins writes that follow each other at once. Each connection of a Set
// has one.
//
// WebSockets ends connections that http.Server no longer knows, because they
// became WebSockets. NewProxyProtocol reads the address of the client from the
// header of a load balancer. Budget divides the file descriptors of the process.
//
// # Limits and threats
//
// A client that sends slowly, or does not read, must not keep a connection
// open: waiting connections are closed first, and each end has a time limit.
// Bytes that a client sends never extend a limit; bytes that it reads may.
//
// Only addresses in a list of load balancers may send a PROXY protocol header,
// and those must. A header is read within a time limit, and after Accept, so
// that a silent balancer does not hold up the listener.
//
// Bytes that a client does not read stay in memory for as long as its connection:
// 128 KiB at most, beside the buffers of the system.
//
// Only Linux tells how much a client has not read. On other systems a
// connection lingers for half a second.
package conn
