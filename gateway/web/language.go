package web

import (
	"net/http"

	"authgate/gateway/invitations"
	"authgate/gateway/pages"
	"authgate/policy"
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
	if !ex.comesBack() {
		return p
	}
	choice := pages.Switch{Action: ex.site.Own(LanguagePath), Back: ex.Target()}
	if id := ex.Identity; id != nil && ex.site.CSRFToken != nil {
		choice.CSRFToken = ex.site.CSRFToken(ex, id.Login)
	}
	return p.With(choice)
}

// comesBack reports whether a user who chooses a language gets to the same page again: a browser
// asks for it by a GET, which may be repeated, at a host where the gateway has endpoints.
func (ex *Exchange) comesBack() bool {
	method := ex.Canonical.Method
	return (method == http.MethodGet || method == http.MethodHead) && !ex.Verify && !ex.Foreign &&
		ex.site.Hosts.Has(ex.Canonical.Host) && ex.site.repeats(ex.Canonical.Path) && len(ex.Target()) <= longestBack
}

// repeats reports whether a path may be asked for again: it is no own endpoint, or one of the pages
// for people. The others use something up, such as a ticket, or begin or end something.
func (s *Site) repeats(path policy.Path) bool {
	for _, read := range append(path.Readings(), path.Decoded, path.Slashed) {
		if s.endpoints[read] && read != s.Own("signin") && read != s.Own(invitations.Page) && read != s.Own("me") {
			return false
		}
	}
	return true
}

// SamePage returns the page at the host of the request that a user comes back to. What is no path
// there is the start page.
func (s *Site) SamePage(received *Received, target string) string {
	path, err := s.parseReturn(received.Canonical.Host, target)
	if err != nil || !s.repeats(path) || len(target) > longestBack {
		return "/"
	}
	return target
}
