package oauth

import (
	"errors"
	"html/template"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"authgate/gateway/endpoint"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// authorization is where clients send users, and where these decide.
type authorization struct{ *core }

// authorize is GET oauth/authorize.
func (s *authorization) authorize(ex *web.Exchange) error {
	values, err := readQuery(ex)
	if err != nil {
		return err
	}
	r, err := s.readClient(ex, values)
	if err != nil {
		return err
	}
	return s.answer(ex, r, s.grantOrAsk(ex, r, false))
}

// answer sends a refusal to the client, or shows it to a user whom it may not lead there. It returns
// any other error.
func (s *authorization) answer(ex *web.Exchange, r *request, err error) error {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	answer := s.complete(r, url.Values{"error": {refused.code}, "error_description": {refused.description}})
	trusted, err := s.trusts(ex, r.client)
	switch {
	case err != nil:
		return err
	case trusted:
		ex.Failed(refused, http.StatusFound)
		s.send(ex, r, answer)
	default:
		ex.Failed(refused, http.StatusBadRequest)
		s.offer(ex, http.StatusBadRequest, r.location(answer), pages.Leave{
			Refused: refused.code == codeAccessDenied, Detail: refused.description,
		})
	}
	return nil
}

// send makes the browser take an answer to the client.
func (s *authorization) send(ex *web.Exchange, r *request, answer url.Values) {
	if !r.post {
		s.redirect(ex, r.location(answer))
		return
	}
	page := pages.FormPost{Action: template.URL(r.redirect)} // a registered one, so that its scheme is accepted
	for _, name := range slices.Sorted(maps.Keys(answer)) {
		page.Fields = append(page.Fields, pages.FormField{Name: name, Value: answer.Get(name)})
	}
	ex.LeadsAnywhere = true
	ex.Header().Set("Referrer-Policy", "strict-origin") // else the client gets Origin: null
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.FormPost(w, page) })
}

// grantOrAsk gives the client a code, or leads the user to the sign-in or the consent that is missing.
// It returns a refusal if the request allows neither. allowed tells that the user has just allowed the
// request on the page.
func (s *authorization) grantOrAsk(ex *web.Exchange, r *request, allowed bool) error {
	if err := s.fill(r); err != nil {
		return err
	}
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if err != nil {
		return err
	}
	demand, admitted := s.admit(ex, r.client, id)
	switch {
	case !admitted && r.noPage:
		return refuse(codeAccessDenied, "The policy of the application does not let the user in.")
	case !admitted:
		return web.Forbidden()
	}
	switch needsSignIn := r.needsSignIn(id, demand, s.options.Now()); {
	case needsSignIn && r.noPage:
		return refuse(codeLoginRequired, "The user must sign in.")
	case needsSignIn:
		return s.signIn(ex, r, id, demand.And(r.age()))
	case r.providerDidNotAsk(id):
		return refuse(codeLoginRequired, "The identity provider of the user did not ask them to sign in again.")
	case r.otherUser(id):
		return refuse(codeLoginRequired, "Another user is signed in than the one of id_token_hint.")
	}
	if given, err := s.hasConsent(ex, r, id, allowed); err != nil || !given {
		return err
	}
	return s.grant(ex, r, id)
}

// admit reports whether the client's policy lets a user in, and the demand on the login for that.
func (s *authorization) admit(
	ex *web.Exchange, client *clients.Client, id *policy.Identity,
) (demand policy.Demand, admitted bool) {
	if id == nil || client.Policy == nil {
		return policy.Demand{}, true
	}
	decision := client.Policy.Decide(id, &ex.Canonical)
	if decision.Outcome == policy.Allow {
		return policy.Demand{}, true
	}
	ex.Reason = decision.Reason
	if decision.Outcome == policy.StepUp {
		return decision.Demand, true
	}
	ex.Audit("denied", slog.String("client_id", client.ID), slog.String("rule", decision.Rule),
		slog.String("reason", decision.Reason))
	return policy.Demand{}, false
}

// signIn leads the user to a sign-in, and from there back to the request.
func (s *authorization) signIn(ex *web.Exchange, r *request, id *policy.Identity, demand policy.Demand) error {
	values := r.values
	page := s.site.Own("signin")
	switch {
	case id != nil && (r.freshSignIn || r.otherUser(id)):
		page = places.WithParameter(page, places.ReasonField, places.ReasonFresh)
	case id != nil:
		page = s.site.StepUpPage(id, page)
	case s.accounts.Len() == 0 && s.hasDefault:
		page = s.site.Own("login")
	}
	if r.freshSignIn || r.subject != "" || r.maxAge > 0 {
		values = s.forms.withTime(values, s.options.Now())
	}
	if hint := values.Get("login_hint"); hint != "" {
		page = places.WithParameter(page, places.LoginHintField, hint)
	}
	back := s.site.Own(authorizePath) + "?" + values.Encode()
	ex.Decision = web.DecisionChallenge
	s.redirect(ex, ex.SignInPlace(page, places.Return{Path: back, Demand: demand}))
	return nil
}

// grant gives the client a code.
func (s *authorization) grant(ex *web.Exchange, r *request, id *policy.Identity) error {
	code, err := s.grants.NewCode(&ex.Store, id, grants.Code{
		Terms: r.terms, RedirectURI: r.redirect, Challenge: r.challenge,
	})
	if err != nil {
		return stale(err)
	}
	s.authorized(ex, r.client, &r.terms)
	s.send(ex, r, s.complete(r, url.Values{"code": {code}}))
	return nil
}

// authorized notes that the user has let a client in.
func (s *authorization) authorized(ex *web.Exchange, client *clients.Client, t *grants.Terms) {
	s.clients.Keep(client)
	ex.Audit("client_authorized", slog.String("client_id", t.Client), slog.String("resource", t.Resource))
}

func (s *authorization) auditRefused(ex *web.Exchange, client, resource string) {
	ex.Audit("client_refused", slog.String("client_id", client), slog.String("resource", resource))
}

// stale returns the error of a change that a user makes for a client: a login, a consent or a code
// that was found a moment ago may have ended.
func stale(err error) error {
	if errors.Is(err, grants.ErrInvalid) || errors.Is(err, grants.ErrNoConsent) || errors.Is(err, grants.ErrNoDevice) {
		return endpoint.Stale(err)
	}
	return err
}
