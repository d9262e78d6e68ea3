package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// checkListen checks the addresses of listeners and the trusted proxies.
func (l *loader) checkListen() {
	listen, off := l.cfg.Listen, l.cfg.TLS.Mode == TLSOff
	taken := map[string]string{}
	for _, a := range []struct{ key, address string }{
		{"listen.https", listen.HTTPS}, {"listen.http", listen.HTTP}, {"listen.admin", listen.Admin},
	} {
		if a.address == "" {
			continue
		}
		if err := checkListenAddress(a.address); err != nil {
			l.fault(a.key, "%v", err)
			continue
		}
		if _, port, _ := net.SplitHostPort(a.address); port != "0" {
			if first, twice := taken[a.address]; twice {
				l.fault(a.key, "%q is already the address of %s", a.address, first)
			}
			taken[a.address] = a.key
		}
	}
	switch {
	case off && listen.HTTPS != "":
		l.fault("listen.https", "must be empty with tls.mode off, which serves the gateway on listen.http only; remove this key")
	case off && listen.HTTP == "":
		l.fault("listen.http", "must not be empty with tls.mode off, which serves the gateway on this address only")
	case !off && listen.HTTPS == "":
		l.fault("listen.https", "must not be empty, because clients send credentials over TLS only; if a proxy terminates TLS, use tls.mode off")
	}
	if off && len(listen.TrustedProxies) == 0 {
		l.fault("listen.trusted_proxies", "must contain the address of the proxy that terminates TLS, because tls.mode is off")
	}
}

// checkListenAddress checks HOST:PORT. HOST may be empty, and PORT may be 0.
func checkListenAddress(address string) error {
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
