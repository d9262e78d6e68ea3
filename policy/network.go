package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// ParseNetwork parses an address or a CIDR. An IPv4-mapped IPv6 network becomes
// the IPv4 network.
func ParseNetwork(s string) (netip.Prefix, error) {
	network, err := parseNetwork(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q %w", s, err)
	}
	return network, nil
}

// parseNetwork is ParseNetwork with an error that does not quote s.
func parseNetwork(s string) (netip.Prefix, error) {
	errForm := errors.New("is neither an address nor a CIDR; " +
		"expected one like 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32")
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return netip.Prefix{}, errForm
		case addr.Zone() != "":
			return netip.Prefix{}, errors.New("has a zone, which has a meaning on one machine only; remove the zone")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errForm
	}
	if p != p.Masked() {
		return netip.Prefix{}, errors.New("has bits set beyond the length of its prefix; " +
			"did you mean " + p.Masked().String() + "?")
	}
	if p.Addr().Is4In6() { // clients are compared unmapped
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), nil
	}
	return p, nil
}

func checkNetwork(s string) error {
	_, err := parseNetwork(s)
	return err
}

// Loopback reports whether a host, without port and brackets, is this machine:
// localhost or an address such as 127.0.0.1 or ::1.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
