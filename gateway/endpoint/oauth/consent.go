package oauth

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// The fields of the form of consent.
const (
	decisionField = "decision"
	sealField     = "seal"
	decisionAllow = "allow"
	decisionDeny  = "deny"
)

// hasConsent reports whether the user consents to the terms of a request; allowed tells that they
// have just done so on the page. If they must decide first, the page is the answer. A consent for a
// program could serve another one that comes in its place.
func (s *authorization) hasConsent(
	ex *web.Exchange, r *request, id *policy.Identity, allowed bool,
) (given bool, err error) {
	t := &r.terms
	if !allowed && !r.freshConsent && !r.client.Imitable(r.redirect) {
		held, err := s.consents.Given(&ex.Store, id.Subject, t.Client, t.Resource, t.Scopes)
		if held || err != nil {
			return held, err
		}
	}
	switch {
	case allowed, r.client.SkipConsent:
		return true, s.consents.Give(&ex.Store, id.Subject, t.Client, r.client.Name, t.Resource, t.Scopes)
	case r.noPage:
		return false, refuse(codeConsentRequired, "The user must decide.")
	}
	s.ask(ex, r.client, t, id, pages.Consent{
		Action:   s.site.Own(authorizePath) + "?" + r.values.Encode(),
		Seal:     s.sealOf(id, r.values),
		Redirect: hostOf(r.redirect),
	})
	return false, nil
}

// sealOf binds the form of a page to the login and to the request that the user sees.
func (s *authorization) sealOf(id *policy.Identity, values url.Values) string {
	return s.forms.of("request", id.Login, values.Encode())
}

// ask shows the page of consent.
func (s *authorization) ask(
	ex *web.Exchange, client *clients.Client, t *grants.Terms, id *policy.Identity, page pages.Consent,
) {
	page.Client, page.User, page.Scopes = clientName(client), ex.User(id), t.Scopes
	page.Resource, page.Who = t.Resource, t.Resource == s.address(userinfoPath)
	page.Known = client.Configured
	page.CSRFToken = s.options.CrossSite.Token(ex, id.Login)
	ex.LeadsAnywhere = true
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Consent(w, page) })
}

// clientName returns the users' name of a client.
func clientName(c *clients.Client) string {
	if c.Name != "" {
		return c.Name
	}
	return c.ID
}

// hostOf returns where a redirect URI leads, as users know it.
func hostOf(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil || u.Host == "" {
		address, _, _ := strings.Cut(redirect, "?")
		return address
	}
	if u.Scheme == "https" {
		return u.Host
	}
	return u.Scheme + "://" + u.Host
}

// byLink makes the browser send the request of a client again, as a link to the endpoint of that
// name: browsers send no cookies with the form of another site.
func (s *core) byLink(ex *web.Exchange, name string, form url.Values) {
	ex.Redirect(http.StatusSeeOther, s.site.Own(name)+"?"+form.Encode())
}

// authorizeByForm is POST oauth/authorize: the form of consent, or the request of a client.
func (s *authorization) authorizeByForm(ex *web.Exchange) error {
	form, err := bodies.ReadForm(ex, detailNoForm)
	if err != nil {
		return err
	}
	if !form.Has(decisionField) {
		s.byLink(ex, authorizePath, form)
		return nil
	}
	values, err := readQuery(ex)
	if err != nil {
		return err
	}
	r, err := s.readClient(ex, values)
	if err != nil {
		return err
	}
	if err := s.checkForm(ex, form, values); err != nil {
		return err
	}
	if form.Get(decisionField) == decisionDeny {
		s.auditRefused(ex, r.client.ID, r.values.Get("resource"))
		return s.answer(ex, r, refuse(codeAccessDenied, "The user has refused."))
	}
	return s.answer(ex, r, s.grantOrAsk(ex, r, true))
}

// checkForm refuses a form of consent that the user of the session has not sent from its
// page.
func (s *authorization) checkForm(ex *web.Exchange, form, values url.Values) error {
	crossSite := s.options.CrossSite
	if err := crossSite.CheckOrigin(ex); err != nil {
		return err
	}
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if err != nil {
		return err
	}
	if decision := form.Get(decisionField); len(form[decisionField]) != 1 ||
		decision != decisionAllow && decision != decisionDeny {
		return web.BadRequest("The field decision must be allow or deny.", nil)
	}
	if id == nil || len(form[sealField]) != 1 ||
		!s.forms.fits(form.Get(sealField), "request", id.Login, values.Encode()) {
		return &web.Error{
			Status: http.StatusForbidden,
			Detail: "This page is of another session or request. Begin again in the application.",
			Cause:  errors.New("the seal of the form does not fit the session and the request"),
		}
	}
	if crossSite.NeedsToken(ex) {
		return crossSite.CheckToken(ex, id.Login)
	}
	return nil
}
