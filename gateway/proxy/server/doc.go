// Package server runs a gateway on its listeners.
//
// There are four listeners. https is the public one, and http3 serves the same over
// QUIC if it is configured. http redirects to https
// and answers ACME challenges; with tls.mode off it is the public one, behind a
// proxy that terminates TLS. admin serves /metrics, /healthz and /readyz.
//
// Server.Serve ends with a drain: clients have time to go elsewhere, and
// requests in flight to finish. The probes of the admin listener are answered
// until the end.
//
// # Limits and threats
//
// The server bounds how slowly a client may send the header of a request, and
// for how long a connection may be idle. The public listeners have as many
// connections as file descriptors allow; the connection that has waited longest
// for a request makes room for a new one. Connections over QUIC have a limit of the
// same size, although they need no file descriptors. The PROXY protocol does not
// apply to them. There is no 0-RTT, no WebSocket and no tunnel. The admin listener has no such limit
// and no authentication: only operators may reach it.
//
// A client cannot delay the end of a drain beyond shutdown_delay and
// shutdown_timeout, whatever it sends or does not read.
package server
