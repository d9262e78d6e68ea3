package acme

import (
	"crypto/tls"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// Clients that connect to an address name no host in the handshake (RFC 6066, section 3).
// The authority names the address as the DNS does in reverse (RFC 8738, section 6).

// ofAddress returns the certificate for a client that names no host. It is that of the
// address to which the client has connected. Behind address translation this address is
// another one: then it is the first configured address, of the same family if there is
// one. It returns nil if no address has a certificate.
func (m *Manager) ofAddress(hello *tls.ClientHelloInfo) *tls.Certificate {
	asked, err := netip.ParseAddr(hello.ServerName)
	switch {
	case err != nil && hello.ServerName != "":
		return nil
	case err != nil && hello.Conn != nil:
		local, _ := netip.ParseAddrPort(hello.Conn.LocalAddr().String())
		asked = local.Addr().WithZone("")
	}
	asked = asked.Unmap()
	var certificate *tls.Certificate
	closest := 0
	for _, name := range m.names() {
		addr, err := netip.ParseAddr(name)
		if err != nil {
			continue
		}
		nearness := 1
		switch {
		case addr == asked:
			nearness = 3
		case addr.BitLen() == asked.BitLen():
			nearness = 2
		}
		if current := m.current(name); current != nil && nearness > closest {
			certificate, closest = &current.Certificate, nearness
		}
	}
	return certificate
}

// managesReverse reports whether name is that of a configured address in the DNS, such
// as 1.2.0.192.in-addr.arpa.
func (m *Manager) managesReverse(name string) bool {
	return slices.ContainsFunc(m.names(), func(domain string) bool {
		reverse, err := dns.ReverseAddr(domain)
		return err == nil && reverse == name+"."
	})
}
