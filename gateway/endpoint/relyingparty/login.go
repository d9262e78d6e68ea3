package relyingparty

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// The parameters of a sign-in that a third party begins, such as the portal of a
// provider (OpenID Connect Core 1.0, section 4).
const (
	issuerField = "iss"
	targetField = "target_link_uri"
	hintField   = "login_hint"
)

// maxHint is the longest login_hint that is passed on, in bytes.
const maxHint = 2 << 10

// delegatedLogin is GET /login: it redirects to the identity provider that the
// query names, by its name or its issuer, or to the default one, and else to the
// sign-in page.
type delegatedLogin struct {
	site       *web.Site
	federation *mechanism.Federation
	routes     *policy.Table
	signedIn   auth.Chain // whose logins a new one replaces
	presented  *signout.Presented
	hosts      *signin.OtherHosts
	accounts   *accounts.Set
}

func (d *delegatedLogin) serve(ex *web.Exchange) error {
	if err := signin.RefuseScript(ex); err != nil {
		return err
	}
	if d.accounts.Len() > 0 && !d.federation.Chosen && typed(ex) {
		ex.Redirect(http.StatusFound, d.site.Own("signin"))
		return nil
	}
	r := d.target(ex)
	if !d.site.AtHome(&ex.Received) {
		return d.hosts.StartAtHome(ex, "login", r, "provider", issuerField, hintField, web.SwitchField)
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
		if err := d.hosts.BySession(ex, policy.OIDC, r); err != nil {
			return err
		}
	}
	if p == nil || ex.Canonical.Method == http.MethodHead { // begins nothing
		page := d.site.Own("signin")
		if ex.QueryValue(web.SwitchField) != "" {
			page = places.WithParameter(page, web.SwitchField, "1")
		}
		ex.Redirect(http.StatusFound, d.site.WithReturn(page, r))
		return nil
	}
	if err := d.ask(ex, p, r); err != nil {
		return err
	}
	return d.beginAttempt(ex, p, r)
}

// typed reports whether a user has typed the address alone, or opened a bookmark of it. Then
// the user has chosen no provider, and may have a password here.
func typed(ex *web.Exchange) bool {
	header := ex.Request.Header.Get
	values, err := ex.Query()
	return err == nil && len(values) == 0 && header("Sec-Fetch-Site") == "none" &&
		header("Sec-Fetch-Mode") == "navigate" && header("Sec-Fetch-Dest") == "document"
}

// target returns where the user goes on. A third party says it in a parameter of its own.
func (d *delegatedLogin) target(ex *web.Exchange) places.Return {
	third := ""
	if ex.QueryValue(issuerField) != "" {
		third = ex.QueryValue(targetField)
	}
	return ex.ReadReturn(func(name string) string {
		if name == places.ReturnToField && third != "" {
			return third
		}
		return ex.QueryValue(name)
	})
}

// chosen returns the provider that a query names, or else the default one, which may be
// nil.
func (d *delegatedLogin) chosen(values url.Values) (p *mechanism.Provider, named bool, err error) {
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
	those := slices.DeleteFunc(slices.Clone(d.federation.Providers), func(one *mechanism.Provider) bool {
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
	return nil, true, refuse(
		"Several identity providers have that issuer. Name one of them with the parameter provider.")
}

// ask answers a user who is signed in, and whom another site sends to a provider. The
// sign-in there would replace their session, so they decide.
func (d *delegatedLogin) ask(ex *web.Exchange, p *mechanism.Provider, r places.Return) error {
	if !ex.FromOtherSite() {
		return nil
	}
	id, err := endpoint.Guest(ex, d.signedIn)
	if id == nil || err != nil {
		return err
	}
	place := d.site.Own("login") + "?provider=" + url.QueryEscape(p.Name())
	for _, name := range []string{hintField, web.SwitchField} {
		if value := ex.QueryValue(name); value != "" {
			place = places.WithParameter(place, name, value)
		}
	}
	page := pages.SignedIn{
		User: ex.User(id), ContinueURL: d.site.PlaceOrStart(r), Host: r.Host,
		Asked: &pages.Provider{Title: p.Title, URL: d.site.WithReturn(place, r)},
	}
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.SignedIn(w, page) })
	return web.ErrAnswered
}

// hint returns the login_hint to pass on, empty if there is none that is acceptable.
func hint(ex *web.Exchange) string {
	value := ex.QueryValue(hintField)
	if len(value) > maxHint || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return ""
	}
	return value
}

// beginAttempt redirects the user to the provider, with an attempt to sign in that
// only their browser can finish.
func (d *delegatedLogin) beginAttempt(ex *web.Exchange, p *mechanism.Provider, r places.Return) error {
	r = signin.Storable(r)
	browser, _ := journey.BrowserSecret(ex.Credentials.Browser)
	attempts, cookies := d.federation.Attempts, &d.site.Cookies
	attempt := attempts.New(browser, p.Name(), p.Issuer(), d.site.Place(r))
	attempt.Binding, attempt.Elsewhere = r.Binding, r.Elsewhere
	attempt.Demand, attempt.Wish = r.Demand, d.wish(ex, r)
	attempt.Another, attempt.Hint = ex.QueryValue(web.SwitchField) != "", hint(ex)
	var err error
	if attempt.Before, err = d.presented.BehindCookies(&ex.Store, &ex.Credentials); err != nil {
		return err
	}
	location, err := p.AuthorizationURL(ex.Request.Context(), attempt.Attempt)
	if err != nil {
		return err
	}
	if err := attempts.Begin(&ex.Store, ex.Peer.Client, attempt); err != nil {
		return err
	}
	cookies.Set(ex, cookies.Names.Browser, browser, journey.AttemptLifetime)
	ex.Redirect(http.StatusFound, location)
	return nil
}

// wish returns the demand on every login by the page where the user goes on, so that one sign-in at
// the provider is enough for it. The page decides whether it was.
func (d *delegatedLogin) wish(ex *web.Exchange, r places.Return) policy.Demand {
	page := ex.Canonical
	if r.Host != "" {
		page.Host = r.Host
	}
	path, err := d.site.ParseTarget(page.Host, r.Path)
	if err != nil || d.site.IsOwn(path) {
		return policy.Demand{}
	}
	page.Method, page.Path = http.MethodGet, path
	found, ok := d.routes.Match(&page)
	if !ok {
		return policy.Demand{}
	}
	return found.Route.Demand()
}
