package oauth

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"authgate/gateway/clients"
	"authgate/gateway/endpoint"
	"authgate/gateway/grants"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

// The fields of the form of consent.
const (
	decisionField = "decision"
	sealField     = "seal"
	decisionAllow = "allow"
	decisionDeny  = "deny"
)

// consents finds out whether the user lets the client do what it asks for. If they must
// decide first, the page is the answer, and given is false.
func (s *authorization) consents(ex *web.Exchange, r *request, id *policy.Identity, given *bool) error {
	t := &r.terms
	if !*given && !r.consent {
		held, err := s.grants.Consented(&ex.Store, id.Subject, t.Client, t.Resource, t.Scopes)
		if held || err != nil {
			*given = held
			return err
		}
	}
	if !*given && !r.client.SkipConsent {
		if r.silent {
			return refuse(codeConsentRequired, "The user must decide.")
		}
		s.ask(ex, r.client, t, id, pages.Consent{
			Action:   s.site.Own(authorizePath) + "?" + r.values.Encode(),
			Seal:     s.sealOf(id, r.values),
			Redirect: hostOf(r.redirect),
		})
		return nil
	}
	*given = true
	return s.grants.Consent(&ex.Store, id.Subject, t.Client, r.client.Name, t.Resource, t.Scopes)
}

// sealOf binds the form of a page to the login and to the request that the user sees.
func (s *authorization) sealOf(id *policy.Identity, values url.Values) string {
	return s.forms.of("consent", id.Login, values.Encode())
}

// ask shows the page of consent.
func (s *authorization) ask(
	ex *web.Exchange, client *clients.Client, t *grants.Terms, id *policy.Identity, page pages.Consent,
) {
	page.Client, page.User, page.Scopes = clientName(client), ex.User(id), t.Scopes
	page.Resource = t.Resource
	page.Known = client.Configured
	page.CSRFToken = s.options.CrossSite.Token(ex, id.Login)
	ex.LeadsAnywhere = true
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Consent(w, page) })
}

// clientName returns what users call a client.
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
		return redirect
	}
	if u.Scheme == "https" {
		return u.Host
	}
	return u.Scheme + "://" + u.Host
}

// authorizeByForm is POST oauth/authorize: the form of consent, or the request of a client,
// which becomes a GET: browsers send no cookies with the form of another site.
func (s *authorization) authorizeByForm(ex *web.Exchange) error {
	if ex.MediaType() != web.TypeForm {
		return endpoint.UnsupportedMedia(web.TypeForm)
	}
	form, err := url.ParseQuery(string(ex.Body))
	if err != nil {
		return endpoint.BadRequest("The body is not a form.", nil)
	}
	if !form.Has(decisionField) {
		ex.Redirect(http.StatusSeeOther, s.site.Own(authorizePath)+"?"+form.Encode())
		return nil
	}
	values, err := ex.Query()
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
		ex.Audit("client_refused", slog.String("client_id", r.client.ID))
		return s.answer(ex, r, refuse(codeAccessDenied, "The user has refused."))
	}
	return s.answer(ex, r, s.decide(ex, r, true))
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
		return endpoint.BadRequest("The field decision must be allow or deny.", nil)
	}
	if id == nil || len(form[sealField]) != 1 ||
		!s.forms.fits(form.Get(sealField), "consent", id.Login, values.Encode()) {
		return &web.Error{
			Status: http.StatusForbidden, Detail: "This page is of another session or request. Begin again in the application.",
			Cause: errors.New("the seal of the form does not fit the session and the request"),
		}
	}
	if crossSite.NeedsToken(ex) {
		return crossSite.CheckToken(ex, id.Login)
	}
	return nil
}
