package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// Request is what is decided on: the one canonical form of a request.
type Request struct {
	// Method is as received; methods are case-sensitive (RFC 9110, section
	// 9.1).
	Method string
	// Host is as CanonicalHost returns it.
	Host string
	// Path is as ParseTarget returns it.
	Path Path
	// Client is the address of whoever is asking: not of a trusted proxy, no
	// IPv4-mapped IPv6 address and without a zone. The zero Addr is in no
	// network.
	Client netip.Addr
}

// maxHost is the longest name that the DNS can carry, in bytes.
const maxHost = 255

// CanonicalHost returns the host of a Host header or :authority (RFC 9110,
// section 7.2) in the form in which hosts are compared: in lower case,
// without port and trailing dot. An IPv6 address stays in brackets, as in a
// URI, in the spelling of RFC 5952: "[::1]". An international name has to be
// in its ASCII form. The error is a *TargetError.
func CanonicalHost(host string) (string, error) {
	name, port, err := splitPort(host)
	if err != nil {
		return "", err
	}
	// "host:" is well-formed (RFC 3986, section 3.2.3).
	if digits := strings.TrimPrefix(port, ":"); digits != "" {
		if _, err := strconv.ParseUint(digits, 10, 16); err != nil {
			return "", refuse("the port of the host is not a number up to 65535")
		}
	}
	if literal, ok := strings.CutPrefix(name, "["); ok {
		return canonicalIPv6(strings.TrimSuffix(literal, "]"))
	}
	name = strings.TrimSuffix(name, ".")
	if reason := hostnameProblem(name); reason != "" {
		return "", refuse("the host " + reason)
	}
	return strings.ToLower(name), nil
}

// splitPort cuts off the port with its colon, empty where there is none. The
// name keeps its brackets.
func splitPort(host string) (name, port string, err error) {
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']') + 1
		if end == 0 || end < len(host) && host[end] != ':' {
			return "", "", refuse("the host has an unclosed bracket")
		}
		return host[:end], host[end:], nil
	}
	colon := strings.IndexByte(host, ':')
	if colon < 0 {
		return host, "", nil
	}
	return host[:colon], host[colon:], nil
}

func canonicalIPv6(literal string) (string, error) {
	addr, err := netip.ParseAddr(literal)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", refuse("the host has no IPv6 address between its brackets")
	}
	return "[" + addr.String() + "]", nil
}

// hostnameProblem says what keeps name from being the name of a host; empty
// when nothing does. Underscores are no part of host names but in wide use.
func hostnameProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxHost:
		return "is longer than 255 bytes"
	case name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, ".."):
		return "has an empty label"
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !('0' <= c && c <= '9') && c != '-' && c != '.' && c != '_' {
			return "may hold letters, digits, dots, hyphens and underscores only, all of them ASCII"
		}
	}
	return ""
}
