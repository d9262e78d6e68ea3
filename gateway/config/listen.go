package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// canonicalOrigin gives an origin the form that browsers use: the host is in
// lower case, and the default port is left out.
func canonicalOrigin(u *url.URL) {
	if u.Scheme != "https" {
		return
	}
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	if u.Path == "/" {
		u.Path = ""
	}
}

const publicURLKey = "public_url"

// checkOrigin checks public_url.
func (l *loader) checkOrigin() {
	const key, expected = publicURLKey, originForm
	switch u := l.cfg.PublicURL; {
	case u == nil:
		l.fault(key, "must not be empty; %s", expected)
	case u.Scheme != "https":
		l.fault(key, "%q is not https; credentials travel over TLS only; %s", u, expected)
	case u.Path != "":
		l.fault(key, "%q has a path; %s", u, expected)
	}
}

// checkEndpoints checks the prefix of the gateway's own endpoints: what is
// asked for under it must be a path that the gateway accepts.
func (l *loader) checkEndpoints() {
	const key = "endpoints.prefix"
	prefix := l.cfg.Endpoints.Prefix
	switch {
	case !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/"):
		l.fault(key, "%q must begin and end with a slash, like /auth/", prefix)
	case strings.ContainsAny(prefix, "{}"):
		l.fault(key, "%q holds a brace; wildcards are for routes", prefix)
	case strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`%?#;\"<>^|`+"`", r) }):
		l.fault(key, "%q holds a character that has to be encoded in a URL; use letters, digits, - . _ ~", prefix)
	case prefix != "/" && path.Clean(prefix)+"/" != prefix:
		l.fault(key, "%q holds an empty segment or one of dots; expected a canonical path like /auth/", prefix)
	}
}

// checkListen checks the addresses to listen on and the trusted proxies.
func (l *loader) checkListen() {
	listen, off := l.cfg.Listen, l.cfg.TLS.Mode == TLSOff
	taken := map[string]string{}
	for _, a := range []struct{ key, address string }{
		{"listen.https", listen.HTTPS}, {"listen.http", listen.HTTP}, {"listen.admin", listen.Admin},
	} {
		if a.address == "" {
			continue
		}
		if err := checkAddress(a.address); err != nil {
			l.fault(a.key, "%v", err)
			continue
		}
		if _, port, _ := net.SplitHostPort(a.address); port != "0" {
			if first, twice := taken[a.address]; twice {
				l.fault(a.key, "%q is the address of %s already", a.address, first)
			}
			taken[a.address] = a.key
		}
	}
	switch {
	case off && listen.HTTPS != "":
		l.fault("listen.https", "with tls.mode off the gateway is served on listen.http alone; remove this key")
	case off && listen.HTTP == "":
		l.fault("listen.http", "with tls.mode off the gateway is served on this address; it must not be empty")
	case !off && listen.HTTPS == "":
		l.fault("listen.https", "must not be empty, because credentials travel over TLS only; where a proxy terminates TLS, use tls.mode off")
	}
	if off && len(listen.TrustedProxies) == 0 {
		l.fault("listen.trusted_proxies", "with tls.mode off the proxy that terminates TLS must be listed here")
	}
}

// checkAddress checks HOST:PORT, where HOST may be empty and PORT 0.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf(`%q is not an address to listen on; expected HOST:PORT, like ":8443", "127.0.0.1:9090" or "[::1]:9090"`, address)
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
	if err := checkHost(host); err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	return nil
}
