package web

import (
	"errors"
	"net/http"

	"authgate/policy"
)

// acceptCertificates reports whether a route of a canonical host accepts certificates of clients.
func (h *hosts) acceptCertificates(host string) bool {
	return h.certificates && h.some(host, func(r *room) bool { return r.certificates })
}

// handshakeHost returns the canonical host for which a client has opened a connection, by the name
// that it gave in the handshake (RFC 6066, section 3). A client that gave none means the host of
// public_url.
func (s *Site) handshakeHost(name string) string {
	if name == "" {
		return s.home
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
	return s.Hosts.acceptCertificates(s.handshakeHost(name))
}

// CheckHandshake refuses a request for another host than its connection was opened for, if a route
// of either accepts certificates (RFC 9110, section 15.5.20): browsers reuse a connection for all
// hosts that its server is certified for, and have asked the user about a certificate for one of
// them alone. The connection of a trusted proxy carries many clients.
func (s *Site) CheckHandshake(received *Received, host string) error {
	state := received.Request.TLS
	if !s.Hosts.certificates || received.Peer.Trusted || state == nil || state.ServerName == host {
		return nil
	}
	opened := s.handshakeHost(state.ServerName)
	if opened == host || !s.Hosts.acceptCertificates(host) && !s.Hosts.acceptCertificates(opened) {
		return nil
	}
	return &Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "The connection was opened for another host. Open one for the host of the request.",
		Cause: errors.New("a route of one of the two hosts accepts certificates, which belong to one host's " +
			"connections"),
	}
}
