package signin

import (
	"io"
	"net/http"
	"net/url"

	"authgate/gateway/endpoint"
	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// signInPage is GET /signin. If the query names one of session and oidc,
// because a route accepts no other, the page offers that alone.
type signInPage struct {
	site      *web.Site
	accounts  *accounts.Set
	providers []Provider
	remember  bool                         // users can stay signed in
	passkeys  bool                         // users can have passkeys
	mayAdd    func(*accounts.Account) bool // a second factor; nil: no account may
	sessions  func(only policy.Mechanism) auth.Chain
	hosts     *OtherHosts
}

func (s *signInPage) servePage(ex *web.Exchange) error {
	reason := ex.QueryValue(places.ReasonField)
	if reason == places.ReasonSignedOut && !ex.Foreign {
		if id, err := endpoint.Guest(ex, s.sessions("")); err != nil || id == nil {
			s.writeSignedOut(ex) // the way here did end a session, if the store is gone now
			return nil
		}
	}
	r := ex.ReadReturn(ex.QueryValue)
	if !s.site.AtHome(&ex.Received) {
		return s.hosts.StartAtHome(ex, "signin", r, "mechanism", web.SwitchField, places.ReasonField)
	}
	only, switches := policy.Mechanism(ex.QueryValue("mechanism")), ex.QueryValue(web.SwitchField) != ""
	fresh := reason == places.ReasonFresh
	if !switches && !fresh {
		if err := s.hosts.BySession(ex, only, r); err != nil {
			return err
		}
	}
	id, err := endpoint.Guest(ex, s.sessions(only))
	if err != nil {
		return err
	}
	if id == nil {
		s.write(ex, http.StatusOK, r, s.forGuest(ex, reason))
		return nil
	}
	lacks := !switches && !r.Demand.Met(&id.Proof, ex.Canonical.Now)
	page := pages.SignIn{Username: ex.QueryValue(places.LoginHintField)}
	switch {
	case fresh || lacks:
		page.Notice = pages.NoticeFresh
		if lacks {
			page.Notice = s.lackNotice(id, r.Demand)
		}
		if id.Provider == policy.LocalProvider {
			page.Username = id.Username
		}
	case switches:
		page.Current = ex.User(id).String()
	default:
		s.writeSignedIn(ex, id, r)
		return nil
	}
	s.write(ex, http.StatusOK, r, page)
	return nil
}

// forGuest returns the page for a user who is not signed in, with a notice if their session has ended
// or its cookie does not arrive.
func (s *signInPage) forGuest(ex *web.Exchange, reason string) pages.SignIn {
	page := pages.SignIn{Username: ex.QueryValue(places.LoginHintField)}
	switch {
	case s.cameBack(ex):
		page.Notice = pages.NoticeNoCookie
		s.site.Service.Logger.Warn("a sign-in came back without its cookie: "+
			"the browser blocks cookies, or something on the way removes Set-Cookie or Cookie",
			"request_id", ex.ID, "client", ex.Peer.Address, "cookie", s.site.Cookies.Names.Session)
	case reason == places.ReasonEnded, ex.SessionEnded():
		page.Notice = pages.NoticeEnded
	}
	return page
}

// lackNotice returns the notice for a sign-in that does not meet the demand.
func (s *signInPage) lackNotice(id *policy.Identity, d policy.Demand) pages.Notice {
	if id.Factors() >= d.Factors {
		return pages.NoticeFresh
	}
	if id.Provider == policy.LocalProvider && s.mayAdd != nil {
		if account, ok := s.accounts.Lookup(id.Username); ok && s.mayAdd(account) {
			return pages.NoticeAddFactor
		}
	}
	return pages.NoticeFactors
}

// writeSignedOut answers a user who has just signed out.
func (s *signInPage) writeSignedOut(ex *web.Exchange) {
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error {
		return p.SignedOut(w, pages.SignedOut{SignInURL: s.site.Own("signin")})
	})
}

// writeSignedIn answers a user who is signed in.
func (s *signInPage) writeSignedIn(ex *web.Exchange, id *policy.Identity, r places.Return) {
	page := pages.SignedIn{User: ex.User(id), ContinueURL: s.site.PlaceOrStart(r), Host: r.Host}
	page.Unbegun = r.Host != "" && ex.QueryValue(places.ReasonField) == places.ReasonUnbegun
	page.SwitchURL = s.site.Own("signin") + "?" + web.SwitchField + "=1"
	if only := ex.QueryValue("mechanism"); only != "" {
		page.SwitchURL = places.WithParameter(page.SwitchURL, "mechanism", only)
	}
	page.SwitchURL = s.site.WithReturn(page.SwitchURL, r)
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.SignedIn(w, page) })
}

// cameBack reports whether a user has just signed in on this page, was sent on, and
// is here again because the browser did not send the session's cookie. A route sends
// users here with the way back, and redirects keep the Referer.
func (s *signInPage) cameBack(ex *web.Exchange) bool {
	creds := &ex.Credentials
	asked := ex.QueryValue(web.SwitchField) != "" || ex.QueryValue(places.ReasonField) != ""
	if creds.Session != "" || creds.Delegated != "" || ex.Stale.Any() || !ex.PageLoad() ||
		ex.QueryValue(places.ReturnToField) == "" || asked {
		return false
	}
	from, err := url.Parse(ex.Request.Header.Get("Referer"))
	if err != nil || from.Scheme != "https" || from.Query().Has(web.SwitchField) ||
		from.Query().Has(places.ReasonField) {
		return false
	}
	host, err := policy.CanonicalHost(from.Host)
	if err != nil || host != ex.Canonical.Host {
		return false
	}
	return from.Path == s.site.Own("signin") || from.Path == s.site.Own("login")
}

// write writes the page of a sign-in, completed by its forms and providers.
func (s *signInPage) write(ex *web.Exchange, status int, r places.Return, page pages.SignIn) {
	only := policy.Mechanism(ex.QueryValue("mechanism"))
	page.Action, page.Form, page.Host = s.site.Own("login"), formOf(s.site, r), s.site.SignInHost(r)
	page.Password = s.accounts.Len() > 0 && only != policy.OIDC
	page.Remember = s.remember
	if page.Password && s.passkeys {
		page.Passkey = &pages.PasskeyForm{
			Action: s.site.Own("signin/passkey"), Options: s.site.Own("signin/passkey/options"),
		}
	}
	for _, p := range s.providers {
		if only != policy.Session {
			place := s.site.Own("login") + "?provider=" + url.QueryEscape(p.Name)
			if ex.QueryValue(web.SwitchField) != "" || page.Notice == pages.NoticeFresh { // must ask for credentials
				place = places.WithParameter(place, web.SwitchField, "1")
			}
			page.Providers = append(page.Providers, pages.Provider{Title: p.Title, URL: s.site.WithReturn(place, r)})
		}
	}
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.SignIn(w, page) })
}
