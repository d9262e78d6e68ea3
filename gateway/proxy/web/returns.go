package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
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

// authorizePath is the own endpoint where OAuth clients send users. From there they go on to the
// client.
const authorizePath = "oauth/authorize"

// LoginHintField is the parameter of the sign-in page with the user name that is already
// known.
const LoginHintField = "login_hint"

// startLifetime is how long a browser may take from the first page at a host to
// its session there. People leave sign-in pages open.
const startLifetime = 24 * time.Hour

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
	// Demand is what the sign-in must prove, so that a session is not enough which does not.
	Demand policy.Demand
}

// ReadReturn reads where the user goes on from parameters of the request, what they must
// prove, and whether another site began that. A page load of the other host may have asked
// for it, so this counts only if no browser waits there.
func (ex *Exchange) ReadReturn(value func(name string) string) Return {
	r := readReturn(ex.site, &ex.Received, value)
	if path, _, _ := strings.Cut(r.Path, "?"); r.Host == "" && path == ex.site.Own(authorizePath) {
		ex.LeadsAnywhere = true
	}
	return r
}

// readReturn is Exchange.ReadReturn for a page whose own forms lead no further.
func readReturn(s *Site, received *Received, value func(name string) string) Return {
	r := s.ReadReturn(received, value(ReturnToField), value(BindingField))
	r.Demand = readDemand(value)
	r.Elsewhere = value(ElsewhereField) != "" || r.Binding == "" && s.fromElsewhere(received)
	return r
}

// fromElsewhere reports whether another site led the browser here, and sessions are
// such that this must not make a difference (Fetch Metadata). The header tells
// of the whole way, over all redirects.
func (s *Site) fromElsewhere(received *Received) bool {
	return s.Cookies.Strict() && received.Request.Header.Get("Sec-Fetch-Site") == "cross-site"
}

// ReadReturn reads where the user goes on, from the parameters return_to and
// binding. A target counts if it is a path, or an https URL of one of the
// gateway's hosts at the port of public_url. A path that is canonical for the
// gateway is a path for every browser too. An own endpoint becomes the start page
// of its host, unless it is a page for people: it would sign the user out again,
// or do something else that they did not ask for.
func (s *Site) ReadReturn(received *Received, target, binding string) Return {
	if path, err := s.parseReturn(received.Canonical.Host, target); err == nil {
		return Return{Path: s.landing(path, target)}
	}
	host, path, ok := s.parseURL(target)
	switch {
	case !ok:
		return Return{}
	case host == received.Canonical.Host:
		return Return{Path: path}
	case !s.AtHome(received) || s.domain != "" || !journey.ValidBinding(binding) || !s.Hosts.KeepSessions(host):
		binding = ""
	}
	return Return{Host: host, Path: path, Binding: binding}
}

// parseURL returns the host and the path of a URL that a user may be led to.
func (s *Site) parseURL(target string) (host, path string, ok bool) {
	rest, ok := strings.CutPrefix(target, "https://")
	if !ok {
		return "", "", false
	}
	authority, path := rest, "/"
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	host, err := policy.CanonicalHost(authority)
	if err != nil || !s.leadsTo(host) {
		return "", "", false
	}
	parsed, err := s.parseReturn(host, path)
	if err != nil {
		return "", "", false
	}
	port := s.port
	if port == "" && strings.HasSuffix(authority, ":443") {
		port = ":443"
	}
	// A canonical host has no port and no dot at its end.
	if !strings.EqualFold(authority, host+port) {
		return "", "", false
	}
	return host, s.landing(parsed, path), true
}

// parseReturn parses a path at a host where a user may be led. A browser takes one that begins
// with two slashes for another host.
func (s *Site) parseReturn(host, target string) (policy.Path, error) {
	if s.Hosts.Opaque(host) && !strings.HasPrefix(target, "//") {
		return policy.ParseTargetOpaque(target)
	}
	return policy.ParseTargetWithSlashes(target)
}

// landing returns the path and the query where a user may be led.
func (s *Site) landing(path policy.Path, target string) string {
	if readsAs(path, func(read string) bool { return s.endpoints[read] }) {
		return "/"
	}
	return target
}

// readsAs reports whether is holds for a path as the gateway reads it, or as a server behind it may.
func readsAs(path policy.Path, is func(read string) bool) bool {
	return is(path.Decoded) || path.Slashed != "" && is(path.Slashed) ||
		path.Opaque && slices.ContainsFunc(path.Readings(), is)
}

// IsOwn reports whether a path is that of an own endpoint.
func (s *Site) IsOwn(path policy.Path) bool {
	_, own := s.endpoints[path.Decoded]
	return own
}

// isLanding reports whether an own endpoint is a page for people, or leads to one
// that asks.
func isLanding(name string) bool {
	switch name {
	case "account", config.EndpointPeople, config.EndpointApps, "device", authorizePath, "oauth/logout":
		return true
	}
	return false
}

// Place returns a Return as return_to has it: a path, or a URL of another host.
func (s *Site) Place(r Return) string {
	if r.Host == "" || r.Path == "" {
		return r.Path
	}
	return s.Origin(r.Host) + r.Path
}

// PlaceOrStart is Place, and the start page for nowhere.
func (s *Site) PlaceOrStart(r Return) string {
	if place := s.Place(r); place != "" {
		return place
	}
	return "/"
}

// WithReturn returns a place of the gateway with the parameters of a Return.
func (s *Site) WithReturn(place string, r Return) string {
	for _, parameter := range []struct{ name, value string }{{ReturnToField, s.Place(r)}, {BindingField, r.Binding}} {
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
func (s *Site) Complete(host, ticket string) string {
	return s.Origin(host) + s.Own(CompletePath) + "?ticket=" + ticket
}

// Confirm returns where a browser proves that it waits for a session at a host. It
// is the path of Complete, because that is the one which a proxy passes on to the
// gateway.
func (s *Site) Confirm(host string) string { return s.Origin(host) + s.Own(CompletePath) }

// SignInPlace returns the page of the gateway where a user signs in, at the host of
// public_url, from where they go on to r. At another host it binds the sign-in to
// the browser, so that the session there can be given to this browser alone. People
// sign in at the gateway's own hosts only: the owner of another name controls the
// cookies that are set there.
func (ex *Exchange) SignInPlace(page string, r Return) string {
	s := ex.site
	host := ex.Canonical.Host
	r.Elsewhere = r.Elsewhere || s.fromElsewhere(&ex.Received)
	switch {
	case host == s.home:
		return s.WithReturn(page, r)
	case ex.Foreign || !s.leadsTo(host):
		r.Binding = ""
	case r.Host == s.home:
		r.Host = ""
	case r.Host == "" || r.Host == host:
		if r.Path == "" {
			r.Path = "/"
		}
		if r.Host = host; s.Hosts.KeepSessions(host) {
			r.Binding = s.Cookies.binding(ex, &ex.Credentials)
		}
	}
	return s.PublicURL + s.WithReturn(page, r)
}

// binding returns the binding of the browser with these credentials, which it keeps in
// a cookie. With session.domain there is no need for one.
func (c *Cookies) binding(w http.ResponseWriter, creds *auth.Credentials) string {
	if c.domain != "" {
		return ""
	}
	secret, _ := journey.BrowserSecret(creds.Browser)
	c.Set(w, c.Names.Browser, secret, startLifetime)
	return journey.Binding(secret)
}
