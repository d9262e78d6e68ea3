package clients

import (
	"net/netip"
	"testing"
)

// Addresses of the internet are public, and all others are not, in each form that leads to
// them.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	a := newAddresses()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "192.0.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "100.63.255.255": true,
		"100.128.0.0": true, "223.255.255.255": true, "192.167.1.1": true, "198.17.255.255": true, "11.0.0.0": true,
		"2001:4860:4860::8888": true, "2a00::1": true, "2606:4700::1111": true, "2001:200::1": true,
		"::ffff:8.8.8.8": true, "64:ff9b::8.8.8.8": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.127.255.255": false,
		"127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false, "172.16.0.1": false,
		"172.31.255.255": false, "192.0.0.8": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false,
		"198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false,
		"168.63.129.16": false, "168.63.129.17": true, "239.255.255.255": false,
		"240.0.0.1": false, "255.255.255.255": false,

		"::": false, "::1": false, "::127.0.0.1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false,
		"::ffff:0:127.0.0.1": false, "::ffff:169.254.169.254": false, "64:ff9b::127.0.0.1": false,
		"64:ff9b::169.254.169.254": false, "64:ff9b::10.1.2.3": false, "64:ff9b:1::8.8.8.8": false,
		"100::1": false, "2001::1": false, "2001:0:7f00:1::": false, "2001:10::1": false, "2001:db8::1": false,
		"2002:7f00:1::": false, "2002:808:808::": false, "3fff::1": false, "3ffe::1": true, "4000::1": false,
		"5f00::1": false, "fc00::1": false, "fd12:3456::1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fec0::1": false, "ff02::1": false, "ff0e::1": false, "2a00::1%eth0": false,
	} {
		if got := a.public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if a.public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// A public address is none that package net knows as special, and stays what it is in the
// forms of IPv6.
func FuzzPublicAddresses(f *testing.F) {
	for _, seed := range []string{
		"127.0.0.1", "8.8.8.8", "::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2a00::1", "fe80::1",
	} {
		address := netip.MustParseAddr(seed)
		f.Add(address.AsSlice())
	}
	a := newAddresses()
	f.Fuzz(func(t *testing.T, raw []byte) {
		address, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		public := a.public(address)
		plain := address.Unmap()
		if public && (!plain.IsGlobalUnicast() || plain.IsPrivate() || plain.IsLoopback()) {
			t.Errorf("%s is public", address)
		}
		if !plain.Is4() {
			return
		}
		four := plain.As4()
		for _, prefix := range []string{"::ffff:0:0", "64:ff9b::"} {
			form := netip.MustParseAddr(prefix).As16()
			copy(form[12:], four[:])
			if got := a.public(netip.AddrFrom16(form)); got != public {
				t.Errorf("%s is public: %t, and %s: %t", address, public, netip.AddrFrom16(form), got)
			}
		}
	})
}
