package web

import (
	"regexp"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/pages"
	"authgate/gateway/people/invitations"
	"authgate/gateway/proxy/places"
)

// LanguagePath is the own endpoint where users choose the language of the gateway's pages, in
// LanguageField. BackField is the page where they are.
const (
	LanguagePath  = "signin/language"
	LanguageField = "language"
	BackField     = "back"
)

// longestBack is the longest place that a page leads back to, in bytes.
const longestBack = 8 << 10

// pages returns the pages in the language of the user: the one that they have chosen in this
// browser, or else one that the browser asks for.
func (ex *Exchange) pages() *pages.Pages {
	chosen := ""
	if cookie, err := ex.Request.Cookie(ex.site.Cookies.Names.Language); err == nil {
		chosen = cookie.Value
	}
	p := ex.site.Pages.In(chosen, ex.Request.Header["Accept-Language"])
	back := ex.Again
	if back == "" {
		back = here(ex.site, &ex.Received)
	}
	if back == "" {
		return p
	}
	choice := pages.Switch{Action: ex.site.Own(LanguagePath), Back: back}
	if id := ex.Identity; id != nil && ex.site.CSRFToken != nil {
		choice.CSRFToken = ex.site.CSRFToken(ex, id.Login)
	}
	return p.With(choice)
}

// here returns the place of the page, for a user who chooses a language and comes back. It is empty
// if they cannot: a browser must have asked for the page by a GET that may be repeated, at a host
// where the gateway has endpoints.
func here(s *Site, r *Received) string {
	if !r.Reads() || r.Verify || !s.Hosts.Has(r.Canonical.Host) {
		return ""
	}
	place := r.Target()
	if s.IsOwn(r.Canonical.Path) {
		name := s.ownName(r.Canonical.Path.Decoded)
		parameters, ok := repeatable(name)
		if !ok {
			return ""
		}
		if name != places.AuthorizePath { // the request of a client, whole
			place = ownPlace(s, r, parameters)
		}
	}
	if len(place) > longestBack {
		return ""
	}
	return place
}

// word matches the value of a parameter that a page may repeat: nothing that a link could make it
// say.
var word = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// ownPlace returns the place of a page of the gateway with those parameters, and with where the
// user goes on from there, as it was read.
func ownPlace(s *Site, r *Received, parameters []string) string {
	place := s.Own(s.ownName(r.Canonical.Path.Decoded))
	for _, name := range parameters {
		if value := r.QueryValue(name); word.MatchString(value) {
			place = places.WithParameter(place, name, value)
		}
	}
	return s.WithReturn(place, readReturn(s, r, r.QueryValue))
}

// ownName returns the name of the own endpoint at a path.
func (s *Site) ownName(path string) string { return strings.TrimPrefix(path, s.Prefix) }

// repeatable returns the parameters of an own endpoint that belong to its page. It reports false if
// the endpoint is not one of the pages that may be asked for again. The others use something up,
// such as a ticket, or begin or end something.
func repeatable(name string) (parameters []string, ok bool) {
	switch name {
	case "signin":
		return []string{places.ReasonField, SwitchField, "mechanism"}, true
	case invitations.Page:
		return []string{invitations.TokenField}, true
	case "device":
		return []string{"user_code"}, true
	case "account":
		return []string{places.PartField}, true
	case config.EndpointPeople, "me", config.EndpointApps, places.AuthorizePath:
		return nil, true
	}
	return nil, false
}

// SamePage returns the page at the host of the request that a user comes back to. The start page
// replaces a target that is no path there, or an own endpoint that may not be asked for again.
func (s *Site) SamePage(received *Received, target string) string {
	path, err := s.ParseReturn(received.Canonical.Host, target)
	if err != nil || len(target) > longestBack || path.ReadsAs(s.onlyOnce) {
		return "/"
	}
	return target
}

// onlyOnce reports whether a path is that of an own endpoint that may not be asked for again.
func (s *Site) onlyOnce(path string) bool {
	own := s.OwnPath(path)
	_, again := repeatable(s.ownName(path))
	return own && !again
}
