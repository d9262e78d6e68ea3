package places

import (
	"net/url"
	"strings"

	"authgate/gateway/config"
	"authgate/policy"
)

// The parameters that say where a user goes on after sign-in.
const (
	ReturnToField = "return_to"
	BindingField  = "binding"

	// ElsewhereField, if it has a value, says that another site began the sign-in.
	ElsewhereField = "elsewhere"
	// BegunField proves that the browser waits for the session; see journey.Begun.
	BegunField = "begun"
)

// ReasonField is the parameter of the sign-in page that says why a user is there.
const (
	ReasonField     = "reason"
	ReasonEnded     = "ended"      // the session has ended
	ReasonSignedOut = "signed_out" // the user has signed out
	ReasonUnbegun   = "unbegun"    // this browser did not begin the sign-in at the other host
	ReasonFresh     = "fresh"      // the user is signed in, and must prove it once more
)

// PartField is the parameter of the account that says which part of it a page shows.
const PartField = "part"

// AuthorizePath is the own endpoint where OAuth clients send users. From there they go on to the
// client.
const AuthorizePath = "oauth/authorize"

// LoginHintField is the parameter of the sign-in page with the user name that is already
// known.
const LoginHintField = "login_hint"

// Return is where a user goes on after sign-in. The zero Return is nowhere.
type Return struct {
	Host string // one of the gateway's; empty: the host of the request
	Path string // with the query; empty: none
	// Binding tells the browser that waits for a session at Host, see
	// journey.Binding; empty: none does.
	Binding string
	// Elsewhere tells that another site began the sign-in, and that strict sessions
	// keep such sites from leading the user on. A page asks at the end.
	Elsewhere bool
	// Demand is the demand of the sign-in. A session that does not meet it is not enough.
	Demand policy.Demand
}

// ReadReturn reads where the user goes on, from the parameters return_to and
// binding, for a request to a canonical host. A target counts if it is a path, or an https URL of one of the
// gateway's hosts at the port of public_url. A path that is canonical for the
// gateway is a path for every browser too. An own endpoint becomes the start page
// of its host, unless it is a page for people: it would sign the user out again,
// or do something else that they did not ask for.
func (p *Places) ReadReturn(host, target, binding string) Return {
	if path, err := p.ParseReturn(host, target); err == nil {
		return Return{Path: p.landing(path, target)}
	}
	other, path, ok := p.parseURL(target)
	switch {
	case !ok:
		return Return{}
	case other == host:
		return Return{Path: path}
	case !p.IsHome(host) || p.domain != "" || binding == "" || !p.Hosts.KeepSessions(other):
		binding = ""
	}
	return Return{Host: other, Path: path, Binding: binding}
}

// parseURL returns the host and the path of a URL that a user may be led to.
func (p *Places) parseURL(target string) (host, path string, ok bool) {
	rest, ok := strings.CutPrefix(target, "https://")
	if !ok {
		return "", "", false
	}
	authority, path := rest, "/"
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	host, err := policy.CanonicalHost(authority)
	if err != nil || !p.LeadsTo(host) {
		return "", "", false
	}
	parsed, err := p.ParseReturn(host, path)
	if err != nil {
		return "", "", false
	}
	port := p.port
	if port == "" && strings.HasSuffix(authority, ":443") {
		port = ":443"
	}
	// A canonical host has no port and no dot at its end.
	if !strings.EqualFold(authority, host+port) {
		return "", "", false
	}
	return host, p.landing(parsed, path), true
}

// ParseReturn parses a path at a host where a user may be led. A browser takes one that begins
// with two slashes for another host. A server behind may lead it there if one is encoded, but at a host
// whose paths are the application's own.
func (p *Places) ParseReturn(host, target string) (policy.Path, error) {
	if p.Hosts.Opaque(host) && !strings.HasPrefix(target, "//") {
		return policy.ParseTargetOpaque(target)
	}
	path, err := policy.ParseTargetWithSlashes(target)
	if err == nil && strings.HasPrefix(path.Slashed, "//") {
		err = policy.ErrEncodedSlash
	}
	return path, err
}

// landing returns the path and the query where a user may be led.
func (p *Places) landing(path policy.Path, target string) string {
	if path.ReadsAs(func(read string) bool { return p.endpoints[read] }) {
		return "/"
	}
	return target
}

// IsOwn reports whether a path is that of an own endpoint.
func (p *Places) IsOwn(path policy.Path) bool { return p.OwnPath(path.Decoded) }

// OwnPath is IsOwn for a decoded path.
func (p *Places) OwnPath(decoded string) bool {
	_, own := p.endpoints[decoded]
	return own
}

// isLanding reports whether an own endpoint is a page for people, or leads to one
// that asks.
func isLanding(name string) bool {
	switch name {
	case "account", config.EndpointPeople, config.EndpointApps, "device", AuthorizePath, "oauth/logout":
		return true
	}
	return false
}

// Place returns a Return as return_to has it: a path, or a URL of another host.
func (p *Places) Place(r Return) string {
	if r.Host == "" || r.Path == "" {
		return r.Path
	}
	return p.Origin(r.Host) + r.Path
}

// PlaceOrStart is Place, and the start page for nowhere.
func (p *Places) PlaceOrStart(r Return) string {
	if place := p.Place(r); place != "" {
		return place
	}
	return "/"
}

// WithReturn returns a place of the gateway with the parameters of a Return.
func (p *Places) WithReturn(place string, r Return) string {
	for _, parameter := range []struct{ name, value string }{{ReturnToField, p.Place(r)}, {BindingField, r.Binding}} {
		if parameter.value != "" {
			place = WithParameter(place, parameter.name, parameter.value)
		}
	}
	if r.Elsewhere {
		place = WithParameter(place, ElsewhereField, "1")
	}
	return withDemand(place, r.Demand)
}

// WithParameter returns a place with one more parameter in its query.
func WithParameter(place, name, value string) string {
	separator := "?"
	if strings.Contains(place, "?") {
		separator = "&"
	}
	return place + separator + name + "=" + url.QueryEscape(value)
}

// CompletePath is the own endpoint where a browser gets its session at a host
// other than that of public_url.
const CompletePath = "signin/complete"

// Complete returns where a browser gets its session at a host, with a ticket.
func (p *Places) Complete(host, ticket string) string {
	return p.Origin(host) + p.Own(CompletePath) + "?ticket=" + ticket
}

// Confirm returns where a browser proves that it waits for a session at a host. It
// is the path of Complete, because that is the one which a proxy passes on to the
// gateway.
func (p *Places) Confirm(host string) string { return p.Origin(host) + p.Own(CompletePath) }
