package listening

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"time"

	"authgate/gateway/config/section"
)

// Listen has the addresses of the listeners. An empty address means no listener.
type Listen struct {
	HTTPS          string         `yaml:"https" default:":8443"`
	HTTP3          string         `yaml:"http3"`
	HTTP           string         `yaml:"http" default:":8080"`
	Admin          string         `yaml:"admin" default:"127.0.0.1:9090"`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	AnyHost        bool           `yaml:"any_host"`
	ProxyProtocol  []netip.Prefix `yaml:"proxy_protocol"` // networks of balancers
	IdleTimeout    time.Duration  `yaml:"idle_timeout" default:"2m" range:"1s..24h"`
}

// Take puts the addresses of sockets that the process got in the place of configured ones, by
// their keys. A listener that is off stays off.
func (l *Listen) Take(r *section.Report, sockets map[string]string) {
	for _, a := range []struct {
		key     string
		address *string
	}{
		{"listen.https", &l.HTTPS}, {"listen.http3", &l.HTTP3}, {"listen.http", &l.HTTP}, {"listen.admin", &l.Admin},
	} {
		socket := sockets[a.key]
		if socket == "" || *a.address == "" {
			continue
		}
		if r.Given(a.key) && (port(socket) != port(*a.address) || listenHost(socket) != listenHost(*a.address)) {
			r.Warn(a.key, "%q is not used: systemd opened %q for this listener, as ListenStream= or ListenDatagram= "+
				"says", *a.address, socket)
		}
		*a.address = socket
	}
}

// port returns the port of an address, empty if it has none.
func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// Check checks the addresses of listeners and what tls.mode needs from them.
func (l Listen) Check(r *section.Report, tlsMode string) {
	l.checkAddresses(r)
	off := tlsMode == TLSOff
	l.checkHTTP3(r, off)
	switch {
	case off && l.HTTPS != "":
		r.Fault("listen.https",
			"must be empty with tls.mode off, which serves the gateway on listen.http only; remove this key")
	case off && l.HTTP == "":
		r.Fault("listen.http", "must not be empty with tls.mode off, which serves the gateway on this address only")
	case !off && l.HTTPS == "":
		r.Fault("listen.https",
			"must not be empty, because clients send credentials over TLS only; if a proxy terminates TLS, "+
				"use tls.mode off")
	}
	if off && len(l.TrustedProxies) == 0 {
		r.Fault("listen.trusted_proxies",
			"must contain the address of the proxy that terminates TLS, because tls.mode is off")
	}
	if tlsMode == TLSACME {
		l.checkChallenges(r)
	}
	warnOfAllAddresses(r, "listen.trusted_proxies", l.TrustedProxies,
		"give itself another address, and say that it came over https")
	warnOfAllAddresses(r, "listen.proxy_protocol", l.ProxyProtocol, "give itself another address")
}

// checkAddresses checks that the addresses are valid and different.
func (l Listen) checkAddresses(r *section.Report) {
	taken := map[string]string{}
	for _, a := range []struct{ key, address string }{
		{"listen.https", l.HTTPS}, {"listen.http", l.HTTP}, {"listen.admin", l.Admin},
	} {
		if a.address == "" {
			continue
		}
		if err := section.CheckAddress(a.address); err != nil {
			r.Fault(a.key, "%v", err)
			continue
		}
		if _, port, _ := net.SplitHostPort(a.address); port != "0" {
			if first, twice := taken[a.address]; twice {
				r.Fault(a.key, "%q is already the address of %s", a.address, first)
			}
			taken[a.address] = a.key
		}
	}
}

// checkHTTP3 checks the address for HTTP/3. It is one of UDP, so it may be that of
// listen.https.
func (l Listen) checkHTTP3(r *section.Report, off bool) {
	const key = "listen.http3"
	if l.HTTP3 == "" {
		return
	}
	err := section.CheckAddress(l.HTTP3)
	_, port, _ := net.SplitHostPort(l.HTTP3)
	switch {
	case off:
		r.Fault(key,
			"must be empty with tls.mode off, because HTTP/3 needs TLS; let the proxy that terminates TLS serve HTTP/3")
	case err != nil:
		r.Fault(key, "%v", err)
	case port == "0":
		r.Fault(key, "%q needs a fixed port, which Alt-Svc tells clients", l.HTTP3)
	}
}

// HTTP3Port returns the port at which clients reach HTTP/3, empty if it is off. If listen.http3 and
// listen.https have the same port, HTTP/3 is reached at the port of public_url, because a port
// mapping applies to both.
func (l Listen) HTTP3Port(public *url.URL) string {
	_, own, err := net.SplitHostPort(l.HTTP3)
	if err != nil {
		return ""
	}
	if _, secure, _ := net.SplitHostPort(l.HTTPS); secure == own {
		return cmp.Or(public.Port(), "443")
	}
	return own
}

// checkChallenges checks that the listeners can answer the challenges of the
// certificate authority.
func (l Listen) checkChallenges(r *section.Report) {
	if l.HTTP == "" || section.CheckAddress(l.HTTP) != nil || section.CheckAddress(l.HTTPS) != nil {
		return
	}
	if plain, secure := listenHost(l.HTTP), listenHost(l.HTTPS); plain != secure {
		r.Fault("listen.http",
			"%q has another host than listen.https; with tls.mode acme both must have the same host, or none", l.HTTP)
	}
}

// listenHost returns the host of an address to listen on, empty for all.
func listenHost(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return ""
	}
	return host
}
