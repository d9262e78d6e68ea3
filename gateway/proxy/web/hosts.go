package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/wire/peer"
	"authgate/policy"
)

// hosts are the hosts that the gateway serves.
type hosts struct {
	names   map[string]bool
	parents map[string]bool // of wildcards
	any     bool            // routes without a host serve every host
	opaque  bool            // a room has opaque paths
	rooms   map[string]room // by the host of a pattern: a name, "*." and a parent, or "" for every host

	certificates bool // some route accepts certificates
}

// room is what the routes of one host of a pattern have.
type room struct {
	sessions     bool // one accepts a session
	certificates bool // one accepts certificates
	opaque       bool // the paths are the application's own; the routes agree
	whole        bool // one takes every request, so that none is left for a wider pattern
}

func newHosts(cfg *config.Config) hosts {
	h := hosts{names: map[string]bool{}, parents: map[string]bool{}, any: cfg.Listen.AnyHost}
	for _, host := range cfg.Hosts() {
		if parent, wildcard := strings.CutPrefix(host, "*."); wildcard {
			h.parents[parent] = true
		} else {
			h.names[host] = true
		}
	}
	h.rooms = newRooms(cfg.Routes)
	for _, r := range h.rooms {
		h.opaque = h.opaque || r.opaque
		h.certificates = h.certificates || r.certificates
	}
	return h
}

func newRooms(routes []config.Route) map[string]room {
	rooms := map[string]room{}
	for i := range routes {
		host := policy.PatternHost(routes[i].Match)
		r := rooms[host]
		r.sessions = r.sessions || routes[i].TakesSessions()
		r.opaque = r.opaque || routes[i].EncodedSlashes == config.EncodedSlashesOpaque
		r.whole = r.whole || routes[i].TakesWholeHost()
		r.certificates = r.certificates || slices.Contains(routes[i].Auth, policy.Certificate)
		rooms[host] = r
	}
	return rooms
}

// KeepSessions reports whether a session at a canonical host can open anything
// there: one of its routes accepts sessions.
func (h *hosts) KeepSessions(host string) bool {
	return h.some(host, func(r *room) bool { return r.sessions })
}

// some reports whether a room in which routes of a canonical host are has something.
func (h *hosts) some(host string, has func(*room) bool) bool {
	_, parent, _ := strings.Cut(host, ".")
	for _, pattern := range []string{host, "*." + parent, ""} {
		switch room := h.rooms[pattern]; {
		case has(&room):
			return true
		case room.whole:
			return false
		}
	}
	return false
}

// Opaque reports whether routes of a canonical host take paths that servers may read in
// several ways.
func (h *hosts) Opaque(host string) bool {
	if !h.opaque {
		return false
	}
	_, parent, _ := strings.Cut(host, ".")
	for _, pattern := range []string{host, "*." + parent} {
		switch room := h.rooms[pattern]; {
		case room.opaque:
			return true
		case room.whole:
			return false
		}
	}
	return false
}

// Has reports whether a canonical host is one of the gateway's.
func (h *hosts) Has(host string) bool {
	return h.names[host] || h.Below(host)
}

// Below reports whether a canonical host is one label below a wildcard.
func (h *hosts) Below(host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return h.parents[parent]
}

// errForeignHost is for operators: the host is in the log.
var errForeignHost = errors.New("the host is not one of the gateway's: that of public_url, those in routes, " +
	"tls.domains")

// CheckHost refuses a request for a host that is not the gateway's (RFC 9110,
// section 15.5.20), and notes one that is accepted all the same. Load balancers
// that check the health of the gateway ask for the address that they connect
// to; that one is accepted.
func (h *hosts) CheckHost(received *Received, host string) error {
	if h.Has(host) {
		return nil
	}
	received.Foreign = true
	if h.any || peer.IsLocalAddress(received.Request, host) {
		return nil
	}
	return &Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "This gateway does not serve the host of the request. If it should, add a route for the host, " +
			"or let the proxy in front pass on Host.",
		Cause: errForeignHost,
	}
}

// Origin returns the origin of one of the gateway's hosts.
func (s *Site) Origin(host string) string { return "https://" + host + s.port }

// CookieScope returns where browsers send the cookies that the gateway sets at
// a host; see auth.Credentials.
func (s *Site) CookieScope(host string) string {
	if s.domain != "" && (strings.HasSuffix(host, s.domain) || host == s.domain[1:]) {
		return s.domain
	}
	return host
}

// HostOrHome returns the host if it is one of the gateway's, else that of public_url, where users sign
// in.
func (s *Site) HostOrHome(host string) string {
	if s.Hosts.Has(host) {
		return host
	}
	return s.home
}

// AtHome reports whether the request is for the host where users sign in.
func (s *Site) AtHome(received *Received) bool { return received.Canonical.Host == s.home }

// SignInHost returns the host that a user signs in to: the host of the page that they
// want, or the host of public_url.
func (s *Site) SignInHost(r Return) string {
	if r.Host != "" {
		return r.Host
	}
	return s.home
}

// leadsTo reports whether a user may be led to a host during a sign-in. The
// name or the address of the user's own machine is one of the gateway's hosts
// for tests: another program can listen there, so it counts only if public_url
// is such a name too. Where the cookie of session.domain does not get, a
// sign-in would never end.
func (s *Site) leadsTo(host string) bool {
	switch {
	case host == s.home:
		return true
	case !s.Hosts.Has(host) || loopback(host) && !loopback(s.home):
		return false
	}
	return s.domain == "" || s.CookieScope(host) == s.domain
}

func loopback(host string) bool { return policy.Loopback(strings.Trim(host, "[]")) }

// others returns the hosts of the gateway that users may be led to, without the host of
// public_url.
func (s *Site) others(hosts []string) []string {
	return slices.DeleteFunc(hosts, func(host string) bool {
		// A name below a wildcard represents all of them.
		return host == s.home || !s.leadsTo(strings.Replace(host, "*", "x", 1))
	})
}

// sources returns the origins of hosts as sources of a Content-Security-Policy
// (CSP Level 3, section 2.3.1), which has no form for IPv6 addresses.
func (s *Site) sources(hosts []string) string {
	var origins []string
	for _, host := range hosts {
		if !strings.HasPrefix(host, "[") {
			origins = append(origins, s.Origin(host))
		}
	}
	return strings.Join(origins, " ")
}

// FormTargets returns the origins to which forms on the gateway's pages at a
// host may lead, beside their own: browsers apply form-action to the redirects
// that follow a form.
func (s *Site) FormTargets(host string) string {
	targets := []string{s.forms}
	if host != "" && host != s.home {
		targets = append(targets, s.PublicURL)
	}
	if s.ProviderOrigins != nil {
		providers := s.ProviderOrigins()
		slices.Sort(providers)
		targets = append(targets, slices.Compact(providers)...)
	}
	return strings.TrimSpace(strings.Join(targets, " "))
}
