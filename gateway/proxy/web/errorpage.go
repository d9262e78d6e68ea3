package web

import (
	"errors"
	"fmt"
	"net/http"

	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/policy"
)

// SignInLink is where the page of an error offers to sign in. Nil offers
// nothing.
type SignInLink struct {
	Page   string // a path of the gateway
	Switch string // the form, for a user who wants another account; empty: none
	Return bool   // add the way back to the page that was asked for
	Always bool   // for every error; otherwise for a 401 alone
}

// SignInHeader tells the scripts of an application that a 401 is the gateway's, and where a user
// signs in. No upstream can send it.
const SignInHeader = "Authgate-Sign-In"

// SwitchField is the parameter of the sign-in page of a user who is signed in, and
// wants another account.
const SwitchField = "switch"

func (l *SignInLink) url(status int, site *Site, received *Received) string {
	if l == nil || l.Page == "" || status != http.StatusUnauthorized && !l.Always {
		return ""
	}
	return l.withReturn(l.Page, site, received)
}

// withReturn returns a place of the gateway with the way back. At a host whose
// requests a proxy only asks about, the gateway has no pages.
func (l *SignInLink) withReturn(page string, site *Site, received *Received) string {
	r := places.Return{Elsewhere: site.fromElsewhere(received)}
	if l.Return && received.Canonical.Method == http.MethodGet {
		r.Path = received.Target()
	}
	if !received.Verify {
		return site.WithReturn(page, r)
	}
	if host := received.Canonical.Host; r.Path != "" && !site.IsHome(host) {
		r.Host = host
	}
	return site.PublicURL + site.WithReturn(page, r)
}

// errorPage has the content of an error's page in an exchange.
type errorPage struct {
	pages.ErrorPage
	ex *Exchange
}

// newErrorPage returns the content of an error's page: the cause, and advice for the user.
func newErrorPage(ex *Exchange, e *Error) pages.ErrorPage {
	page := errorPage{pages.ErrorPage{
		Status: e.Status, Problem: e.Problem, Detail: e.Detail, Said: e.Said, RequestID: ex.ID,
		SignInURL: ex.SignIn.url(e.Status, ex.site, &ex.Received),
	}, ex}
	reads := ex.Request.Method == http.MethodGet
	switch e.Status {
	case http.StatusTooManyRequests:
		page.Wait = e.RetryAfter
		page.Retry = reads && e.Problem != pages.ProblemLogins && page.SignInURL == ""
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		page.Retry = reads && page.SignInURL == ""
	case http.StatusForbidden:
		page.HomeURL = ex.site.Start
		fallthrough
	case http.StatusNotFound:
		if page.HomeURL == "" && ex.Canonical.Path.Decoded != "/" {
			page.HomeURL = "/"
		}
	}
	switch e.Problem {
	case pages.ProblemForbidden:
		page.addUser()
	case pages.ProblemInvitation:
		if ex.SignIn != nil {
			page.SignInURL = ex.SignIn.Page
		}
	case pages.ProblemCookies:
		page.addTwin(e)
	}
	return page.ErrorPage
}

// addTwin offers to remove the cookies that other services have set with the name of one
// of the gateway's. At a host whose requests a proxy only asks about, the gateway has
// no endpoint for it.
func (p *errorPage) addTwin(e *Error) {
	ex := p.ex
	twice, ok := errors.AsType[*auth.AmbiguousCookieError](e)
	if !ok || ex.Verify || ex.Foreign {
		return
	}
	p.Twin = &pages.Twin{Action: ex.site.Own(TwinsPath), Cookie: twice.Name, ReturnTo: "/"}
	if ex.Canonical.Method == http.MethodGet {
		p.Twin.ReturnTo = ex.Target()
	}
}

// addUser shows a user who is signed in who they are, and offers another account.
func (p *errorPage) addUser() {
	ex := p.ex
	id := ex.Identity
	if id == nil {
		return
	}
	p.User = pages.User{Username: id.Username, Name: id.Name}
	if id.Mechanism.Traits().Carrier != policy.InCookie {
		return // no cookie, so there is nothing to sign out of
	}
	if link := ex.SignIn; link != nil && link.Switch != "" {
		p.SwitchURL = link.withReturn(link.Switch, ex.site, &ex.Received)
	}
	if !ex.Verify { // a form would be one of another site
		p.User = ex.User(id)
	}
}

// User returns who is signed in, as pages show it.
func (ex *Exchange) User(id *policy.Identity) pages.User {
	u := pages.User{Username: id.Username, Name: id.Name, LogoutAction: ex.site.Own("logout")}
	if ex.site.CSRFToken != nil {
		u.LogoutToken = ex.site.CSRFToken(ex, id.Login)
	}
	return u
}

// nameCookie tells a sign-in that came back without its cookie from other attempts
// that are not known.
func nameCookie(ex *Exchange, e *Error, err error) error {
	if e.Problem != pages.ProblemAttempt || ex.Credentials.Browser != "" {
		return err
	}
	e.Problem = pages.ProblemNoCookie
	return fmt.Errorf("%w; the browser did not send the cookie %s: it blocks cookies, or the sign-in began at another "+
		"host", err, ex.site.Cookies.Names.Browser)
}
