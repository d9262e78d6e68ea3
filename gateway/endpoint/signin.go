package endpoint

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

// signInPage is GET /signin. If the query names one of session and oidc,
// because a route accepts no other, the page offers that alone.
type signInPage struct {
	site       *web.Site
	accounts   *auth.Accounts
	federation *Federation
	hosts      *otherHosts
}

func (s *signInPage) serve(ex *web.Exchange) error {
	reason := ex.QueryValue(web.ReasonField)
	if reason == web.ReasonSignedOut && !ex.Foreign {
		if id, err := signedIn(ex, s.hosts.chain("")); err != nil || id == nil {
			s.signedOut(ex) // the way here did end a session, if the store is gone now
			return nil
		}
	}
	r := ex.ReadReturn(ex.QueryValue)
	if !s.site.AtHome(&ex.Received) {
		return startAtHome(ex, s.site, "signin", r, "mechanism", web.SwitchField, web.ReasonField)
	}
	only, other := policy.Mechanism(ex.QueryValue("mechanism")), ex.QueryValue(web.SwitchField) != ""
	again := reason == web.ReasonFresh
	if !other && !again {
		if answered, err := s.hosts.bySession(ex, only, r); answered || err != nil {
			return err
		}
	}
	id, err := signedIn(ex, s.hosts.chain(only))
	if err != nil {
		return err
	}
	if id != nil && !other && !again {
		s.already(ex, id, r)
		return nil
	}
	page := pages.SignIn{}
	switch {
	case id != nil && again:
		page.Notice = pages.NoticeFresh
		if id.Provider == policy.LocalProvider {
			page.Username = id.Username
		}
	case id != nil:
		page.Current = ex.User(id).String()
	case s.cameBack(ex):
		page.Notice = pages.NoticeNoCookie
		s.site.Service.Logger.Warn("a sign-in came back without its cookie: the browser blocks cookies, or something on the way removes Set-Cookie or Cookie",
			"request_id", ex.ID, "client", ex.Peer.Address, "cookie", s.site.Cookies.Names.Session)
	case reason == web.ReasonEnded:
		page.Notice = pages.NoticeEnded
	}
	s.write(ex, http.StatusOK, r, page)
	return nil
}

// signedOut answers a user who has just signed out.
func (s *signInPage) signedOut(ex *web.Exchange) {
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error {
		return p.SignedOut(w, pages.SignedOut{SignInURL: s.site.Own("signin")})
	})
}

// already answers a user who is signed in.
func (s *signInPage) already(ex *web.Exchange, id *policy.Identity, r web.Return) {
	page := pages.SignedIn{User: ex.User(id), ContinueURL: s.site.PlaceOrStart(r), Host: r.Host}
	page.Unbegun = r.Host != "" && ex.QueryValue(web.ReasonField) == web.ReasonUnbegun
	page.SwitchURL = s.site.Own("signin") + "?" + web.SwitchField + "=1"
	if only := ex.QueryValue("mechanism"); only != "" {
		page.SwitchURL = web.WithParameter(page.SwitchURL, "mechanism", only)
	}
	page.SwitchURL = s.site.WithReturn(page.SwitchURL, r)
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.SignedIn(w, page) })
}

// cameBack reports whether a user has just signed in on this page, was sent on, and
// is here again because the browser did not send the session's cookie. A route sends
// users here with the way back, and redirects keep the Referer.
func (s *signInPage) cameBack(ex *web.Exchange) bool {
	creds := &ex.Credentials
	if creds.Session != "" || creds.Delegated != "" || ex.HasStale() || !ex.PageLoad() ||
		ex.QueryValue(web.ReturnToField) == "" || ex.QueryValue(web.SwitchField) != "" || ex.QueryValue(web.ReasonField) != "" {
		return false
	}
	from, err := url.Parse(ex.Request.Header.Get("Referer"))
	if err != nil || from.Scheme != "https" || from.Query().Has(web.SwitchField) || from.Query().Has(web.ReasonField) {
		return false
	}
	host, err := policy.CanonicalHost(from.Host)
	if err != nil || host != ex.Canonical.Host {
		return false
	}
	return from.Path == s.site.Own("signin") || from.Path == s.site.Own("login")
}

func (s *signInPage) write(ex *web.Exchange, status int, r web.Return, page pages.SignIn) {
	only := policy.Mechanism(ex.QueryValue("mechanism"))
	page.Action, page.ReturnTo, page.Binding = s.site.Own("login"), s.site.Place(r), r.Binding
	page.Elsewhere = r.Elsewhere
	page.Host = s.site.SignInHost(r)
	page.Password = s.accounts.Len() > 0 && only != policy.OIDC
	page.Remember = s.hosts.sessions.Remembers()
	for _, p := range s.federation.Providers {
		if only != policy.Session {
			place := s.site.Own("login") + "?provider=" + url.QueryEscape(p.Name())
			if ex.QueryValue(web.SwitchField) != "" || page.Notice == pages.NoticeFresh { // must ask for credentials
				place = web.WithParameter(place, web.SwitchField, "1")
			}
			page.Providers = append(page.Providers, pages.Provider{Title: p.Title, URL: s.site.WithReturn(place, r)})
		}
	}
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.SignIn(w, page) })
}

// maxReturnTo is the longest path with its query that an attempt or a ticket
// remembers, in bytes.
const maxReturnTo = 8 << 10

// remembered returns r as an attempt or a ticket remembers it: a place that is too long
// becomes the start page of its host.
func remembered(r web.Return) web.Return {
	if len(r.Path) > maxReturnTo {
		r.Path = "/"
	}
	return r
}

// The parameters of a sign-in that a third party begins, such as the portal of a
// provider (OpenID Connect Core 1.0, section 4).
const (
	issuerField = "iss"
	targetField = "target_link_uri"
	hintField   = "login_hint"
)

// maxHint is the longest login_hint that is passed on, in bytes.
const maxHint = 2 << 10

// delegation is GET /login: it redirects to the identity provider that the
// query names, by its name or its issuer, or to the default one, and else to the
// sign-in page.
type delegation struct {
	site       *web.Site
	federation *Federation
	signedIn   auth.Chain // whose logins a new one replaces
	out        *signOut
	hosts      *otherHosts
}

func (d *delegation) serve(ex *web.Exchange) error {
	if err := refuseScript(ex); err != nil {
		return err
	}
	r := d.target(ex)
	if !d.site.AtHome(&ex.Received) {
		return startAtHome(ex, d.site, "login", r, "provider", issuerField, hintField, web.SwitchField)
	}
	values, err := ex.Query()
	if err != nil {
		return err
	}
	ex.SignIn = &web.SignInLink{Page: d.site.WithReturn(d.site.Own("signin"), r)}
	p, named, err := d.chosen(values)
	if err != nil {
		ex.SignIn.Always = true // there is another way
		return err
	}
	if !named && ex.QueryValue(web.SwitchField) == "" {
		if answered, err := d.hosts.bySession(ex, policy.OIDC, r); answered || err != nil {
			return err
		}
	}
	if p == nil || ex.Canonical.Method == http.MethodHead { // begins nothing
		page := d.site.Own("signin")
		if ex.QueryValue(web.SwitchField) != "" {
			page = web.WithParameter(page, web.SwitchField, "1")
		}
		ex.Redirect(http.StatusFound, d.site.WithReturn(page, r))
		return nil
	}
	if answered, err := d.ask(ex, p, r); answered || err != nil {
		return err
	}
	return d.begin(ex, p, r)
}

// target returns where the user goes on. A third party says it in a parameter of its own.
func (d *delegation) target(ex *web.Exchange) web.Return {
	third := ""
	if ex.QueryValue(issuerField) != "" {
		third = ex.QueryValue(targetField)
	}
	return ex.ReadReturn(func(name string) string {
		if name == web.ReturnToField && third != "" {
			return third
		}
		return ex.QueryValue(name)
	})
}

// chosen returns the provider that a query names, or else the default one, which may be
// nil.
func (d *delegation) chosen(values url.Values) (p *Provider, named bool, err error) {
	refuse := func(detail string) error { return &web.Error{Status: http.StatusBadRequest, Detail: detail} }
	for _, name := range []string{issuerField, targetField, hintField} {
		if len(values[name]) > 1 {
			return nil, true, refuse("The parameter " + name + " appears more than once.")
		}
	}
	p = d.federation.Default
	if _, named = values["provider"]; named {
		if p = d.federation.Provider(values.Get("provider")); p == nil || len(values["provider"]) > 1 {
			return nil, true, refuse("There is no identity provider of that name here.")
		}
	}
	issuer, third := values[issuerField]
	if !third {
		return p, named, nil
	}
	those := slices.DeleteFunc(slices.Clone(d.federation.Providers), func(one *Provider) bool {
		return issuer[0] == "" || one.Provider.Issuer() != issuer[0] || named && one != p
	})
	switch {
	case len(those) == 0:
		return nil, true, refuse("There is no identity provider with that issuer here.")
	case len(those) == 1:
		return those[0], true, nil
	case slices.Contains(those, p):
		return p, true, nil
	}
	return nil, true, refuse("Several identity providers have that issuer. Name one of them with the parameter provider.")
}

// ask answers a user who is signed in, and whom another site sends to a provider. The
// sign-in there would replace their session, so they decide.
func (d *delegation) ask(ex *web.Exchange, p *Provider, r web.Return) (answered bool, err error) {
	if !ex.FromOtherSite() {
		return false, nil
	}
	id, err := signedIn(ex, d.signedIn)
	if id == nil || err != nil {
		return false, err
	}
	place := d.site.Own("login") + "?provider=" + url.QueryEscape(p.Name())
	for _, name := range []string{hintField, web.SwitchField} {
		if value := ex.QueryValue(name); value != "" {
			place = web.WithParameter(place, name, value)
		}
	}
	page := pages.SignedIn{
		User: ex.User(id), ContinueURL: d.site.PlaceOrStart(r), Host: r.Host,
		Asked: &pages.Provider{Title: p.Title, URL: d.site.WithReturn(place, r)},
	}
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.SignedIn(w, page) })
	return true, nil
}

// hint returns the login_hint to pass on, empty if there is none that is acceptable.
func hint(ex *web.Exchange) string {
	value := ex.QueryValue(hintField)
	if len(value) > maxHint || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return ""
	}
	return value
}

// begin redirects the user to the provider, with an attempt to sign in that
// only their browser can finish.
func (d *delegation) begin(ex *web.Exchange, p *Provider, r web.Return) error {
	r = remembered(r)
	browser := ex.Credentials.Browser // tabs share it, so that each can finish its own attempt
	if !login.ValidBrowserSecret(browser) {
		browser = login.NewBrowserSecret()
	}
	attempts, cookies := d.federation.Attempts, &d.site.Cookies
	attempt := attempts.New(browser, p.Name(), p.Issuer(), d.site.Place(r))
	attempt.Binding, attempt.Elsewhere = r.Binding, r.Elsewhere
	attempt.Another, attempt.Hint = ex.QueryValue(web.SwitchField) != "", hint(ex)
	var err error
	if attempt.Before, err = d.out.behindCookies(&ex.Store, &ex.Credentials); err != nil {
		return err
	}
	location, err := p.AuthorizationURL(ex.Request.Context(), attempt.Attempt)
	if err != nil {
		return err
	}
	err = attempts.Begin(&ex.Store, ex.Peer.Client, attempt)
	var throttled *auth.ThrottledError
	if errors.As(err, &throttled) {
		return &web.Error{
			Status: http.StatusTooManyRequests, Detail: "Too many sign-ins were begun from your address. Try again later.",
			Cause: err, RetryAfter: throttled.RetryAfter,
		}
	}
	if err != nil {
		return err
	}
	cookies.Set(ex, cookies.Names.Browser, browser, login.AttemptLifetime)
	ex.Redirect(http.StatusFound, location)
	return nil
}
