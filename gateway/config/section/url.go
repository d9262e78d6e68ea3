package section

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"authgate/policy"
)

// HTTPURL parses an absolute http or https URL without credentials, query and
// fragment. The error does not quote credentials.
func HTTPURL(raw string) (*url.URL, error) { return parseURL(raw, CheckHost) }

// TargetURL parses the URL of a place to which only this machine connects: as HTTPURL does,
// but a link-local address may have a zone (RFC 6874).
func TargetURL(raw string) (*url.URL, error) {
	return parseURL(raw, func(host string) error {
		if a, err := netip.ParseAddr(host); err == nil && a.Zone() != "" && a.IsLinkLocalUnicast() {
			return nil
		}
		return CheckHost(host)
	})
}

func parseURL(raw string, checkHost func(host string) error) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case strings.Contains(raw, "@"):
		return nil, fmt.Errorf("contains an @; a URL with credentials is not supported")
	case err != nil && strings.Contains(raw, "://[fe80:"):
		return nil, fmt.Errorf("%q is not a URL; write the %% before a zone as %%25, as in "+
			"http://[fe80::1%%25eth0]", raw)
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", raw)
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return nil, fmt.Errorf("%q does not begin with http:// or https://", raw)
	case strings.ContainsAny(raw, "?#"):
		return nil, fmt.Errorf("%q has a query or a fragment, which is not supported", raw)
	}
	if err := checkHost(u.Hostname()); err != nil {
		return nil, fmt.Errorf("%q: %w", raw, err)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%q has no port from 1 to 65535 after its colon", raw)
		}
	}
	return u, nil
}

// EndpointURL parses the URL of an endpoint: as HTTPURL does, but with an optional query
// (RFC 6749, section 3.1).
func EndpointURL(raw string) (*url.URL, error) {
	base, query, _ := strings.Cut(raw, "?")
	if strings.Contains(raw, "#") && !strings.Contains(base, "@") {
		return nil, fmt.Errorf("%q has a fragment, which is not supported", raw)
	}
	u, err := HTTPURL(base)
	if err != nil {
		return nil, err
	}
	outside := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if _, err := url.ParseQuery(query); err != nil || strings.ContainsFunc(query, outside) {
		return nil, fmt.Errorf("%q has a query that is not encoded; write a space as %%20, for example", raw)
	}
	u.RawQuery = query
	return u, nil
}

// CheckHost checks the name or the address of a host. An address has no
// brackets.
func CheckHost(host string) error {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if strings.HasSuffix(host, ".") {
		return fmt.Errorf("the host ends in a dot; remove the dot")
	}
	if err := policy.CheckASCII(host); err != nil {
		return fmt.Errorf("the host %w", err)
	}
	_, err := policy.CanonicalHost(host)
	return err
}

// CheckHostPort checks the name or the address of a host, with or without a port. The error
// is a phrase that follows the host.
func CheckHostPort(host string) error {
	_, err := HTTPURL("http://" + host)
	if reason := errors.Unwrap(err); reason != nil {
		return fmt.Errorf("is not a host: %w", reason)
	}
	if err != nil || strings.Contains(host, "/") {
		return errors.New("is not a host")
	}
	return nil
}

// CheckAddress checks an address to listen on, HOST:PORT. HOST may be empty, and PORT may be 0.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf(`%q is not an address to listen on; `+
			`expected HOST:PORT, like ":8443", "127.0.0.1:9090" or "[::1]:9090"`, address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port from 0 to 65535 after its last colon", address)
	}
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil { // with its zone
		return nil
	}
	if err := CheckHost(host); err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	return nil
}
