// Package peer finds out which client a request comes from, over which scheme
// and for which host, also behind proxies.
//
// # Limits and threats
//
// Any client can send X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and
// Forwarded (RFC 7239). The package reads these headers only if the connection
// comes from a trusted proxy, and takes from them the last values, which that
// proxy wrote itself. It reads a chain of addresses from the right and stops at
// the first address that is not a trusted proxy or not an address at all: what
// is to the left of it may be forged.
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
	hops, proto, host := forwarded(r.Header)
	switch proto {
	case "http", "https":
		p.Proto = proto
	case "ws", "wss": // so some proxies, such as Traefik, call it for WebSockets
		p.Proto = strings.Replace(proto, "ws", "http", 1)
	}
	if host != "" {
		p.Host = host
	}
	if len(hops) > 0 {
		p.Chain = strings.Join(append(hops, p.Chain), ", ")
	}
	for _, hop := range slices.Backward(hops) {
		addr := ParseAddr(hop)
		if !addr.IsValid() {
			break // the last known address counts
		}
		p.Client, p.Address = addr, addr.String()
		if !t.Contains(addr) {
			break
		}
	}
	return p
}

// remote returns the address of http.Request.RemoteAddr, and its text. An IPv4 address has one
// text, so that it need not be made again.
func remote(s string) (netip.Addr, string) {
	if host, _, ok := strings.Cut(s, ":"); ok {
		if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
			return a, host
		}
	}
	a := ParseAddr(s)
	return a, a.String()
}

// unknownHop replaces an address that a proxy does not give (RFC 7239, section
// 6.2).
const unknownHop = "unknown"

// forwarded returns the chain of addresses, the scheme and the host from the
// headers of a trusted proxy. Of several schemes or hosts it returns the last.
// X-Forwarded-* takes precedence over Forwarded.
func forwarded(h http.Header) (hops []string, proto, host string) {
	hops, proto, host = parseForwarded(h["Forwarded"])
	if values := list(h, "X-Forwarded-For"); len(values) > 0 {
		hops = values
	}
	if values := list(h, "X-Forwarded-Proto"); len(values) > 0 {
		proto = strings.ToLower(values[len(values)-1])
	}
	if values := list(h, "X-Forwarded-Host"); len(values) > 0 {
		host = values[len(values)-1]
	}
	return hops, proto, host
}

// parseForwarded reads the lines of Forwarded (RFC 7239, section 4).
func parseForwarded(lines []string) (hops []string, proto, host string) {
	for element := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if strings.TrimSpace(element) == "" {
			continue
		}
		// An element without a scheme or a host does not inherit those of the
		// element before it, which a client may have written.
		hop := ""
		proto, host = "", ""
		for pair := range strings.SplitSeq(element, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			value = strings.Trim(value, `"`)
			switch strings.ToLower(name) {
			case "for":
				if hop != "" {
					value = unknownHop // two addresses are ambiguous
				}
				hop = value
			case "proto":
				proto = strings.ToLower(value)
			case "host":
				host = value
			}
		}
		hops = append(hops, cmp.Or(hop, unknownHop))
	}
	return hops, proto, host
}

// list returns the comma-separated values of a header, from all its lines.
func list(h http.Header, name string) []string {
	var all []string
	for _, line := range h[name] {
		for value := range strings.SplitSeq(line, ",") {
			if value = strings.TrimSpace(value); value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

// ParseAddr parses an address with or without a port or brackets. It returns
// an IPv4-mapped IPv6 address as IPv4, drops a zone, and returns the zero Addr
// if s is no address.
func ParseAddr(s string) netip.Addr {
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
