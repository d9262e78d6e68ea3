package clients

import (
	"fmt"
	"net/netip"
	"syscall"
)

// networks are parsed prefixes.
func networks(texts ...string) []netip.Prefix {
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}

// addresses decides which addresses are those of the internet, by the registries of addresses
// with a special purpose (RFC 6890), and by those of clouds.
type addresses struct {
	special4, special6 []netip.Prefix
	global6            netip.Prefix // where all addresses of the internet are, so far
	translated         netip.Prefix // IPv4 addresses as IPv6 hosts reach them (RFC 6052)
}

func newAddresses() *addresses {
	return &addresses{
		special4: networks(
			"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24",
			"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
			"224.0.0.0/3",      // multicast, and reserved
			"168.63.129.16/32", // the platform, as virtual machines of Azure see it
		),
		special6: networks(
			"2001::/23", // protocols, such as Teredo, which leads to IPv4 addresses
			"2001:db8::/32", "3fff::/20",
			"2002::/16", // 6to4, which leads to IPv4 addresses
		),
		global6: netip.MustParsePrefix("2000::/3"), translated: netip.MustParsePrefix("64:ff9b::/96"),
	}
}

// public reports whether an address is one of the internet, in each form that a connection to
// it can have.
func (a *addresses) public(address netip.Addr) bool {
	address = address.Unmap()
	if a.translated.Contains(address) {
		bytes := address.As16()
		address = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	special, global := a.special6, address.Is4() || a.global6.Contains(address)
	if address.Is4() {
		special = a.special4
	}
	for _, prefix := range special {
		if prefix.Contains(address) {
			return false
		}
	}
	return global && address.Zone() == ""
}

// control refuses a connection to an address that is not of the internet. It is called with
// the address that the connection goes to, after the name was resolved.
func (a *addresses) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !a.public(at.Addr()) {
		return fmt.Errorf("%s is no address of the internet; list the host in oauth.metadata_clients.hosts", at.Addr())
	}
	return nil
}
