package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"authgate/gateway/config/listening"
	"authgate/gateway/strictyaml"
)

// site is where clients reach the gateway that init configures.
type site struct {
	Front        string // one of fronts; empty: not known yet
	Host         string // with or without a port
	Certificates string // internal or acme, unless Front has them
}

// Fronts of the gateway, beside the proxies of proxyLines.
const (
	frontNothing = "nothing"
	frontTest    = "test" // and only this machine reaches it
)

var fronts = []string{frontNothing, "nginx", "caddy", "traefik", "haproxy", frontTest}

// ownPrefix is endpoints.prefix of the configuration.
const ownPrefix = "/.authgate/"

// setFront sets the front of the gateway. Empty: the one that the host suggests.
func (s *site) setFront(front string) error {
	front = strings.ToLower(front)
	switch loopback := isLoopback(s.host()); {
	case front == "" && loopback && s.Certificates != listening.TLSACME:
		front = frontTest
	case front == "":
		front = frontNothing
	case !slices.Contains(fronts, front):
		message := fmt.Sprintf("%q is not known to be in front of a gateway; expected %s", front, listed(fronts, "or"))
		if near, ok := strictyaml.Nearest(front, fronts); ok {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		return errors.New(message)
	case front == frontTest && !loopback:
		return fmt.Errorf("a test is for this machine alone, at localhost, not at %s", s.Host)
	}
	s.Front = front
	return s.checkName()
}

// setHost sets the host. Of the address of a page, it takes the host.
func (s *site) setHost(answer string) error {
	host := answer
	if rest := withoutScheme(answer); rest != answer {
		host = strings.TrimSuffix(rest, "/")
	}
	switch {
	case host == "":
		return errors.New("a host is needed, such as app.example.org")
	case strings.ContainsAny(host, "/?#"):
		return fmt.Errorf("%q has a path, and the gateway is at a host as a whole; give the host alone, "+
			"such as app.example.org", answer)
	}
	s.Host = host
	return s.checkName()
}

// setCertificates sets where the certificates come from.
func (s *site) setCertificates(answer string) error {
	if answer = strings.ToLower(answer); answer != listening.TLSACME && answer != listening.TLSInternal {
		return fmt.Errorf("%q is neither acme nor internal", answer)
	}
	s.Certificates = answer
	return nil
}

// checkName checks that the host is one that the lines for a proxy can name.
func (s *site) checkName() error {
	if s.Proxied() && strings.Contains(s.host(), ":") {
		return fmt.Errorf("the lines for %s need a name, not the address %s; give the host that the proxy has a "+
			"certificate for", s.Front, s.Host)
	}
	return nil
}

// Proxied and Local report whether a proxy that has the certificates, or only programs of this
// machine, are in front of the gateway.
func (s *site) Proxied() bool { return s.Front != "" && s.Front != frontNothing && !s.Local() }
func (s *site) Local() bool   { return s.Front == frontTest }

// host returns the host without its port, and without brackets.
func (s *site) host() string {
	if host, _, err := net.SplitHostPort(s.Host); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(s.Host, "["), "]")
}

// Port is the port at which clients reach the gateway, or the proxy in front of it. A host without a port
// has the usual one with acme and behind a proxy, else one that needs no privileges.
func (s *site) Port() string {
	switch _, port, _ := net.SplitHostPort(s.Host); {
	case port != "":
		return port
	case s.Certificates == listening.TLSACME || s.Proxied():
		return usualPort
	}
	return "8443"
}

// usualPort is the port of URLs without one.
const usualPort = "443"

// PublicURL is public_url of the configuration.
func (s *site) PublicURL() string {
	if _, port, _ := net.SplitHostPort(s.Host); port != "" {
		return "https://" + s.Host
	}
	return "https://" + strings.TrimSuffix(net.JoinHostPort(s.host(), s.Port()), ":"+usualPort)
}

// public returns PublicURL in its parts.
func (s *site) public() (*url.URL, error) { return url.Parse(s.PublicURL()) }

// RedirectURI is where an identity provider leads users back.
func (s *site) RedirectURI() string { return s.PublicURL() + ownPrefix + "callback" }

// HTTPS and HTTP are the addresses at which the gateway listens. It has no HTTPS behind a proxy.
func (s *site) HTTPS() string { return s.listenAt(s.Port()) }
func (s *site) HTTP() string {
	switch {
	case s.Proxied():
		return "127.0.0.1:8080"
	case s.Certificates == listening.TLSACME:
		return s.listenAt("80")
	}
	return s.listenAt("8080")
}

// listenAt returns the address to listen at with a port.
func (s *site) listenAt(port string) string {
	switch {
	case !s.Local():
		return ":" + port
	case s.host() == "::1":
		return net.JoinHostPort("::1", port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// privileged returns the ports below 1024 at which the gateway listens.
func (s *site) privileged() (all []string) {
	if s.Proxied() {
		return nil
	}
	for _, address := range []string{s.HTTP(), s.HTTPS()} {
		_, port, _ := net.SplitHostPort(address)
		if number, err := strconv.Atoi(port); err == nil && number < 1024 {
			all = append(all, port)
		}
	}
	return all
}
