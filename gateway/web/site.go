package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/peer"
	"authgate/policy"
)

// Site is what the exchanges of one configuration share. It does not change.
type Site struct {
	Service   *Service
	PublicURL string
	Prefix    string // of own endpoints
	Hosts     Hosts
	Cookies   Cookies
	HSTS      string        // Strict-Transport-Security; empty: not sent
	BodyPause time.Duration // how long the body of a request may pause

	port string // of PublicURL
}

// NewSite returns the site of a configuration of a gateway.
func NewSite(cfg *config.Config, service *Service) *Site {
	s := &Site{
		Service:   service,
		PublicURL: cfg.PublicURL.String(), Prefix: cfg.Endpoints.Prefix, port: cfg.PublicURL.Port(),
		Hosts: newHosts(cfg), Cookies: NewCookies(cfg), BodyPause: cfg.Limits.BodyPause,
	}
	if age := cfg.TLS.HSTS; age > 0 {
		s.HSTS = fmt.Sprintf("max-age=%d", int(age.Seconds()))
	}
	return s
}

// Own returns the path of an own endpoint.
func (s *Site) Own(name string) string { return OwnPath(s.Prefix, name) }

// OwnPath returns the path of an own endpoint under a prefix.
func OwnPath(prefix, name string) string { return prefix + strings.TrimPrefix(name, "/") }

// AtOwnHost returns a path of the gateway as a redirect names it: at the host
// of the request or, if that is not one of the gateway's, at public_url. People
// sign in at the gateway's own hosts only: the owner of another name controls
// the cookies that are set there.
func (s *Site) AtOwnHost(received *Received, path string) string {
	if received.Foreign {
		return s.PublicURL + path
	}
	return path
}

// SecureURL returns where a request by plain HTTP is redirected to: the same
// host if it is a name of the gateway's, with the port of public_url, and else
// public_url. Addresses are the gateway's only so that load balancers can ask
// for them; people are led to the name that they know.
func (s *Site) SecureURL(host string, path policy.Path) string {
	if !s.Hosts.Has(host) || peer.ParseAddr(host).IsValid() {
		return s.PublicURL + target(path)
	}
	if s.port != "" {
		host += ":" + s.port
	}
	return "https://" + host + target(path)
}

// Hosts are the hosts that the gateway serves.
type Hosts struct {
	names   map[string]bool
	parents map[string]bool // of wildcards
	any     bool            // routes without a host serve every host
}

func newHosts(cfg *config.Config) Hosts {
	h := Hosts{names: map[string]bool{}, parents: map[string]bool{}, any: cfg.Listen.AnyHost}
	for _, host := range cfg.Hosts() {
		if parent, wildcard := strings.CutPrefix(host, "*."); wildcard {
			h.parents[parent] = true
		} else {
			h.names[host] = true
		}
	}
	return h
}

// Has reports whether a canonical host is one of the gateway's.
func (h *Hosts) Has(host string) bool {
	if h.names[host] {
		return true
	}
	_, parent, _ := strings.Cut(host, ".")
	return h.parents[parent]
}

// errForeignHost is for operators: the host is in the log.
var errForeignHost = errors.New("the host is not one of the gateway's: that of public_url, those in routes, tls.domains")

// CheckHost refuses a request for a host that is not the gateway's (RFC 9110,
// section 15.5.20), and notes one that is accepted all the same. Load balancers
// that check the health of the gateway ask for the address that they connect
// to; that one is accepted.
func (h *Hosts) CheckHost(received *Received, host string) error {
	if h.Has(host) {
		return nil
	}
	received.Foreign = true
	if h.any || peer.IsLocalAddress(received.Request, host) {
		return nil
	}
	return &Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "This gateway does not serve the host of the request. If it should, add a route for the host, or let the proxy in front pass on Host.",
		Cause:  errForeignHost,
	}
}

// ReturnTo returns target if it is a path on this origin, else "". A target
// that is canonical for the gateway is a path for every browser too.
func ReturnTo(target string) string {
	if _, err := policy.ParseTarget(target); err != nil {
		return ""
	}
	return target
}

// WithReturn returns a place of the gateway with the path to return to, which
// is empty or came from ReturnTo.
func WithReturn(place, target string) string {
	if target == "" {
		return place
	}
	separator := "?"
	if strings.Contains(place, "?") {
		separator = "&"
	}
	return place + separator + "return_to=" + url.QueryEscape(target)
}
