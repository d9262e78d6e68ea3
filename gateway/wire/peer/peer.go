// Package peer finds out which client a request comes from, over which scheme
// and for which host, also behind proxies.
//
// # Limits and threats
//
// Any client can send X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and
// Forwarded (RFC 7239). The package reads these headers only if the connection
// comes from a trusted proxy. It reads a chain of addresses from the right and
// stops at the first address that is not a trusted proxy or not an address at
// all: addresses to the left of it may be forged. The scheme and the host come
// from the proxy that wrote this address, beside it.
//
// A trusted proxy must add to these headers or overwrite them. If it passes a
// client's X-Forwarded-Proto or X-Forwarded-Host on unchanged, the client
// chooses the scheme and the host.
package peer

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Peer is the client of a request.
type Peer struct {
	Trusted bool       // the connection comes from a trusted proxy
	Client  netip.Addr // the client's address; the zero Addr if it is unknown
	Address string     // Client as text, for logs
	Proto   string     // the scheme that the client used, http or https
	Host    string     // the host that the client asked for, as it wrote it
	Chain   string     // X-Forwarded-For for the upstream
}

// Proxies are the networks of trusted proxies. The zero value trusts none.
type Proxies []netip.Prefix

// Contains reports whether an address is in one of the networks.
func (t Proxies) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Read returns the client of r.
func (t Proxies) Read(r *http.Request) Peer {
	p := Peer{Proto: "http", Host: r.Host}
	if r.TLS != nil {
		p.Proto = "https"
	}
	p.Client, p.Address = remote(r.RemoteAddr)
	p.Chain = p.Address
	if len(t) == 0 || !t.Contains(p.Client) {
		return p
	}
	p.Trusted = true
	f := t.forwarded(r.Header)
	switch strings.ToLower(f.proto) {
	case "https", "wss": // so some proxies, such as Traefik, call it for WebSockets
		p.Proto = "https"
	case "http", "ws":
		p.Proto = "http"
	}
	p.Host = cmp.Or(f.host, p.Host)
	if f.address.IsValid() {
		p.Client, p.Address = f.address, f.text
	}
	if f.chain != "" {
		p.Chain = f.chain + ", " + p.Chain
	}
	return p
}

// remote returns the address of http.Request.RemoteAddr, and its text.
func remote(s string) (netip.Addr, string) {
	if host, _, ok := strings.Cut(s, ":"); ok {
		if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
			return a, host
		}
	}
	return parseText(s)
}

// parseText returns the address of ParseAddr, and its text. An IPv4 address has one text, so that
// it need not be made again.
func parseText(s string) (netip.Addr, string) {
	a := ParseAddr(s)
	if a.Is4() && !strings.ContainsAny(s, ":[]") {
		return a, s
	}
	return a, a.String()
}

// ParseAddr parses an address with or without a port or brackets. It returns
// an IPv4-mapped IPv6 address as IPv4, drops a zone, and returns the zero Addr
// if s is no address.
func ParseAddr(s string) netip.Addr {
	if !strings.HasPrefix(s, "[") { // mostly without a port
		if a, err := netip.ParseAddr(s); err == nil {
			return a.Unmap().WithZone("")
		}
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().Unmap().WithZone("")
	}
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// Fold returns the address that counts as one client: an IPv4 address, or the /64 prefix
// of an IPv6 address, from which one client can choose addresses.
func Fold(client netip.Addr) netip.Addr {
	client = client.Unmap()
	if client.Is6() {
		// There is no error: every IPv6 address has a /64 prefix.
		prefix, _ := client.Prefix(64)
		client = prefix.Addr()
	}
	return client
}

// IsLocalAddress reports whether host is the address on which the server
// accepted the connection of r.
func IsLocalAddress(r *http.Request, host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && ParseAddr(local.String()) == addr.Unmap()
}
