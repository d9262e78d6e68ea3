package web

import (
	"errors"
	"net/http"

	"authgate/gateway/wire/peer"
	"authgate/policy"
)

// errForeignHost is for operators: the host is in the log.
var errForeignHost = errors.New("the host is not one of the gateway's: that of public_url, those in routes, " +
	"tls.domains")

// CheckHost refuses a request for a host that is not the gateway's (RFC 9110,
// section 15.5.20), and notes one that is accepted all the same. Load balancers
// that check the health of the gateway ask for the address that they connect
// to; that one is accepted.
func (s *Site) CheckHost(received *Received, host string) error {
	if s.Hosts.Has(host) {
		return nil
	}
	received.Foreign = true
	if s.Hosts.Any || peer.IsLocalAddress(received.Request, host) {
		return nil
	}
	return &Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "This gateway does not serve the host of the request. If it should, add a route for the host, " +
			"or let the proxy in front pass on Host.",
		Cause: errForeignHost,
	}
}

// handshakeHost returns the canonical host for which a client has opened a connection, by the name
// that it gave in the handshake (RFC 6066, section 3). A client that gave none means the host of
// public_url.
func (s *Site) handshakeHost(name string) string {
	if name == "" {
		return s.HostOrHome("")
	}
	host, err := policy.CanonicalHost(name)
	if err != nil {
		return "" // no host of the gateway
	}
	return host
}

// AsksForCertificate reports whether a client that opens a connection for a host is asked for a
// certificate.
func (s *Site) AsksForCertificate(name string) bool {
	return s.Hosts.AcceptCertificates(s.handshakeHost(name))
}

// CheckHandshake refuses a request for another host than its connection was opened for, if a route
// of either accepts certificates (RFC 9110, section 15.5.20): browsers reuse a connection for all
// hosts that its server is certified for, and have asked the user about a certificate for one of
// them alone. The connection of a trusted proxy carries many clients.
func (s *Site) CheckHandshake(received *Received, host string) error {
	state := received.Request.TLS
	if !s.Hosts.Certificates || received.Peer.Trusted || state == nil || state.ServerName == host {
		return nil
	}
	opened := s.handshakeHost(state.ServerName)
	if opened == host || !s.Hosts.AcceptCertificates(host) && !s.Hosts.AcceptCertificates(opened) {
		return nil
	}
	return &Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "The connection was opened for another host. Open one for the host of the request.",
		Cause: errors.New("a route of one of the two hosts accepts certificates, which belong to one host's " +
			"connections"),
	}
}
