package peer

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// element is the description that one proxy gives of the request that it received.
// A value that it does not give is empty.
type element struct {
	hop   string // the address of who sent the request, or an identifier
	proto string // in any case
	host  string
}

// unknownHop replaces an address that a proxy does not give (RFC 7239, section
// 6.2).
const unknownHop = "unknown"

// forwarded is the client of a request as trusted proxies describe it.
type forwarded struct {
	address netip.Addr // the zero Addr: unknown
	text    string     // of the address
	proto   string
	host    string
	chain   string // the addresses of all hops
}

// forwarded returns the client in the headers of a trusted proxy. X-Forwarded-*
// takes precedence over Forwarded.
func (t Proxies) forwarded(h http.Header) forwarded {
	var f forwarded
	var hops []string
	elements := parseForwarded(h["Forwarded"])
	for _, e := range elements {
		hops = append(hops, e.hop)
	}
	if at := t.clientOf(hops); at >= 0 {
		f.proto, f.host = elements[at].proto, elements[at].host
	}
	if values := list(h, "X-Forwarded-For"); len(values) > 0 {
		hops = values
	}
	at := t.clientOf(hops)
	if at >= 0 {
		f.address, f.text = parseText(hops[at])
		if !f.address.IsValid() && at+1 < len(hops) {
			f.address, f.text = parseText(hops[at+1]) // the last known address counts
		}
		f.chain = strings.Join(hops, ", ")
	}
	if protos := list(h, "X-Forwarded-Proto"); len(protos) > 0 {
		f.proto = protoOf(protos, len(hops), at)
	}
	if hosts := list(h, "X-Forwarded-Host"); len(hosts) == len(hops) && at >= 0 {
		f.host = hosts[at]
	} else if len(hosts) > 0 {
		f.host = hosts[len(hosts)-1]
	}
	return f
}

// clientOf returns the place of the client among the hops: the first from the right
// that is not a trusted proxy, else the first of all. It is -1 without hops.
func (t Proxies) clientOf(hops []string) int {
	for i, hop := range slices.Backward(hops) {
		if i == 0 || !t.Contains(ParseAddr(hop)) {
			return i
		}
	}
	return -1
}

// protoOf returns the scheme for the client, which is the hop at a place. A list of
// another length than that of the hops does not tell which scheme is the client's:
// then it is http unless all are the same. Otherwise a client could lengthen one of the
// lists, and so choose among the schemes.
func protoOf(protos []string, hops, at int) string {
	if len(protos) == hops {
		return protos[at]
	}
	for _, other := range protos[1:] {
		if !strings.EqualFold(other, protos[0]) {
			return "http"
		}
	}
	return protos[0]
}

// parseForwarded returns the elements of the lines of Forwarded (RFC 7239, section 4).
func parseForwarded(lines []string) []element {
	if len(lines) == 0 {
		return nil
	}
	var elements []element
	for _, text := range split(strings.Join(lines, ","), ',') {
		if strings.TrimSpace(text) == "" {
			continue
		}
		e, ok := parseElement(text)
		if !ok { // it says nothing
			e = element{hop: unknownHop}
		}
		elements = append(elements, e)
	}
	return elements
}

// parseElement reads one element. It reports whether the element is well-formed and has
// each parameter once. Values that should have quotes, such as addresses with a port,
// need none.
func parseElement(text string) (element, bool) {
	e := element{hop: unknownHop}
	var names []string
	for _, pair := range split(text, ';') {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToLower(name)
		value, ok := unquote(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || slices.Contains(names, name) {
			return element{}, false
		}
		names = append(names, name)
		switch name {
		case "for":
			e.hop = node(value)
		case "proto":
			e.proto = value
		case "host":
			e.host = value
		}
	}
	return e, true
}

// split cuts s at each separator that is not in quotes. It reads from the right, where
// trusted proxies add: a quote that a client has left open cannot swallow their
// additions.
func split(s string, separator byte) []string {
	var parts []string
	end, quoted := len(s), false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"':
			before := strings.TrimRight(s[:i], `\`)
			if escaped := quoted && (i-len(before))%2 == 1; !escaped {
				quoted = !quoted
			}
		case s[i] == separator && !quoted:
			parts = append(parts, s[i+1:end])
			end = i
		}
	}
	parts = append(parts, s[:end])
	slices.Reverse(parts)
	return parts
}

// unquote returns the text of a quoted string (RFC 9110, section 5.6.4), or a value
// without quotes as it is. It reports whether the value is well-formed.
func unquote(value string) (string, bool) {
	inner, quoted := strings.CutPrefix(value, `"`)
	if !quoted {
		return value, value != "" && !strings.ContainsAny(value, "\"\\ \t")
	}
	var text strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return text.String(), i == len(inner)-1
		case '\\':
			if i++; i == len(inner) {
				return "", false
			}
		}
		text.WriteByte(inner[i])
	}
	return "", false
}

// node returns a node (RFC 7239, section 6) without its port: an address without
// brackets, an identifier that hides one, or unknownHop.
func node(value string) string {
	if addr := ParseAddr(value); addr.IsValid() {
		return addr.String()
	}
	name, _, _ := strings.Cut(value, ":")
	if strings.HasPrefix(name, "_") && httpguts.ValidHeaderFieldName(name) {
		return name
	}
	return unknownHop
}

// list returns the comma-separated values of a header, from all its lines. The caller must not
// change them: a value alone in its header, as one proxy writes it, stays where it is.
func list(h http.Header, name string) []string {
	lines := h[name]
	if len(lines) == 1 {
		if one := lines[0]; one != "" && one == strings.TrimSpace(one) && !strings.Contains(one, ",") {
			return lines
		}
	}
	var all []string
	for _, line := range lines {
		for value := range strings.SplitSeq(line, ",") {
			if value = strings.TrimSpace(value); value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}
