package web

import (
	"net/http"
	"strings"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/proxy/places"
)

// startLifetime is how long a browser may take from the first page at a host to
// its session there. People leave sign-in pages open.
const startLifetime = 24 * time.Hour

// ReadReturn reads from parameters of the request where the user goes on, with which demand, and
// whether another site began that. A page load of the other host may have asked for it, so this
// counts only if no browser waits there.
func (ex *Exchange) ReadReturn(value func(name string) string) places.Return {
	r := readReturn(ex.site, &ex.Received, value)
	if path, _, _ := strings.Cut(r.Path, "?"); r.Host == "" && path == ex.site.Own(places.AuthorizePath) {
		ex.LeadsAnywhere = true
	}
	return r
}

// readReturn is Exchange.ReadReturn for a page whose own forms lead no further.
func readReturn(s *Site, received *Received, value func(name string) string) places.Return {
	binding := value(places.BindingField)
	if !journey.ValidBinding(binding) {
		binding = ""
	}
	r := s.Places.ReadReturn(received.Canonical.Host, value(places.ReturnToField), binding)
	r.Demand = places.ReadDemand(value)
	r.Elsewhere = value(places.ElsewhereField) != "" || r.Binding == "" && s.fromElsewhere(received)
	return r
}

// fromElsewhere reports whether another site led the browser here, and sessions are
// such that this must not make a difference (Fetch Metadata). The header tells
// of the whole way, over all redirects.
func (s *Site) fromElsewhere(received *Received) bool {
	return s.Cookies.Strict() && received.Request.Header.Get("Sec-Fetch-Site") == "cross-site"
}

// SignInPlace returns the page of the gateway where a user signs in, at the host of
// public_url, from where they go on to r. At another host it binds the sign-in to
// the browser, so that the session there can be given to this browser alone. People
// sign in at the gateway's own hosts only: the owner of another name controls the
// cookies that are set there.
func (ex *Exchange) SignInPlace(page string, r places.Return) string {
	s := ex.site
	host := ex.Canonical.Host
	r.Elsewhere = r.Elsewhere || s.fromElsewhere(&ex.Received)
	switch {
	case s.IsHome(host):
		return s.WithReturn(page, r)
	case ex.Foreign || !s.LeadsTo(host):
		r.Binding = ""
	case s.IsHome(r.Host):
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

// AtHome reports whether the request is for the host where users sign in.
func (s *Site) AtHome(received *Received) bool { return s.IsHome(received.Canonical.Host) }
