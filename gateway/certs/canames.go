package certs

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// caNames are the names and addresses of a localCA.
type caNames struct {
	names     map[string]bool // "*.example.org" is one
	first     string          // for clients that ask for none of them
	addresses []net.IP        // clients that connect to one ask for no name
}

func newCANames(domains []string) *caNames {
	n := &caNames{names: map[string]bool{}, first: domains[0]}
	for _, domain := range domains {
		if ip := net.ParseIP(domain); ip != nil {
			n.addresses = append(n.addresses, ip)
		} else {
			n.names[domain] = true
		}
	}
	return n
}

func (n *caNames) equal(other *caNames) bool {
	return n.first == other.first && maps.Equal(n.names, other.names) &&
		slices.EqualFunc(n.addresses, other.addresses, net.IP.Equal)
}

// certified returns the subject of the certificate for a client: a name, or the address
// that the client has connected to, or nothing.
func (n *caNames) certified(hello *tls.ClientHelloInfo) string {
	name := strings.ToLower(hello.ServerName)
	if n.names[name] {
		return name
	}
	if _, parent, below := strings.Cut(name, "."); below && n.names["*."+parent] {
		return "*." + parent
	}
	if hello.Conn == nil {
		return ""
	}
	if local, err := netip.ParseAddrPort(hello.Conn.LocalAddr().String()); err == nil {
		if address := local.Addr().Unmap().String(); len(n.addressesOf(address)) == 1 {
			return address
		}
	}
	return ""
}

// addressesOf returns the addresses in a certificate of that subject.
func (n *caNames) addressesOf(certified string) []net.IP {
	if certified == "" {
		return n.addresses
	}
	is := func(address net.IP) bool { return address.String() == certified }
	if i := slices.IndexFunc(n.addresses, is); i >= 0 {
		return n.addresses[i : i+1]
	}
	return nil
}

// constrain makes the certificate of an authority permit these names and addresses
// alone, and servers alone (RFC 5280, sections 4.2.1.10 and 4.2.1.12). The constraints
// are critical: a client that does not know them must refuse certificates of the
// authority. A name permits all names below it too, and a wildcard its parent: the RFC
// has no narrower form. A kind without a permitted value is excluded as a whole,
// because a kind of name without constraints is free.
func (n *caNames) constrain(authority *x509.Certificate) {
	authority.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	authority.PermittedDNSDomainsCritical = true
	authority.PermittedDNSDomains = n.permittedNames()
	if len(authority.PermittedDNSDomains) == 0 {
		authority.ExcludedDNSDomains = []string{""}
	}
	for _, address := range n.addresses {
		authority.PermittedIPRanges = append(authority.PermittedIPRanges, exactly(address))
	}
	if len(n.addresses) == 0 {
		authority.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		}
	}
}

// permittedNames returns the constraints for the names, in order. One directly below a
// wildcard needs none of its own.
func (n *caNames) permittedNames() []string {
	bases := map[string]bool{}
	for name := range n.names {
		if _, parent, _ := strings.Cut(name, "."); name != "*."+parent && n.names["*."+parent] {
			continue
		}
		bases[strings.TrimPrefix(name, "*.")] = true
	}
	return slices.Sorted(maps.Keys(bases))
}

// exactly returns the range of one address.
func exactly(address net.IP) *net.IPNet {
	if short := address.To4(); short != nil {
		return &net.IPNet{IP: short, Mask: net.CIDRMask(32, 32)}
	}
	return &net.IPNet{IP: address, Mask: net.CIDRMask(128, 128)}
}

// areThoseOf reports whether an authority permits these names and addresses, and
// nothing else.
func (n *caNames) areThoseOf(authority *x509.Certificate) bool {
	want := &x509.Certificate{}
	n.constrain(want)
	return slices.Equal(permitted(authority), permitted(want)) &&
		slices.Equal(authority.ExtKeyUsage, want.ExtKeyUsage) &&
		authority.PermittedDNSDomainsCritical && len(authority.ExcludedDNSDomains) == len(want.ExcludedDNSDomains) &&
		len(authority.ExcludedIPRanges) == len(want.ExcludedIPRanges)
}

// since returns the names that are permitted now and were not by the old authority,
// and the reverse. An old authority without constraints permitted everything: nothing
// is new.
func (n *caNames) since(old *x509.Certificate) (added, removed []string) {
	was, is := permitted(old), &x509.Certificate{}
	n.constrain(is)
	if len(was) > 0 {
		added = without(permitted(is), was)
	}
	return added, without(was, permitted(is))
}

// permitted returns the permitted names and addresses of an authority, in order.
func permitted(authority *x509.Certificate) []string {
	all := slices.Clone(authority.PermittedDNSDomains)
	for _, addresses := range authority.PermittedIPRanges {
		all = append(all, addresses.String())
	}
	slices.Sort(all)
	return all
}

// without returns the elements of list that are not in others.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(others, one) })
}
