package places

import (
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/policy"
)

// Hosts are the hosts that the gateway serves.
type Hosts struct {
	names   map[string]bool
	parents map[string]bool // of wildcards
	// Any tells that routes without a host serve every host.
	Any    bool
	opaque bool            // a room has opaque paths
	rooms  map[string]room // by the host of a pattern: a name, "*." and a parent, or "" for every host

	// Certificates tells that some route accepts certificates.
	Certificates bool
}

// room describes the routes of one host of a pattern.
type room struct {
	sessions     bool // one accepts a session
	certificates bool // one accepts certificates
	opaque       bool // the paths are the application's own; the routes agree
	whole        bool // one takes every request, so that none is left for a wider pattern
}

func newHosts(cfg *config.Config) Hosts {
	h := Hosts{names: map[string]bool{}, parents: map[string]bool{}, Any: cfg.Listen.AnyHost}
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
		h.Certificates = h.Certificates || r.certificates
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
func (h *Hosts) KeepSessions(host string) bool {
	return h.some(host, func(r *room) bool { return r.sessions })
}

// some reports whether a room in which routes of a canonical host are has something.
func (h *Hosts) some(host string, has func(*room) bool) bool {
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
func (h *Hosts) Opaque(host string) bool {
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
func (h *Hosts) Has(host string) bool {
	return h.names[host] || h.Below(host)
}

// Below reports whether a canonical host is one label below a wildcard.
func (h *Hosts) Below(host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return h.parents[parent]
}

// AcceptCertificates reports whether a route of a canonical host accepts certificates of clients.
func (h *Hosts) AcceptCertificates(host string) bool {
	return h.Certificates && h.some(host, func(r *room) bool { return r.certificates })
}
