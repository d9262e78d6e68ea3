package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/idna"
)

// Request is the canonical form of a request. Decisions use nothing else.
type Request struct {
	// Method is as received. Methods are case-sensitive (RFC 9110, section
	// 9.1).
	Method string
	// Host is a result of CanonicalHost.
	Host string
	// Path is a result of ParseTarget.
	Path Path
	// Client is the address of the client, not of a trusted proxy. It is not
	// an IPv4-mapped IPv6 address and has no zone. The zero Addr is in no
	// network.
	Client netip.Addr
	// Now is when the request came, by the clock by which logins are recorded. At the
	// zero Time no login is recent.
	Now time.Time
	// Message is that of a POST for an MCP server. Nil meets no list of MCP.
	Message *Message
}

// maxHost is the length in bytes of the longest name in the DNS.
const maxHost = 255

// CanonicalHost returns the host of a Host header or :authority (RFC 9110,
// section 7.2) in the form in which hosts are compared: in lower case, without
// port and trailing dot. An IPv6 address keeps its brackets, as in a URI, and
// has the spelling of RFC 5952: "[::1]". An international name must be in its
// ASCII form. The error is a *TargetError.
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
	if err := checkHostname(name); err != nil {
		return "", refuse("the host " + err.Error())
	}
	return strings.ToLower(name), nil
}

// splitPort cuts off the port with its colon. The name keeps its brackets.
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
	switch {
	case err != nil || !addr.Is6():
		return "", refuse("the host has no IPv6 address between its brackets")
	case addr.Zone() != "":
		return "", refuse("the host is an IPv6 address with a zone, which has a meaning on one machine only")
	}
	return "[" + addr.String() + "]", nil
}

// CheckASCII refuses a host that people write in letters beyond ASCII. The error is a phrase
// that follows the host. It has the form in which requests and certificates name it (RFC 5891).
func CheckASCII(host string) error {
	if isASCII(host) {
		return nil
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return errors.New("is not ASCII")
	}
	return fmt.Errorf("is not ASCII; write it as %s", ascii)
}

// checkHostname returns an error for a text that cannot name a host. Host
// names have no underscores in theory, but many use them.
func checkHostname(name string) error {
	switch {
	case name == "":
		return errEmpty
	case len(name) > maxHost:
		return errors.New("is longer than 255 bytes")
	case name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, ".."):
		return errors.New("has an empty label")
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !('0' <= c && c <= '9') && c != '-' && c != '.' && c != '_' {
			return errors.New("may hold letters, digits, dots, hyphens and underscores only, all of them ASCII")
		}
	}
	return nil
}
