package peer

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Peer tells who is connected and on whose behalf.
type Peer struct {
	Trusted bool       // the connection comes from a trusted proxy
	Client  netip.Addr // who asks: the rightmost address that is no trusted proxy
	Address string     // Client, for the log
	Proto   string     // http or https, as the client spoke it
	Host    string     // as the client spoke it
	Chain   string     // X-Forwarded-For for the upstream
}

// Proxies are the networks whose word about clients is believed.
type Proxies []netip.Prefix

// Contains reports whether an address is in one of the networks.
func (t Proxies) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Read finds out who is behind r. What a peer that is not trusted says of
// others counts for nothing.
func (t Proxies) Read(r *http.Request) Peer {
	p := Peer{Proto: "http", Host: r.Host, Client: ParseAddr(r.RemoteAddr)}
	if r.TLS != nil {
		p.Proto = "https"
	}
	p.Address = p.Client.String()
	p.Chain = p.Address
	if len(t) == 0 || !t.Contains(p.Client) {
		return p
	}
	p.Trusted = true
	hops, proto, host := forwarded(r.Header)
	if proto == "http" || proto == "https" {
		p.Proto = proto
	}
	if host != "" {
		p.Host = host
	}
	if len(hops) > 0 {
		p.Chain = strings.Join(append(hops, p.Chain), ", ")
	}
	// From the right, each hop vouches for the one before it.
	for _, hop := range slices.Backward(hops) {
		addr := ParseAddr(hop)
		if !addr.IsValid() {
			break // whoever is behind it cannot be known; the last one known counts
		}
		p.Client, p.Address = addr, addr.String()
		if !t.Contains(addr) {
			break
		}
	}
	return p
}

// unknownHop stands for an address that a proxy does not tell (RFC 7239,
// section 6.2).
const unknownHop = "unknown"

// forwarded returns what a trusted proxy says: the chain of addresses, and
// the scheme and host. Where there are several, the last is the proxy's own
// word and the others are what it was told. X-Forwarded-* wins over Forwarded
// (RFC 7239) where both speak.
func forwarded(h http.Header) (hops []string, proto, host string) {
	for element := range strings.SplitSeq(strings.Join(h["Forwarded"], ","), ",") {
		if strings.TrimSpace(element) == "" {
			continue
		}
		// What an element leaves out is not to be taken from one before it.
		hop := ""
		proto, host = "", ""
		for pair := range strings.SplitSeq(element, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			value = strings.Trim(value, `"`)
			switch strings.ToLower(name) {
			case "for":
				if hop != "" {
					value = unknownHop // two of them are none
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

// list returns the comma-separated values of a header, over all its lines.
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

// ParseAddr reads an address with or without a port or brackets; the zero
// Addr when it is none.
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

// IsLocalAddress reports whether host is the address of the gateway itself on
// which the connection arrived.
func IsLocalAddress(r *http.Request, host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && ParseAddr(local.String()) == addr.Unmap()
}
