package clients

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Redirects reports whether users may be sent back to a URI: it is a registered one, character
// by character. The port of an http URI with a loopback host is free, because a program on the
// user's machine takes one that it gets (RFC 8252, section 7.3).
func (c *Client) Redirects(uri string) bool {
	if slices.Contains(c.RedirectURIs, uri) {
		return true
	}
	host, rest, ok := loopback(uri)
	return ok && slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		registeredHost, registeredRest, ok := loopback(registered)
		return ok && registeredHost == host && registeredRest == rest
	})
}

// Imitable reports whether another program could be the one at a redirect URI of the client: the
// client cannot prove who it is, and any program on the user's machine can listen at a loopback
// address, or claim a scheme (RFC 8252, section 8.6).
func (c *Client) Imitable(uri string) bool {
	if c.Confidential() {
		return false
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "https" {
		return true
	}
	address, err := netip.ParseAddr(u.Hostname())
	return err == nil && address.IsLoopback() || u.Hostname() == "localhost"
}

// loopbackHosts are the hosts of programs on the user's machine, as they are written.
var loopbackHosts = []string{"127.0.0.1", "[::1]", "localhost"}

// loopback returns the host of an http URI of a program on the user's machine, and the text after
// the port. It compares texts and parses nothing, so that no parser can see another host.
func loopback(uri string) (host, rest string, ok bool) {
	for _, host := range loopbackHosts {
		rest, found := strings.CutPrefix(uri, "http://"+host)
		if !found {
			continue
		}
		if after, has := strings.CutPrefix(rest, ":"); has {
			digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
			port, err := strconv.ParseUint(after[:digits], 10, 16)
			if err != nil || port == 0 || after[0] == '0' {
				return "", "", false
			}
			rest = after[digits:]
		}
		return host, rest, rest == "" || rest[0] == '/' || rest[0] == '?'
	}
	return "", "", false
}
