package listening

import (
	"net/netip"
	"slices"

	"authgate/gateway/config/section"
)

// warnOfAllAddresses warns about a list of networks at path that leaves out no address
// of the internet. what is what a client can then do.
func warnOfAllAddresses(r *section.Report, path string, networks []netip.Prefix, what string) {
	for _, all := range [...]struct {
		version string
		public  netip.Prefix
		private []netip.Prefix // what is not on the internet
	}{
		{"IPv4", netip.MustParsePrefix("0.0.0.0/0"), []netip.Prefix{
			netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"),
			netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"),
			netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
		}},
		{"IPv6", netip.MustParsePrefix("2000::/3"), nil}, // the only part of global unicast addresses
	} {
		if covered(all.public, slices.Concat(networks, all.private)) {
			r.Warn(path, "covers every address of %s on the internet, so any client can %s; "+
				"give only the addresses of your own proxies", all.version, what)
			return
		}
	}
}

// covered reports whether networks contain every address of a network.
func covered(network netip.Prefix, by []netip.Prefix) bool {
	var inside []netip.Prefix
	for _, p := range by {
		if p.Overlaps(network) {
			if p.Bits() <= network.Bits() {
				return true
			}
			inside = append(inside, p)
		}
	}
	if len(inside) == 0 {
		return false
	}
	low, high := halves(network)
	return covered(low, inside) && covered(high, inside)
}

// halves returns the two networks that make up a network of more than one address.
func halves(network netip.Prefix) (low, high netip.Prefix) {
	bits := network.Bits()
	low = netip.PrefixFrom(network.Addr(), bits+1)
	address := network.Addr().AsSlice()
	address[bits/8] |= 0x80 >> (bits % 8)
	first, _ := netip.AddrFromSlice(address)
	return low, netip.PrefixFrom(first, bits+1)
}
